"""Recorded speech of many people, as the mel spectrograms a voice encoder reads.

python -m benchmarks published speech FOLDER      # downloads the packages below into FOLDER (Debian or Ubuntu, no root)

The speech is that of programs that people lent their voices to: letters, words and phrases in an alphabet tutor for
children, a drawing toy and a paint program, and the prompts of a telephone exchange. One set is one language of one
program, and stands for one speaker: who spoke is written nowhere. A folder of one's own, with a subfolder for every
speaker, serves as well.
"""

from __future__ import annotations

import re
import subprocess
import warnings
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

PACKAGES = (
    "klettres-data",
    "ktuberling-data",
    "tuxpaint-stamps-default",
    "asterisk-core-sounds-en-wav",
    "asterisk-core-sounds-fr-wav",
    "asterisk-core-sounds-it-wav",
    "asterisk-core-sounds-ru-wav",
    "asterisk-prompt-it-menardi-wav",
)
# Where a package keeps its recordings, and the part of the path that names the language (and for prompts the voice).
PLACES = (
    (r"klettres/(?P<set>\w+)/", "klettres"),
    (r"ktuberling/sounds/(?P<set>\w+)/", "ktuberling"),
    (r"asterisk/sounds/(?P<set>\w+)/(?!silence)", "asterisk"),
    (r"tuxpaint/stamps/.*_desc_(?P<set>\w+)\.ogg$", "tuxpaint"),
)
RATE = 16_000  # samples a second
SECONDS = 300  # of a set at most, so that a few long ones do not outweigh the rest
LEAST = 20  # seconds a set needs to be used
FRAMES = 160  # of one reading of the encoder, 1.6 s
PARTIALS = 5  # readings, half overlapping, that make an utterance
SPEEDS = (0.9, 1.1)  # a training set is also played slower and faster, which makes it another voice


class Speech(NamedTuple):
    """Mel spectrograms (frames, channels) by set: to learn from, to choose settings by, and two kinds to judge by. Of
    what is judged nothing was heard in training, and no speaker of one kind is in another but for ``sentences``."""

    train: dict[str, list[Floats]]
    tuning: dict[str, Floats]
    sentences: dict[str, Floats]
    speakers: dict[str, Floats]


def fetch(folder: Path) -> None:
    """Download and unpack the packages that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        if package not in packages(folder):
            subprocess.run(["apt-get", "download", package], cwd=folder, check=True)
            archive = next(folder.glob(f"{package}_*.deb"))
            subprocess.run(["dpkg-deb", "-x", archive.name, "."], cwd=folder, check=True)


def packages(folder: Path) -> dict[str, str]:
    """Versions of the packages that were fetched."""
    names = [archive.name.replace("%3a", ":").split("_") for archive in sorted(folder.glob("*.deb"))]
    return {name: version for name, version, _ in names}


def sets(folder: Path) -> dict[str, list[Path]]:
    """Recordings by set: those of the packages, or those of each subfolder."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(p for p in folder.rglob("*") if p.suffix in {".ogg", ".wav", ".flac", ".mp3"}):
        name = set_of(path.relative_to(folder).as_posix())
        if name:
            found[name].append(path)
    return dict(found)


def set_of(path: str) -> str | None:
    """``klettres-de`` for a file of a package, the first folder for any other, None for what is not speech."""
    if not path.startswith("usr/"):
        return path.split("/")[0]
    for pattern, program in PLACES:
        if match := re.search(pattern, path):
            return f"{program}-{match['set']}"
    return None


def language(name: str) -> str:
    """The language of a set of the packages; a speaker of one's own counts as one by itself."""
    program, _, rest = name.partition("-")
    return rest.split("_")[0] if program in {program for _, program in PLACES} else name


def held_out(names: Iterable[str]) -> set[str]:
    """Every third language, with all its sets: the same person may have recorded for two programs."""
    names = list(names)
    languages = sorted({language(name) for name in names})
    return {name for name in names if language(name) in languages[1::3]}


def for_tuning(names: Iterable[str]) -> set[str]:
    """Of the sets that are not held out, every fourth language: speakers that settings are chosen by."""
    names = list(names)
    languages = sorted({language(name) for name in names})
    return {name for name in names if language(name) in languages[2::4]}


def waveform(paths: list[Path]) -> Floats:
    """The recordings of a set one after the other, silences cut, in the encoder's own way."""
    from resemblyzer import preprocess_wav

    parts, length = [np.zeros(0, np.float32)], 0
    for path in paths:
        if length < SECONDS * RATE and (wav := _preprocessed(preprocess_wav, path)) is not None:
            parts.append(wav)
            length += len(wav)
    return np.concatenate(parts)[: SECONDS * RATE]


def _preprocessed(preprocess: Any, path: Path) -> Floats | None:
    """None for a recording without a voice in it, or one that cannot be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # silence has no volume: a logarithm of zero
            wav: Floats = preprocess(path).astype(np.float32)
    except (RuntimeError, ValueError):
        return None
    return wav if np.isfinite(wav).all() else None


def spectrogram(wav: Floats, speed: float = 1.0) -> Floats:
    """Mel spectrogram, (frames, channels)."""
    import librosa
    from resemblyzer.audio import wav_to_mel_spectrogram

    faster = wav if speed == 1.0 else librosa.resample(wav, orig_sr=RATE * speed, target_sr=RATE)
    mel: Floats = wav_to_mel_spectrogram(faster)
    return mel


def read(folder: Path) -> Speech:
    """All speech of a folder; computed once, then read from ``mels.npz`` in it."""
    cache = folder / "mels.npz"
    if not cache.exists():
        arrays: Any = _arrays(folder)
        np.savez(cache, **arrays)
    with np.load(cache) as stored:
        arrays = {name: stored[name] for name in stored.files}
    speech = Speech({}, {}, {}, {})
    tuning = for_tuning({key.split("|")[1] for key in arrays if key.startswith("train|")})
    for key, mel in arrays.items():
        kind, name, speed = key.split("|")
        if name in tuning:
            if (kind, speed) == ("train", "1.0"):
                speech.tuning[name] = mel
        elif kind == "train":
            speech.train.setdefault(name, []).append(mel)
        else:
            getattr(speech, kind)[name] = mel
    return speech


def _arrays(folder: Path) -> dict[str, Floats]:
    recorded = {name: waveform(paths) for name, paths in sets(folder).items()}
    recorded = {name: wav for name, wav in recorded.items() if len(wav) >= LEAST * RATE}
    new, arrays = held_out(recorded), {}
    for name, wav in recorded.items():
        if name in new:
            arrays[f"speakers|{name}|1"] = spectrogram(wav)
            continue
        cut = len(wav) * 85 // 100
        arrays[f"sentences|{name}|1"] = spectrogram(wav[cut:])
        for speed in (1.0, *SPEEDS):
            arrays[f"train|{name}|{speed}"] = spectrogram(wav[:cut], speed)
    return arrays


def pool(train: dict[str, list[Floats]], count: int, seed: int) -> Floats:
    """Readings to learn from: every set equally often, at any place, up to twice as loud or half."""
    random, names = np.random.default_rng(seed), sorted(train)
    windows = []
    for i in range(count):
        mels = train[names[i % len(names)]]
        mel = mels[random.integers(len(mels))]
        start = random.integers(len(mel) - FRAMES)
        windows.append(mel[start : start + FRAMES] * np.float32(2 ** random.uniform(-2, 2)))
    return np.stack(windows)


def utterances(mel: Floats, most: int = 20) -> Floats:
    """Utterances that share no sound, (number, PARTIALS, FRAMES, channels)."""
    hop, length = FRAMES // 2, (PARTIALS + 1) * FRAMES // 2
    starts = range(0, len(mel) - length + 1, length)[:most]
    cuts = [[mel[s + p * hop : s + p * hop + FRAMES] for p in range(PARTIALS)] for s in starts]
    return np.asarray(cuts, dtype=np.float32).reshape(-1, PARTIALS, FRAMES, mel.shape[1])


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Fetch, prepare, and say what is there."""
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(words).folder
    fetch(folder)
    speech = read(folder)
    for kind in Speech._fields:
        print(f"{kind}: {', '.join(getattr(speech, kind))}")
