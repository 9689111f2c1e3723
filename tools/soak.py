"""Thousands of random architectures: each is discovered, zeroed by hand, shrunk and compared at 1e-12.

python -m tools.soak                          # seeds 0 to 9999, an hour or two; goes on where it stopped
python -m tools.soak --count 50 --out trial.json

A seed makes one model. A mismatch, an exception or a width that only the proof took back is printed with its seed;
``python -m tools.soak --seed 17`` runs that one alone and shows it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: threads of two processes only wait for each other

import torch

from benchmarks.common import RESULTS, write
from tests.support.architectures import build
from tests.support.soaking import Outcome, examine

LOG_EVERY = 500


def one(seed: int) -> Outcome:
    """What became of the model of one seed; an exception is a fault."""
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    rng = random.Random(seed)
    try:
        return examine(build(rng), rng)
    except Exception as error:
        return Outcome(faults=[f"{type(error).__name__}: {error}"])


def outcomes(seeds: range, jobs: int) -> Iterator[tuple[int, Outcome]]:
    """Outcomes in the order of the seeds."""
    if jobs == 1:
        yield from ((seed, one(seed)) for seed in seeds)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        yield from zip(seeds, pool.map(one, seeds, chunksize=10), strict=True)


class Tally:
    """Everything seen so far, in a form that can be written down and read again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        old = json.loads(path.read_text()) if path.exists() else {}
        self.models, self.cuts, self.seconds = (old.get(key, 0) for key in ("models", "layers_cut", "seconds"))
        self.offered, self.pinned, self.reasons = (Counter(old.get(k, {})) for k in ("offered", "pinned", "reasons"))
        self.mismatches: list[Any] = old.get("mismatches", [])
        self.only_proof: list[Any] = old.get("taken_back_by_the_proof", [])
        self.started = time.perf_counter() - self.seconds

    def add(self, seed: int, outcome: Outcome) -> None:
        """Count one model."""
        self.models, self.cuts = seed + 1, self.cuts + outcome.cut
        self.offered.update({kind: len(names) for kind, names in outcome.offered.items()})
        self.pinned.update({kind: len(reasons) for kind, reasons in outcome.pinned.items()})
        self.reasons.update(_plain(reason) for reasons in outcome.pinned.values() for reason in reasons)
        for found, where in ((outcome.faults, self.mismatches), (outcome.dropped, self.only_proof)):
            for text in (message.replace(f"{Path(__file__).parents[1]}{os.sep}", "") for message in found):
                print(f"seed {seed}: {text}", flush=True)
                where.append({"seed": seed, "what": text})

    def save(self) -> None:
        """Write the tally down, so that a later run goes on from here."""
        self.seconds = round(time.perf_counter() - self.started, 1)
        result = {"models": self.models, "layers_cut": self.cuts, "seconds": self.seconds}
        result |= {"mismatches": self.mismatches, "taken_back_by_the_proof": self.only_proof}
        for name in ("offered", "pinned", "reasons"):
            result[name] = dict(getattr(self, name).most_common())
        write(self.path, result)

    def __str__(self) -> str:
        offered, pinned = self.offered.total(), self.pinned.total()
        return (
            f"{self.models} models, {self.cuts} layers cut, {len(self.mismatches)} mismatches, {len(self.only_proof)} "
            f"taken back by the proof, {offered} widths offered and {pinned} pinned, {self.seconds:.0f} s"
        )


def _plain(reason: str) -> str:
    """A reason without the numbers and places that differ from model to model."""
    return re.sub(r"\d[\d.e+-]*", "N", reason.split(" at /")[0].split(" at ")[0])


def main() -> int:
    """Run the seeds that are still to do; the exit code is 1 if anything was wrong."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m tools.soak", description=__doc__, formatter_class=form)
    parser.add_argument("--count", type=int, default=10_000, help="how many models in all")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, help="examine this one alone")
    parser.add_argument("--out", type=Path, default=RESULTS / "soak.json")
    options = parser.parse_args()
    if options.seed is not None:
        rng = random.Random(options.seed)
        built = build(rng)
        print(built.model)
        print(examine(built, rng))
        return 0
    tally = Tally(options.out)
    for seed, outcome in outcomes(range(tally.models, options.count), options.jobs):
        tally.add(seed, outcome)
        if tally.models % LOG_EVERY == 0:
            tally.save()
            print(tally, flush=True)
    tally.save()
    print(tally)
    return int(bool(tally.mismatches or tally.only_proof))


if __name__ == "__main__":
    sys.exit(main())
