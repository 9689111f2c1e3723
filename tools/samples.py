"""Many of torch's own samples of every operator, or of those named, against what the rules say.

python -m tools.samples               # all operators, which takes minutes; the exit code is 1 if a rule claims too much
python -m tools.samples mm cat        # these
python -m tools.samples --careful     # the axes that rules hold although they could go, once per operator and reason
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from tests.support.brute import kinds_of, wrong
from tests.support.careful import careful, justified
from tests.support.samples import operators, samples

MANY = 4


def claims(info: Any) -> Iterator[str]:
    """What the rules claim of an operator and is not so."""
    for case in samples(info, MANY):
        for kinds in kinds_of(case):
            yield from wrong(case, kinds)


def cares(info: Any) -> Iterator[str]:
    """Where the rules hold more than they have to, once per reason."""
    seen = set()
    for case in samples(info, MANY):
        for text in careful(case):
            key = (text.split()[0], text.rpartition(": ")[2])
            if key not in seen:
                seen.add(key)
                why = justified(text)
                yield f"{text} ({why})" if why else f"TOO CAREFUL {text}"


def main() -> int:
    """Look, print what was found, and count it."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m tools.samples", description=__doc__, formatter_class=form)
    parser.add_argument("names", nargs="*", help="of operators; all if none is given")
    parser.add_argument("--careful", action="store_true", help="list what is held although it could go")
    options = parser.parse_args()
    look = cares if options.careful else claims
    count = 0
    for info in operators():
        torch.manual_seed(0)
        for text in look(info) if not options.names or info.name in options.names else ():
            count += 1
            print(text, flush=True)
    print(f"{count} found", file=sys.stderr)
    return int(count > 0 and look is claims)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # torch warns of its own operators
    sys.exit(main())
