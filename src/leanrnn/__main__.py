"""``python -m leanrnn`` is ``leanrnn``."""

import sys

from leanrnn.cli import main

if __name__ == "__main__":
    sys.exit(main())
