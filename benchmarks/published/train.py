"""A published model made smaller: Resemblyzer's voice encoder, three LSTM layers of 256 units with their real weights.

make published                                        # all of it, in an environment of its own
python -m benchmarks published train FOLDER --time    # only the timing, of the files an earlier run left in FOLDER
python -m benchmarks published train FOLDER --table   # only the tables of docs/a-published-model.md

FOLDER has the speech (see `published speech`). The small model learns the original's own embeddings: no labels are
needed. Beside it stand models cut to the same widths, or to equal ones, by size of the norms, and trained as long.
"""

from __future__ import annotations

import json
import math
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.optim import Optimizer

import leanrnn
from benchmarks.common import DOCS, RESULTS, between_marks, spread, write
from benchmarks.published.quality import KINDS, counted, judge, judged, tables
from benchmarks.published.speech import FRAMES, Speech, packages, pool, read
from leanrnn.deploy import in_turns
from leanrnn.groups import count_weights

PAGE = DOCS / "a-published-model.md"
PACKAGES = ("Resemblyzer", "librosa", "torch", "numpy", "scipy")
POOL = 8_000  # readings to learn from
BATCH = 16
RATE = 1e-3  # of Adam; in recovery it goes down to zero in a line
STRENGTH = 5e-4
CUT = 1.0  # norm under which a group is taken for dead; Adam makes weights flicker around zero
GOAL = 0.5  # of the original's mult-adds is small enough
PENALISED, RECOVERY = 3000, 1500  # steps, of the former at most
SHORT = slice(FRAMES // 4, -FRAMES // 4)  # of a reading, for the steps under the penalty: half of it, for half the time
CHANNELS = 40  # of a frame
HEARD = 20  # frames from one embedding to learn to the next
EVERY = 50  # steps from one compaction to the next
ROUNDS = 100  # of timing
FIRST = "original"
MODELS = {
    FIRST: "the original",
    "lean": "trained smaller",
    "cut": "cut to the same widths",
    "cut_trained": "cut to the same widths, then trained as long",
    "even_trained": "cut evenly, then trained as long",
}


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


def train(model: nn.Module, optimizer: Optimizer, data: Iterator[Lesson], after: Callable[[int, float], bool]) -> float:
    """An ordinary loop, whose loss is one less the cosine to the original's embeddings; the seconds it took.

    After every so many steps ``after`` may say that it is enough.
    """
    start = time.perf_counter()
    for step, (mels, wanted) in enumerate(data, start=1):
        loss = 1 - (followed(model, mels) * wanted).sum(-1).mean()  # embeddings have length one
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % EVERY == 0 and after(step, float(loss)):
            break
    return time.perf_counter() - start


def lean(short: Lesson, whole: Lesson) -> tuple[nn.Module, dict[str, Any]]:
    """Under the penalty, with compaction; then the survivors recover. The widths are what training left."""
    model = encoder().train()
    groups = leanrnn.discover(model, short.mels[:2, :20])
    print(groups, flush=True)
    optimizer, dead = torch.optim.Adam(model.parameters(), lr=RATE), leanrnn.GroupThreshold(CUT)
    sparsifier = leanrnn.Sparsifier(groups, strength=STRENGTH, threshold=dead).attach(optimizer)
    widths, goal = [], GOAL * mult_adds(model)

    def compact(step: int, loss: float) -> bool:
        sparsifier.compact()
        widths.append(list(groups.widths.values()))
        print(f"  step {step:4}: {loss:.3f} from the original, widths {widths[-1]}", flush=True)
        return mult_adds(model) <= goal

    seconds = train(model, optimizer, short.batches(PENALISED, seed=1), compact)
    sparsifier.detach()
    small = leanrnn.shrink(model, groups)
    return small, {"widths": widths, "seconds": [seconds, recover(small, whole, RECOVERY)]}


def recover(model: nn.Module, data: Lesson, steps: int) -> float:
    """Training without a penalty; the seconds it took."""
    optimizer = torch.optim.Adam(model.train().parameters(), lr=RATE)

    def slower(step: int, loss: float) -> bool:
        optimizer.param_groups[0]["lr"] = RATE * (1 - step / steps)
        print(f"  step {step:4}: {loss:.3f} from the original", flush=True)
        return False

    return train(model, optimizer, data.batches(steps, seed=2), slower)


def cut(widths: dict[str, int], example: Tensor) -> nn.Module:
    """The original at these widths: the components of largest norm, and no training."""
    model = encoder()
    return leanrnn.shrink(model, leanrnn.discover(model, example), keep_widths=widths).eval()


def even(widths: dict[str, int]) -> dict[str, int]:
    """The same width for all layers, at about as many mult-adds."""
    first, second, third = widths.values()
    wanted = first * (CHANNELS + first) + second * (first + second) + third * (second + third)
    width = round((-CHANNELS + math.sqrt(CHANNELS**2 + 20 * wanted)) / 10)  # of 5 w² + CHANNELS w = wanted
    return dict.fromkeys(widths, width)


def learn(folder: Path) -> dict[str, Any]:
    """All models, left in the folder, and how the training went."""
    torch.manual_seed(0)
    whole = lesson(torch.from_numpy(pool(read(folder).train, POOL, seed=0)))
    short = lesson(whole.mels[:, SHORT].contiguous())
    models: dict[str, nn.Module] = {FIRST: encoder()}
    models["lean"], story = lean(short, whole)
    widths = leanrnn.discover(models["lean"], whole.mels[:2, :20]).widths
    models["cut"], models["cut_trained"] = (cut(widths, whole.mels[:2, :20]) for _ in range(2))
    models["even_trained"] = cut(even(widths), whole.mels[:2, :20])
    steps = EVERY * len(story["widths"]) + RECOVERY
    story["seconds_of_the_others"] = [recover(models[name], whole, steps) for name in ("cut_trained", "even_trained")]
    for name, model in models.items():
        leanrnn.save(model, folder / f"{name}.safetensors")
    return {"readings": POOL, "last_widths": widths, "training": story}


def load(folder: Path) -> dict[str, nn.Module]:
    """The models an earlier run left."""
    return {name: leanrnn.load(folder / f"{name}.safetensors", encoder).eval() for name in MODELS}


def compare(models: dict[str, nn.Module], speech: Speech) -> dict[str, Any]:
    """The quality of all models, on both kinds of speech they never heard."""
    embeds, sets = (
        {name: partial(embed, model) for name, model in models.items()},
        {k: judged(speech, k) for k in KINDS},
    )
    return {k: {name: judge(own, embeds[FIRST], sets[k]) for name, own in embeds.items()} for k in KINDS}


def mult_adds(model: nn.Module) -> int:
    """Multiplications with addition for a frame: every weight of an LSTM makes one."""
    return sum(p.numel() for name, p in model.named_parameters() if name.startswith("lstm.weight"))


def sizes(model: nn.Module, path: Path) -> dict[str, Any]:
    """Widths of the layers, weights, mult-adds of a frame, bytes of the file."""
    widths = [p.shape[1] for name, p in model.named_parameters() if "weight_hh" in name]
    return {
        "widths": widths,
        "weights": count_weights(model),
        "mult_adds": mult_adds(model),
        "bytes": path.stat().st_size,
    }


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


def everything(folder: Path) -> dict[str, Any]:
    """Models, sizes and quality; speed is measured apart, when nothing else runs."""
    speech = read(folder)
    story, models = learn(folder), load(folder)
    return {
        "models": MODELS,
        "versions": {"leanrnn": leanrnn.__version__, **{name: metadata.version(name) for name in PACKAGES}},
        "speech": {"packages": packages(folder), "sets": counted(speech)},
        **story,
        "sizes": {name: sizes(model, folder / f"{name}.safetensors") for name, model in models.items()},
        "quality": compare(models, speech),
    }


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Learn, judge, measure, write."""
    parser.add_argument("folder", type=Path)
    parser.add_argument("--time", action="store_true", help="only measure speed again")
    parser.add_argument("--table", action="store_true", help="only write the tables again")
    parser.add_argument("--out", type=Path, default=RESULTS / "published.json")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    if not options.time and not options.table:
        write(options.out, everything(options.folder))
    result = json.loads(options.out.read_text())
    if not options.table:
        result["speed"] = clock(load(options.folder), ROUNDS)
        write(options.out, result)
    PAGE.write_text(between_marks(PAGE.read_text(), tables(result)))
