"""Complete named configurations, and the loop that trains them. ``leanrnn ls`` lists the names."""

from leanrnn.recipes.config import Config
from leanrnn.recipes.names import RECIPES, named
from leanrnn.recipes.recipe import Recipe

__all__ = ["RECIPES", "Config", "Recipe", "named"]
