"""Train in processes that are killed, over and over: ``python -m tests.support.killing FOLDER KIND`` prints how many
were. Components leave by a penalty, or to a budget.

Children are forked from this process, which has imported everything and computed nothing: importing torch anew for each
would take longer than they live, and a process that has computed gradients cannot be forked.
"""

import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import torch

from leanrnn.lab import Config
from tests.support import tiny

PLACES = [
    *(("leanrnn.lab.runs.save", n) for n in (1, 7)),  # before the model is written
    *(("leanrnn.lab.runs.write_tensors", n) for n in (2, 8)),  # a model without the rest
    *(("leanrnn.lab.runs.digest", n) for n in (3, 9)),
    *(("leanrnn.lab.runs.to_disk", n) for n in (5, 6, 12)),  # between the files
    *(("leanrnn.sparsify.compaction.cut_", n) for n in (1, 1, 1)),  # a compaction that has begun
    *(
        ("leanrnn.sparsify.compaction.replace_parameters_", n) for n in (1, 1, 1)
    ),  # a cut model, an optimizer that is not
    *(("leanrnn.lab.language.loop._end_of_epoch", n) for n in (1, 1)),
]
CHANCES = 20
FEWER = [("leanrnn.lab.runs.write_tensors", 3), ("leanrnn.sparsify.gradual.keep_within", 2)]
FEWER += [("leanrnn.sparsify.compaction.cut_", 1), ("leanrnn.sparsify.compaction.replace_parameters_", 3)]
KINDS = {"penalty": (tiny.SPARSE, PLACES, CHANCES), "budget": (tiny.BUDGET, FEWER, 4)}
"""Settings, places, and moments of chance."""


def deadly(module: str, name: str, count: int) -> None:
    """Let the ``count``-th call of a function be the end of this process."""
    real, left = getattr(sys.modules[module], name), [count]

    def call(*args: object, **kwargs: object) -> object:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)

    setattr(sys.modules[module], name, call)


def child(folder: Path, config: Config, prepare: Callable[[], None], save_seconds: float) -> int:
    """A process that trains in ``folder``; its number."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            torch.set_num_threads(1)
            prepare()
            tiny.go(folder, config, save_seconds=save_seconds)
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return process


def attempt(folder: Path, config: Config, place: str, count: int, seconds: float) -> bool:
    """A process that is to die at a place, or after a time: whether it did, for it may have come to the end before."""
    module, _, name = place.rpartition(".")
    process = child(folder, config, lambda: deadly(module, name, count) if name else None, 0.05)
    if not place:
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(process, 0)[1])


def main(parent: Path, kind: str) -> None:
    """Runs one after another until every plan has killed once: how many runs that takes depends on the machine."""
    chance = random.Random(0)
    config, places, chances = KINDS[kind]
    for place, _ in places:
        import_module(place.rpartition(".")[0])  # once, not in every child
    plans: list[tuple[str, int]] = [*places, *[("", 0)] * chances]
    chance.shuffle(plans)
    runs, misses = 0, 0
    while plans and misses < 60:
        folder = parent / f"run-{runs}"
        killed = attempt(folder, config, *plans[-1], chance.uniform(0.02, 0.4))
        misses += not killed
        if killed:
            plans.pop()
        elif not (folder / "result.json").exists():
            sys.exit("a process that nobody killed has failed")
        runs += (folder / "result.json").exists()
    folder = parent / f"run-{runs}"
    if folder.exists() and os.waitpid(child(folder, config, lambda: None, 60.0), 0)[1]:
        sys.exit("a process that nobody killed has failed")
    print(len(places) + chances - len(plans))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
