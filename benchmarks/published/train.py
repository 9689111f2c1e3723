"""A published model made smaller: Resemblyzer's voice encoder, three LSTM layers of 256 units with their real weights.

make published                                        # all of it, in an environment of its own
python -m benchmarks published train FOLDER --now     # with the runs that are there, no more
python -m benchmarks published train FOLDER --time    # only the timing, of the files an earlier run left in FOLDER
python -m benchmarks published train FOLDER --table   # only the tables of docs/a-published-model.md

FOLDER has the speech (see `published speech`). The small models learn the original's own embeddings: no labels are
needed. One was cut to a budget with `leanrnn.refit`, the other evenly, by the size of the norms. A run that ended in
the middle goes on with the runs that are missing; remove FOLDER/runs.json to begin anew.
"""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

import leanrnn
from benchmarks.common import DOCS, RESULTS, between_marks, spread, write
from benchmarks.published.quality import FIRST, KINDS, MODELS, counted, judge, judged, said, tables
from benchmarks.published.speech import FRAMES, Speech, packages, pool, read
from leanrnn.deploy import in_turns
from leanrnn.groups import count_weights

PAGE = DOCS / "a-published-model.md"
PACKAGES = ("Resemblyzer", "librosa", "torch", "numpy", "scipy")
POOL = 8_000  # readings to learn from
BATCH = 16
BUDGET = leanrnn.Budget(mult_adds="50%")
FITTED = 24  # batches that the cut model is fitted to
STEPS = 1200
RATE = 1e-3  # of Adam, to begin the search with; in training it goes down to zero in a line
SEEDS = (1, 2, 3)
CHANNELS = 40  # of a frame
HEARD = 20  # frames from one embedding to learn to the next
ROUNDS = 100  # of timing
CUTS = {"ours": "ours_cut", "even": "even_cut"}  # a model that is trained, and what it is before


class Lesson(NamedTuple):
    """Readings (number, frames, channels) and what the original makes of them, every so many frames."""

    mels: Tensor
    wanted: Tensor

    def batches(self, steps: int, seed: int) -> Iterator[Lesson]:
        """Random ones, ``steps`` times."""
        generator = torch.Generator().manual_seed(seed)
        for _ in range(steps):
            chosen = torch.randint(len(self.mels), (BATCH,), generator=generator)
            yield Lesson(self.mels[chosen], self.wanted[chosen])


def encoder() -> nn.Module:
    """The model as its package gives it."""
    from resemblyzer import VoiceEncoder

    model: nn.Module = VoiceEncoder("cpu", verbose=False)
    return model.eval()


@torch.no_grad()
def embed(model: nn.Module, mels: Tensor) -> Tensor:
    """Embeddings of many readings."""
    return torch.cat([model(part) for part in torch.split(mels, 64)])


def followed(model: Any, mels: Tensor) -> Tensor:
    """The embeddings if the readings ended here, every so many frames: the model's own forward, not only at the end."""
    outputs, _ = model.lstm(mels)
    return normalize(model.linear(outputs[:, HEARD - 1 :: HEARD]).relu(), dim=-1)


@torch.no_grad()
def lesson(mels: Tensor) -> Lesson:
    """What the original makes of these readings."""
    original = encoder()
    return Lesson(mels, torch.cat([followed(original, part) for part in torch.split(mels, 64)]))


def cut(arm: str, data: Lesson, seed: int) -> nn.Module:
    """The original at half of its mult-adds: ours, or all layers by the same factor by the size of the norms."""
    model, example = encoder(), data.mels[:2, :20]
    groups = leanrnn.discover(model, example)
    if arm == "ours":
        batches = [batch.mels for batch in data.batches(FITTED, seed=100 + seed)]
        return leanrnn.refit(model, groups, batches, budget=BUDGET, output=followed)
    limits = BUDGET.limits(groups)
    widths = (dict.fromkeys(groups.names, width) for width in range(max(groups.widths.values()), 0, -1))
    return leanrnn.shrink(model, groups, keep_widths=next(w for w in widths if limits.hold(w)))


def train(model: nn.Module, data: Iterator[Lesson], rate: float) -> float:
    """An ordinary loop, whose loss is one less the cosine to the original's embeddings; seconds of the processor."""
    optimizer, start = torch.optim.Adam(model.train().parameters(), lr=rate), time.process_time()
    slower = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / STEPS)
    for mels, wanted in data:
        loss = 1 - (followed(model, mels) * wanted).sum(-1).mean()  # embeddings have length one
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        slower.step()
    model.eval()
    return time.process_time() - start


class Runs:
    """The runs of a folder: which there are, with what came out on the speech for tuning, and their models."""

    def __init__(self, folder: Path, speech: Speech) -> None:
        self.folder, self.file = folder, folder / "runs.json"
        self.done: list[dict[str, Any]] = json.loads(self.file.read_text()) if self.file.exists() else []
        self.sets = {name: each[:10] for name, each in judged(speech, "tuning").items()}
        self.speech = speech

    @cached_property
    def data(self) -> Lesson:
        """What is learned."""
        return lesson(torch.from_numpy(pool(self.speech.train, POOL, seed=0)))

    @cached_property
    def wanted(self) -> Tensor:
        """What the original says of the speech for tuning."""
        return said(partial(embed, encoder()), self.sets)

    def get(self, arm: str, rate: float, seed: int) -> dict[str, Any]:
        """A run; done if it is missing."""
        key = {"arm": arm, "rate": rate, "seed": seed}
        for run in self.done:
            if key.items() <= run.items():
                return run
        torch.manual_seed(seed)
        if not (file := self.path(CUTS[arm], 0, seed)).exists():
            leanrnn.save(cut(arm, self.data, seed), file)
        small = leanrnn.load(file, encoder)
        seconds = train(small, self.data.batches(STEPS, seed=seed), rate)
        leanrnn.save(small, self.path(arm, rate, seed))
        found = judge(said(partial(embed, small), self.sets), self.wanted, self.sets)
        run = key | {"cosine": found["cosine"], "equal_error_rate": found["equal_error_rate"], "seconds": seconds}
        print(run, flush=True)
        self.done.append(run)
        self.file.write_text(json.dumps(self.done, indent=1))
        return run

    def missing(self, arm: str) -> float | None:
        """The next learning rate to try with the first seed, by factors of two, until the best cosine has a worse one
        on either side."""
        found = self._tried(arm)
        for rate in (RATE, 2 * RATE):
            if rate not in found:
                return rate
        best = self.best(arm)
        return best * 2 if best == max(found) else best / 2 if best == min(found) else None

    def best(self, arm: str) -> float:
        """The learning rate of the best cosine so far."""
        found = self._tried(arm)
        return max(found, key=lambda rate: found[rate])

    def _tried(self, arm: str) -> dict[float, float]:
        return {run["rate"]: run["cosine"] for run in self.done if run["arm"] == arm and run["seed"] == SEEDS[0]}

    def finish(self) -> None:
        """All that is missing."""
        for arm in CUTS:
            while (rate := self.missing(arm)) is not None:
                self.get(arm, rate, SEEDS[0])
        for seed in SEEDS:
            for arm in CUTS:
                self.get(arm, self.best(arm), seed)

    def seeds(self) -> list[int]:
        """The seeds that all arms ran with, at their best learning rates."""
        there = {(run["arm"], run["rate"], run["seed"]) for run in self.done}
        return [seed for seed in SEEDS if all((arm, self.best(arm), seed) in there for arm in CUTS)]

    def path(self, name: str, rate: float, seed: int) -> Path:
        """Where a model is kept."""
        return self.folder / f"{name}-{rate:g}-{seed}.safetensors"

    def models(self) -> dict[str, list[nn.Module]]:
        """All that are judged: what was trained with every seed, and what it was before with the first."""
        files = {before: [self.path(before, 0, SEEDS[0])] for before in CUTS.values()}
        files |= {arm: [self.path(arm, self.best(arm), seed) for seed in self.seeds()] for arm in CUTS}
        found = {name: [leanrnn.load(file, encoder).eval() for file in each] for name, each in files.items()}
        return {name: found.get(name) or [encoder()] for name in MODELS}


def compare(models: dict[str, list[nn.Module]], speech: Speech) -> dict[str, Any]:
    """The quality of all models, on both kinds of speech they never heard."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        sets = judged(speech, kind)
        says = {name: [said(partial(embed, m), sets) for m in each] for name, each in models.items()}
        found[kind] = {name: [judge(own, says[FIRST][0], sets) for own in each] for name, each in says.items()}
    return found


def mult_adds(model: nn.Module) -> int:
    """Multiplications with addition for a frame: every weight of an LSTM makes one."""
    return sum(p.numel() for name, p in model.named_parameters() if name.startswith("lstm.weight"))


def sizes(model: nn.Module) -> dict[str, Any]:
    """Widths of the layers, weights, mult-adds of a frame."""
    widths = [p.shape[1] for name, p in model.named_parameters() if "weight_hh" in name]
    return {"widths": widths, "weights": count_weights(model), "mult_adds": mult_adds(model)}


def clock(models: dict[str, nn.Module], rounds: int) -> dict[str, Any]:
    """How many times faster than the original."""
    found: dict[str, Any] = {}
    for name, number in (("one reading", 1), ("32 readings", 32)):
        mels = torch.rand(number, FRAMES, CHANNELS)
        calls = {key: partial(embed, model, mels) for key, model in models.items()}
        took = in_turns(calls, rounds=rounds, turn=1, warm_up=0)
        seconds = {key: own[3:] for key, own in took.items()}  # the first rounds warm up
        ratios = {key: [a / b for a, b in zip(seconds[FIRST], own, strict=True)] for key, own in seconds.items()}
        found[name] = {key: spread(ratio) for key, ratio in ratios.items()}
        found[name]["milliseconds_of_the_original"] = spread(seconds[FIRST])["median"] * 1e3
    return found


def everything(folder: Path, now: bool) -> dict[str, Any]:
    """Models, sizes and quality; speed is measured apart, when nothing else runs."""
    speech = read(folder)
    runs = Runs(folder, speech)
    if not now:
        runs.finish()
    models = runs.models()
    return {
        "versions": {"leanrnn": leanrnn.__version__, **{name: metadata.version(name) for name in PACKAGES}},
        "speech": {"packages": packages(folder), "sets": counted(speech)},
        "readings": POOL,
        "steps": STEPS,
        "rates": {arm: runs.best(arm) for arm in CUTS},
        "tuned": all(runs.missing(arm) is None for arm in CUTS),
        "seeds": runs.seeds(),
        "runs": runs.done,
        "sizes": {name: [sizes(model) for model in models[name]] for name in (FIRST, *CUTS)},
        "quality": compare(models, speech),
    }


def timed(folder: Path) -> dict[str, nn.Module]:
    """The original and the trained models of the first seed."""
    models = Runs(folder, read(folder)).models()
    return {name: models[name][0] for name in (FIRST, *CUTS)}


def main(parser: ArgumentParser, words: Sequence[str]) -> None:
    """Learn, judge, measure, write."""
    parser.add_argument("folder", type=Path)
    parser.add_argument("--now", action="store_true", help="judge the runs that are there, and measure no time")
    parser.add_argument("--time", action="store_true", help="only measure speed again")
    parser.add_argument("--table", action="store_true", help="only write the tables again")
    parser.add_argument("--out", type=Path, default=RESULTS / "published.json")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    if not options.time and not options.table:
        write(options.out, everything(options.folder, options.now))
    result = json.loads(options.out.read_text())
    if not options.table and not options.now:
        result["speed"] = clock(timed(options.folder), ROUNDS)
        write(options.out, result)
    PAGE.write_text(between_marks(PAGE.read_text(), tables(result)))
