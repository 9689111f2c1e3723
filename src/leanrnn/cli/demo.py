"""``leanrnn demo``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leanrnn.cli.parsing import MaybeInt
from leanrnn.cli.printing import print_json
from leanrnn.errors import ConfigError

__all__ = ["Demo"]


@dataclass(frozen=True)
class Demo:
    """Train a small language model at full size and to a quarter of its mult-adds, side by side, compare, export, and
    show both in pages. Some six minutes; no data is downloaded."""

    out: Path = Path("leanrnn-demo")
    """Folder for the two runs, their files and pages. After an interruption, the same command continues."""
    epochs: MaybeInt = None
    """Passes over the text, for both; 12 if not given."""
    seed: int = 1
    """Seed of the first weights."""
    threads: MaybeInt = None
    """Threads PyTorch may use."""
    json: bool = False
    """Print the results as JSON at the end."""

    def run(self) -> None:
        """The whole story."""
        from leanrnn.environment import hold_memory
        from leanrnn.lab.demo import demo

        if self.epochs is not None and self.epochs < 1:
            raise ConfigError(f"epochs is {self.epochs}. Give at least 1.")
        hold_memory()
        results = demo.demonstrate(self.out, threads=self.threads, seed=self.seed, epochs=self.epochs)
        if self.json:
            print_json(results)
