"""How good a small voice encoder is beside the original, and the tables that say so in docs/a-published-model.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from benchmarks.common import table
from benchmarks.published.speech import Floats, Speech, language, utterances

FEWEST = 3  # utterances of a set that is judged
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
    for kind in KINDS:
        sets = judged(speech, kind)
        found[kind] = {"sets": len(sets), "utterances": sum(map(len, sets.values())), "names": list(sets)}
    return found


def judge(model: Embed, original: Embed, sets: dict[str, Floats]) -> dict[str, float]:
    """How near its embeddings are to the original's, and how well they tell speakers apart."""
    owners = np.repeat(list(sets), [len(each) for each in sets.values()])
    readings = torch.from_numpy(np.concatenate(list(sets.values())))
    mine, theirs = (embed(readings.flatten(0, 1)) for embed in (model, original))
    near = (mine * theirs).sum(1)
    voices = normalize(mine.view(*readings.shape[:2], -1).mean(1)).double()
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
    models = result["models"]
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    parts = [_size_and_speed(result, models)]
    for kind, title in KINDS.items():
        amount = result["speech"]["sets"][kind]
        parts.append(f"### Quality, {title}: {amount['utterances']} utterances of {amount['sets']} sets")
        parts.append(_quality(result["quality"][kind], models))
    return "\n\n".join([*parts, f"Versions: {versions}; Python {result['environment']['python']}."])


def _size_and_speed(result: dict[str, Any], models: dict[str, str]) -> str:
    """The original and the two small models to choose from; in brackets how many times smaller or faster."""
    names, sizes, speeds = ("original", "lean", "even_trained"), result["sizes"], result.get("speed", {})
    rows = [["units in the three layers", *(", ".join(map(str, sizes[name]["widths"])) for name in names)]]
    for key, title in (("weights", "weights"), ("mult_adds", "mult-adds a frame"), ("bytes", "bytes of the file")):
        large, *small = (sizes[name][key] for name in names)
        rows.append([title, f"{large:,}", *(f"{each:,} ({large / each:.2f})" for each in small)])
    for title, times in speeds.items():
        large = times["milliseconds_of_the_original"]
        small = ["{:.1f} ({:.2f})".format(large / (ratio := times[name]["median"]), ratio) for name in names[1:]]
        rows.append([f"ms for {title}", f"{large:.1f}", *small])
    return "### Size and speed\n\n" + table(["", *(models[name] for name in names)], rows)


def _quality(found: dict[str, Any], models: dict[str, str]) -> str:
    head = ["", "cosine to the original", "lowest 5 %", "equal error rate", "nearest is of the same set"]
    rows = []
    for name, title in models.items():
        q = found[name]
        cosines = [f"{q['cosine']:.3f}", f"{q['cosine_lowest_twentieth']:.3f}"]
        shares = [f"{100 * q[key]:.1f} %" for key in ("equal_error_rate", "nearest_of_same_set")]
        rows.append([title, *cosines, *shares])
    other = found["original"]["cosine_of_two_speakers"]
    return f"{table(head, rows)}\n\nTwo different speakers have a cosine of {other:.2f} in the mean, in the original."
