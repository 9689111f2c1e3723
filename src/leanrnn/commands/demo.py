"""``leanrnn demo``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Demo"]


@dataclass(frozen=True)
class Demo:
    """Train a small language model dense and lean, shrink it, compare. No download, about two minutes."""

    out: Path = Path("leanrnn-demo")
    """Folder for the two trained models."""
    epochs: int = 4
    """Passes over the text for the dense model; the lean one makes twice as many, in less time."""
    threads: int = 1
    """Threads PyTorch may use; more help only if nothing else runs."""

    def run(self) -> None:
        """The whole story."""
        from leanrnn import demo

        demo.run(self.out, count=self.epochs, threads=self.threads)
