"""Programs for those who work on leanrnn: ``python -m tools.soak``, ``tools.samples`` and ``tools.operators``, from the
project's root."""
