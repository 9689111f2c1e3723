"""A published model made smaller: Resemblyzer's voice encoder, three LSTM layers of 256 units with their real weights.

make published                                             # all of it, in an environment of its own
python benchmarks/published.py FOLDER --time               # only the timing, of the files an earlier run left in FOLDER
python benchmarks/published.py FOLDER --table              # only the tables of docs/a-published-model.md

FOLDER has the speech (see published_speech.py). The small model learns to give the original's own embeddings: no labels
are needed. Beside it stand a model cut to the same widths by size of the norms, and that one trained for as many steps.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import leanrnn
import numpy as np
import torch
from common import RESULTS, spread, write
from numpy.typing import NDArray
from published_speech import FRAMES, Speech, fetch, language, pool, read, utterances
from resemblyzer import VoiceEncoder
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.utils.flop_counter import FlopCounterMode

PAGE = Path(__file__).parents[1] / "docs" / "a-published-model.md"
PACKAGES = ("leanrnn", "Resemblyzer", "librosa", "torch", "numpy", "scipy")
POOL = 12_000  # readings to learn from
BATCH = 16
RATE = 1e-3  # of Adam, going down to zero in a line while the survivors recover
STRENGTH = 30.0
PENALISED, RECOVERY = 400, 3000  # steps
EVERY = 50  # steps from one compaction to the next
NAMES = {"original": "original", "lean": "trained smaller", "cut": "cut", "cut_trained": "cut, then trained"}


def encoder() -> VoiceEncoder:
    """The model as its package gives it."""
    return VoiceEncoder("cpu", verbose=False).eval()


@torch.no_grad()
def embed(model: nn.Module, windows: NDArray[np.float32]) -> Tensor:
    """Embeddings of many readings (number, frames, channels)."""
    return torch.cat([model(part) for part in torch.from_numpy(windows).split(64)])


def distance(model: nn.Module, mels: Tensor, wanted: Tensor) -> Tensor:
    """One less the cosine between a model's embeddings and the original's; both have length one."""
    return 1 - (model(mels) * wanted).sum(1).mean()


def batches(mels: Tensor, wanted: Tensor, steps: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Random readings with the embeddings to learn, ``steps`` times."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        chosen = torch.randint(len(mels), (BATCH,), generator=generator)
        yield mels[chosen], wanted[chosen]


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: Iterator[tuple[Tensor, Tensor]],
    after: Callable[[int, float], object],
) -> float:
    """An ordinary loop; the seconds it took."""
    start = time.perf_counter()
    for step, (mels, wanted) in enumerate(data, start=1):
        loss = distance(model, mels, wanted)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % EVERY == 0:
            after(step, float(loss))
    return time.perf_counter() - start


def lean(mels: Tensor, wanted: Tensor) -> tuple[nn.Module, dict[str, Any]]:
    """Under the penalty, with compaction; then the survivors recover. The widths are what training left."""
    model = encoder().train()
    groups = leanrnn.discover(model, mels[:2, :20])
    print(groups, flush=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    sparsifier = leanrnn.Sparsifier(groups, strength=STRENGTH, mode="proximal").attach(optimizer)
    widths = []

    def compact(step: int, loss: float) -> None:
        sparsifier.compact()
        widths.append(list(groups.widths.values()))
        print(f"  step {step:4}: {loss:.4f} from the original, widths {widths[-1]}", flush=True)

    seconds = train(model, optimizer, batches(mels, wanted, PENALISED, 1), compact)
    sparsifier.detach()
    small = leanrnn.shrink(model, groups)
    return small, {"widths": widths, "seconds": [seconds, recover(small, mels, wanted, RECOVERY)]}


def recover(model: nn.Module, mels: Tensor, wanted: Tensor, steps: int) -> float:
    """Training without a penalty; the seconds it took."""
    optimizer = torch.optim.Adam(model.train().parameters(), lr=RATE)

    def slower(step: int, loss: float) -> None:
        optimizer.param_groups[0]["lr"] = RATE * (1 - step / steps)
        if step % 500 == 0:
            print(f"  step {step:4}: {loss:.4f} from the original", flush=True)

    seconds = train(model, optimizer, batches(mels, wanted, steps, 2), slower)
    model.eval()
    return seconds


def cut(widths: dict[str, int], mels: Tensor) -> nn.Module:
    """The original at these widths: the components of largest norm, and no training."""
    model = encoder()
    return leanrnn.shrink(model, leanrnn.discover(model, mels[:2, :20]), keep_widths=widths).eval()


def equal_error(same: NDArray[np.float64], different: NDArray[np.float64]) -> float:
    """The share of wrong answers at the threshold where as many are wrong of either kind."""
    thresholds = np.sort(np.concatenate([same, different]))
    missed = np.searchsorted(np.sort(same), thresholds) / len(same)
    taken = 1 - np.searchsorted(np.sort(different), thresholds) / len(different)
    best = np.abs(missed - taken).argmin()
    return float(missed[best] + taken[best]) / 2


def judge(model: nn.Module, original: nn.Module, mels: dict[str, Any]) -> dict[str, float]:
    """How near the embeddings are to the original's, and how well they tell speakers apart."""
    cut = {name: u for name, mel in mels.items() if len(u := utterances(mel)) >= 3}
    owners = [name for name, u in cut.items() for _ in range(len(u))]
    windows = np.concatenate(list(cut.values()))
    mine, theirs = (embed(m, windows.reshape(-1, *windows.shape[2:])) for m in (model, original))
    near = (mine * theirs).sum(1)
    voices = normalize(mine.view(len(windows), -1, mine.shape[1]).mean(1)).double()
    scores = (voices @ voices.T).numpy()
    same, different, other = pairs(owners)
    np.fill_diagonal(scores, -1.0)
    nearest = [owners[i] == owners[int(scores[i].argmax())] for i in range(len(owners))]
    return {
        "sets": len(cut),
        "utterances": len(owners),
        "cosine": float(near.mean()),
        "cosine_lowest_5_percent": float(near.quantile(0.05)),
        "equal_error_rate": equal_error(scores[same], scores[different]),
        "nearest_is_same_set": float(np.mean(nearest)),
        "cosine_of_different_sets": float(scores[other].mean()),
    }


def pairs(owners: list[str]) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Pairs of one set, pairs of different languages (within one it may be the same person), and the latter again."""
    names, tongues = np.array(owners), np.array([language(name) for name in owners])
    upper = np.triu(np.ones((len(names), len(names)), dtype=bool), 1)
    same = (names[:, None] == names) & upper
    different = (tongues[:, None] != tongues) & upper
    return same, different, different


if __name__ == "__main__":
    import sys
    s = read(Path(sys.argv[1]))
    o = encoder()
    print(judge(o, o, s.speakers)); print(judge(o, o, s.sentences))
