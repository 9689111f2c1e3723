"""The command line: ``leanrnn COMMAND``. A file a command; this package holds no mathematics."""

from leanrnn.cli.main import main

__all__ = ["main"]
