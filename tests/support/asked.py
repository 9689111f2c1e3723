"""A set of questions small enough to be learned by heart in seconds, written as the official files are."""

import json
from pathlib import Path

import numpy as np

from leanrnn.lab.squad.config import SquadConfig

NAMES = ["Ada", "Bob", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hal"]
PLACES = ["Paris", "Rome", "Oslo", "Lima", "Cairo", "Delhi", "Quito", "Bonn"]
THINGS = ["a lamp", "three books", "an old clock", "some bread", "two chairs", "a red hat", "paper", "the U.S. map"]
TINY = SquadConfig(
    width=12, steps=160, batch=16, rate=0.02, average=0.9, keep=1.0, keep_characters=1.0, evaluate=80, word_count=0,
    character_count=0,
)  # fmt: skip


def article(seed: int, paragraphs: int) -> dict:
    """Who lives where and has bought what, in sentences of several lengths."""
    random, found = np.random.default_rng(seed), []
    for i in range(paragraphs):
        name, place, thing = (each[int(random.integers(8))] for each in (NAMES, PLACES, THINGS))
        text = f"{name} lives in {place}. Last year {name} bought {thing} there."
        text = "It isn't far. " * int(random.integers(3)) + text
        asked = [("Who bought it?", name), ("Which city is it?", place), ("What was bought?", thing)]
        questions = [
            {"id": f"{seed}-{i}-{j}", "question": question, "answers": [{"answer_start": text.find(a), "text": a}]}
            for j, (question, a) in enumerate(asked)
        ]
        found.append({"context": text, "qas": questions})
    return {"title": f"article {seed}", "paragraphs": found}


def write_squad(folder: Path) -> Path:
    """Training and development files, which here are the same questions, and GloVe for most of their words."""
    folder.mkdir(parents=True, exist_ok=True)
    data = {"version": "1.1", "data": [article(0, 8), article(1, 8)]}
    for part in ("train", "dev"):
        (folder / f"{part}-v1.1.json").write_text(json.dumps(data))
    words = "lives in last year bought there it is n't far who which city what was ? . u.s. the a an lamp map".split()
    random = np.random.default_rng(0)
    lines = [" ".join([word, *(f"{x:.4f}" for x in random.standard_normal(100) * 0.3)]) for word in words]
    (folder / "glove.6B.100d.txt").write_text("\n".join(lines) + "\n")
    return folder
