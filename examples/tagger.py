"""Put capitals and punctuation back into text that has lost them, as what a speech recogniser hears has.

A bidirectional tagger is trained on Python's own documentation, loses units on the way, and becomes an ONNX file.

python examples/tagger.py                       # LSTM, a minute on two cores
python examples/tagger.py --cell gru --budget 10% --out tagger.onnx
python examples/tagger.py --budget 100%         # dense
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from pydoc_data.topics import topics

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import leanrnn

MARKS = ("", ",", ".", ":")
"""What may follow a word; with and without a capital that makes eight tags."""


class Tagger(nn.Module):
    """A tag for every word, batch first. What comes after a word says as much of it as what came before."""

    def __init__(self, words: int, width: int = 128, cell: str = "lstm") -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 64)
        kind = {"lstm": nn.LSTM, "gru": nn.GRU}[cell]
        self.rnn = kind(64, width, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(2 * width, 2 * len(MARKS))

    def forward(self, words: Tensor) -> Tensor:
        """Scores (batch, time, tags)."""
        return self.tags(self.rnn(self.embedding(words))[0])


def tagged() -> Iterator[tuple[str, int]]:
    """The words of the documentation in small letters, each with the tag that makes it what it was."""
    for name in sorted(topics):
        for word, mark in re.findall(r"([A-Za-z]+)([,.:]?)", topics[name]):
            yield word.lower(), 2 * MARKS.index(mark) + word[0].isupper()


def data(vocabulary: int, length: int = 32) -> tuple[Tensor, Tensor, dict[str, int]]:
    """Pieces of text and their tags, (pieces, length) each, and the number of every word; 0 is all rare ones."""
    pairs = list(tagged())
    frequent = [word for word, _ in Counter(word for word, _ in pairs).most_common(vocabulary - 1)]
    numbers = {word: i + 1 for i, word in enumerate(frequent)}
    count = len(pairs) // length * length
    words = torch.tensor([numbers.get(word, 0) for word, _ in pairs[:count]]).view(-1, length)
    return words, torch.tensor([tag for _, tag in pairs[:count]]).view(-1, length), numbers


@torch.no_grad()
def accuracy(model: nn.Module, words: Tensor, tags: Tensor) -> float:
    """Part of the words that get a capital or a mark, or both, of which all is right: the others are easy."""
    asked = tags > 0
    return float((model(words).argmax(-1) == tags)[asked].double().mean())


def restored(model: nn.Module, numbers: dict[str, int], text: str) -> str:
    """The text with capitals and marks."""
    words = text.lower().split()
    with torch.no_grad():
        tags = model(torch.tensor([[numbers.get(word, 0) for word in words]]))[0].argmax(-1).tolist()
    return " ".join((w.capitalize() if tag % 2 else w) + MARKS[tag // 2] for w, tag in zip(words, tags, strict=True))


def main(arguments: list[str] | None = None) -> float:
    """Train, shrink, export; the accuracy of what was exported."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cell", choices=("lstm", "gru"), default="lstm")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--vocabulary", type=int, default=3000)
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--budget", default="25%", help="mult-adds of the small model: a number, or a part of all")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--pieces", type=int, help="of text to learn from; all if not given")
    parser.add_argument("--out", default="tagger.onnx")
    options = parser.parse_args(arguments)
    torch.manual_seed(0)
    words, tags, numbers = data(options.vocabulary)
    held = torch.arange(len(words)) % 10 == 9
    valid, valid_tags, train, train_tags = words[held], tags[held], words[~held], tags[~held]
    train, train_tags = train[: options.pieces], train_tags[: options.pieces]

    model = Tagger(options.vocabulary, options.width, options.cell)
    groups = leanrnn.discover(model, valid[:2])
    optimizer = torch.optim.Adam(model.parameters(), lr=options.rate)
    budget = leanrnn.Budget(mult_adds=options.budget)
    steps = options.epochs * -(-len(train) // 32)
    sparsifier = leanrnn.Sparsifier(groups, budget=budget, steps=steps).attach(optimizer)
    for epoch in range(options.epochs):
        for batch in torch.randperm(len(train)).split(32):
            loss = cross_entropy(model(train[batch]).flatten(0, 1), train_tags[batch].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        right, progress = accuracy(model, valid, valid_tags), sparsifier.status().progress
        print(f"epoch {epoch + 1}: {right:.1%} right, {' + '.join(map(str, groups.widths.values()))} units, {progress}")

    small = leanrnn.shrink(model, groups).eval()
    written = leanrnn.export(small, valid[:2], options.out, outputs=["tags"], about={"words": numbers, "marks": MARKS})
    print(f"{written.path}: {sum(p.numel() for p in small.parameters()):,} weights, input {written.inputs}")
    print(restored(small, numbers, "if the name is not found a name error is raised python then looks in the module"))
    return accuracy(small, valid, valid_tags)


if __name__ == "__main__":
    main()
