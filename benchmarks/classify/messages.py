"""Short messages in many languages: the translations that come with Django, of which nothing else is used.

What is learned from, tuned by and judged by are translations of different English messages.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

__all__ = ["LANGUAGES", "Messages", "Part", "messages", "read"]

LANGUAGES = tuple("da nb nn sv nl de es ca gl pt it fr ro cs sk sl hr pl".split())
"""Close relatives, in Latin script."""
LENGTH = 32
"""Characters of a message that are read."""
PAIR = re.compile(r'^msgid ((?:".*"\n)+)msgstr ((?:".*"\n?)+)', re.MULTILINE)
QUOTED = re.compile(r'"(.*)"')


@dataclass(frozen=True)
class Part:
    """Messages as numbers of characters (number, LENGTH), filled up with zeros, and the language of each."""

    texts: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self, size: int, seed: int | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """All of it, in a random order if there is a seed."""
        order = torch.arange(len(self))
        if seed is not None:
            order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))
        for chosen in torch.split(order, size):
            yield self.texts[chosen], self.labels[chosen]


@dataclass(frozen=True)
class Messages:
    """What is learned from, tuned by and judged by; and how many characters there are."""

    train: Part
    valid: Part
    test: Part
    characters: int


def read() -> Messages:
    """The messages of the package that is installed."""
    spec = find_spec("django")
    if spec is None or spec.origin is None:
        raise SystemExit("Django is not installed. Try: pip install -r benchmarks/classify/requirements.txt")
    root = Path(spec.origin).parent
    found: dict[str, dict[str, str]] = {name: {} for name in LANGUAGES}
    for name in LANGUAGES:
        for path in sorted(root.rglob(f"locale/{name}/LC_MESSAGES/*.po")):
            found[name] |= pairs(path.read_text(encoding="utf-8"))
    return messages(found)


def pairs(text: str) -> dict[str, str]:
    """English messages and their translations, of a file of them; not those that are the same."""
    joined = [["".join(QUOTED.findall(part)) for part in match] for match in PAIR.findall(text)]
    return {english: told for english, told in joined if english and told and told != english}


def messages(found: Mapping[str, Mapping[str, str]]) -> Messages:
    """Translations by language and English message, taken apart by the English message."""
    parts: dict[str, list[tuple[str, int]]] = {"train": [], "valid": [], "test": []}
    for label, (_, told) in enumerate(found.items()):
        for english, text in sorted(told.items()):
            parts[part_of(english)].append((text[:LENGTH], label))
    known = sorted({c for text, _ in parts["train"] for c in text})
    numbers = {c: i for i, c in enumerate(known, start=2)}  # 0 fills up, 1 is what was never seen
    return Messages(**{name: _part(each, numbers) for name, each in parts.items()}, characters=len(known) + 2)


def part_of(english: str) -> str:
    """Of ten messages one to tune by, two to judge by."""
    place = hashlib.sha256(english.encode()).digest()[0] % 10
    return "valid" if place == 0 else "test" if place < 3 else "train"


def _part(each: Sequence[tuple[str, int]], numbers: Mapping[str, int]) -> Part:
    texts = torch.zeros(len(each), LENGTH, dtype=torch.long)
    for row, (text, _) in zip(texts, each, strict=True):
        row[: len(text)] = torch.tensor([numbers.get(c, 1) for c in text])
    return Part(texts, torch.tensor([label for _, label in each]))
