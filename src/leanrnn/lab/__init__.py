"""Complete named configurations, and the loop that trains them. ``leanrnn ls`` lists the names."""

from leanrnn.lab.language.config import Config
from leanrnn.lab.names import RECIPES, named
from leanrnn.lab.recipe import Recipe

__all__ = ["RECIPES", "Config", "Recipe", "named"]
