"""Every number of the pages comes from a program here. Run them from the project's root.

python -m benchmarks                        # this list
python -m benchmarks ptb train --help       # what a program does and takes
python -m benchmarks --write                # the list in benchmarks/README.md
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from importlib import import_module

from benchmarks.index import README, find, listing, rows


def main(words: list[str]) -> None:
    """Run the program that was named, or list all of them."""
    if found := find(words):
        program, rest = found
        module = import_module(program.module)  # only now: the list is there without torch
        form = RawDescriptionHelpFormatter
        parser = ArgumentParser(prog=program.command, description=module.__doc__, formatter_class=form)
        module.main(parser, rest)
    elif words in ([], ["-h"], ["--help"]):
        print(f"{__doc__}\n{listing()}")
    elif words == ["--write"]:
        from benchmarks.common import between_marks, table

        index = table(["command", "what it answers", "takes"], rows())
        README.write_text(between_marks(README.read_text(), index, "index,"))
    elif several := listing(words[0]):
        if words[1:] not in ([], ["-h"], ["--help"]):
            sys.exit(f"{words[0]} has no program {words[1]!r}. It has\n{several}")
        print(several)
    else:
        sys.exit(f"No program is called {words[0]!r}. There are\n{listing()}")


if __name__ == "__main__":
    main(sys.argv[1:])
