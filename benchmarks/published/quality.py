"""How good a small voice encoder is beside the original, and the tables that say so in docs/a-published-model.md."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from benchmarks.common import table
from benchmarks.published.speech import PARTIALS, Floats, Speech, language, utterances

FEWEST = 3  # utterances of a set that is judged
FIRST = "original"
MODELS = {
    FIRST: "the original",
    "ours_cut": "ours, cut to a budget",
    "even_cut": "cut evenly",
    "ours": "ours, then trained",
    "even": "cut evenly, then trained as long",
}
KINDS = {"speakers": "new speakers", "sentences": "new sentences of speakers heard in training"}
Embed = Callable[[Tensor], Tensor]
Pairs = NDArray[np.bool_]


def judged(speech: Speech, kind: str) -> dict[str, Floats]:
    """Utterances by set, of the sets that have enough of them."""
    cut = {name: utterances(mel) for name, mel in getattr(speech, kind).items()}
    return {name: found for name, found in cut.items() if len(found) >= FEWEST}


def counted(speech: Speech) -> dict[str, Any]:
    """How much speech there is of each kind."""
    minutes = sum(len(mels[0]) for mels in speech.train.values()) / 6000  # 100 frames a second
    found: dict[str, Any] = {"train": {"sets": len(speech.train), "minutes": round(minutes, 1)}}
    for kind in ("tuning", *KINDS):
        sets = judged(speech, kind)
        found[kind] = {"sets": len(sets), "utterances": sum(map(len, sets.values())), "names": list(sets)}
    return found


def said(model: Embed, sets: dict[str, Floats]) -> Tensor:
    """The embeddings of all readings."""
    return model(torch.from_numpy(np.concatenate(list(sets.values()))).flatten(0, 1))


def judge(mine: Tensor, theirs: Tensor, sets: dict[str, Floats]) -> dict[str, float]:
    """How near a model's embeddings are to the original's, and how well they tell speakers apart; both from
    :func:`said`."""
    owners = np.repeat(list(sets), [len(each) for each in sets.values()])
    near = (mine * theirs).sum(1)
    voices = normalize(mine.view(len(owners), PARTIALS, -1).mean(1)).double()
    scores = (voices @ voices.T).numpy()
    same, different = pairs(owners)
    nearest = (scores - 3 * np.eye(len(scores))).argmax(1)
    return {
        "cosine": float(near.mean()),
        "cosine_lowest_twentieth": float(near.quantile(0.05)),
        "cosine_of_two_speakers": float(scores[different].mean()),
        "equal_error_rate": equal_error(scores[same], scores[different]),
        "nearest_of_same_set": float((owners == owners[nearest]).mean()),
    }


def pairs(owners: NDArray[np.str_]) -> tuple[Pairs, Pairs]:
    """Pairs of one set, and of different languages: two sets of one language may be the same person."""
    tongues = np.array([language(name) for name in owners])
    upper = np.triu(np.ones((len(owners), len(owners)), dtype=bool), 1)
    return (owners[:, None] == owners) & upper, (tongues[:, None] != tongues) & upper


def equal_error(same: NDArray[np.float64], different: NDArray[np.float64]) -> float:
    """The share of wrong answers at the threshold where as many are wrong of either kind."""
    thresholds = np.sort(np.concatenate([same, different]))
    missed = np.searchsorted(np.sort(same), thresholds) / len(same)
    taken = 1 - np.searchsorted(np.sort(different), thresholds) / len(different)
    best = np.abs(missed - taken).argmin()
    return float(missed[best] + taken[best]) / 2


def tables(result: dict[str, Any]) -> str:
    """What stands between the marks of the page."""
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    parts = [_size_and_speed(result)]
    for kind, title in KINDS.items():
        amount = result["speech"]["sets"][kind]
        parts.append(f"### Quality, {title}: {amount['utterances']} utterances of {amount['sets']} sets")
        parts.append(_quality(result["quality"][kind]))
    rates = ", ".join(f"{rate:g} ({MODELS[name]})" for name, rate in result["rates"].items())
    seeds = len(result["seeds"])
    parts.append(
        f"{seeds} seed{'s' * (seeds > 1)}, {result['steps']} steps. Learning rates: {rates}"
        + (", chosen as above." if result["tuned"] else "; the search for them has not ended.")
    )
    return "\n\n".join([*parts, f"Versions: {versions}; Python {result['environment']['python']}."])


def _size_and_speed(result: dict[str, Any]) -> str:
    """The original and the two small models; in brackets how many times smaller or faster."""
    names, speeds = (FIRST, "ours", "even"), result.get("speed", {})
    sizes = {name: result["sizes"][name][0] for name in names}
    rows = [["units in the three layers", *(", ".join(map(str, sizes[name]["widths"])) for name in names)]]
    for key, title in (("weights", "weights"), ("mult_adds", "mult-adds a frame")):
        large, *small = (sizes[name][key] for name in names)
        rows.append([title, f"{large:,}", *(f"{each:,} ({large / each:.2f})" for each in small)])
    for title, times in speeds.items():
        large = times["milliseconds_of_the_original"]
        small = ["{:.1f} ({:.2f})".format(large / (ratio := times[name]["median"]), ratio) for name in names[1:]]
        rows.append([f"ms for {title}", f"{large:.1f}", *small])
    return "### Size and speed, first seed\n\n" + table(["", *(MODELS[name] for name in names)], rows)


def _quality(found: dict[str, list[dict[str, float]]]) -> str:
    head = ["", "cosine to the original", "lowest 5 %", "equal error rate", "nearest is of the same set"]
    rows = []
    for name, title in MODELS.items():
        told = partial(mean_and_spread, found[name])
        cosines = [told("cosine", 1, 3), told("cosine_lowest_twentieth", 1, 3)]
        shares = [f"{told(key, 100, 1)} %" for key in ("equal_error_rate", "nearest_of_same_set")]
        rows.append([title, *cosines, *shares])
    other = found[FIRST][0]["cosine_of_two_speakers"]
    return f"{table(head, rows)}\n\nTwo different speakers have a cosine of {other:.2f} in the mean, in the original."


def mean_and_spread(found: list[dict[str, float]], key: str, times: float, digits: int) -> str:
    """Of several seeds the mean and the standard deviation: ``mean_and_spread([{"a": 1.0}], "a", 100, 1)``."""
    values = [times * each[key] for each in found]
    mean = f"{statistics.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.{digits}f}"
