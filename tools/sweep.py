"""Many of torch's own samples of every operator, or of those named, against what the rules say.

``--careful`` lists instead the axes that rules hold although they could go, once per operator and reason.
"""

from __future__ import annotations

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


def main(arguments: list[str]) -> int:
    names = [a for a in arguments if not a.startswith("-")]
    look = cares if "--careful" in arguments else claims
    count = 0
    for info in operators():
        torch.manual_seed(0)
        for text in look(info) if not names or info.name in names else ():
            count += 1
            print(text, flush=True)
    print(f"{count} found", file=sys.stderr)
    return int(count > 0 and look is claims)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # torch warns of its own operators
    sys.exit(main(sys.argv[1:]))
