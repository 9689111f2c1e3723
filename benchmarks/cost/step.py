"""What the sparsifier costs: a training step with it against one without, on the paper's language models.

python -m benchmarks cost step                       # 2 x 1500 and 2 x 200, some minutes, nothing else running
python -m benchmarks cost step --widths 64 --vocabulary 500 --repeats 3 --out trial.json

Both kinds of step run on one model, turn and turn about, the sparsifier attached for one and detached for the other.
A step is zero_grad, forward, backward, clipping and SGD. Memory is the peak of what the two hooks allocate on top.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.common import RESULTS, spread, write
from leanrnn import ElementThreshold, Groups, Sparsifier, discover
from leanrnn.groups import count_weights

TARGETS = {1500: 1.05, 200: 1.10}


class LanguageModel(nn.Module):
    """Embedding, two LSTM layers, softmax layer: the paper's model for Penn Treebank."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.rnn = nn.LSTM(width, width, 2)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.rnn(self.embedding(tokens))[0])


def training_step(model: nn.Module, optimizer: torch.optim.Optimizer, tokens: Tensor) -> Callable[[], None]:
    """One step of the paper's training, as a function to be timed."""

    def step() -> None:
        optimizer.zero_grad()
        logits = model(tokens[:-1])
        nn.functional.cross_entropy(logits.flatten(0, 1), tokens[1:].flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()

    return step


def seconds(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def peak_bytes(call: Callable[[], None]) -> int:
    """The most memory a call holds at any time, on top of what was held before it."""
    with torch.profiler.profile(profile_memory=True) as profile:
        call()
    # The raw events: the processed ones add what an operator allocates and frees inside itself up to nothing.
    events = profile.profiler.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    held = peak = 0
    for _, change in changes:
        held += change
        peak = max(peak, held)
    return peak


def hooks_alone(model: nn.Module, groups: Groups) -> Callable[[], None]:
    """A step of an optimizer that does nothing: only what the sparsifier does before and after is left."""

    class Still(torch.optim.Optimizer):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            pass

    optimizer = Still(model.parameters(), {"lr": 0.0})
    Sparsifier(groups, strength=1e-4, threshold=ElementThreshold(1e-4)).attach(optimizer)
    return optimizer.step


def measure(width: int, vocabulary: int, batch: int, length: int, repeats: int) -> dict[str, Any]:
    torch.manual_seed(0)
    model = LanguageModel(vocabulary, width)
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.04, 0.04)
    tokens = torch.randint(0, vocabulary, (length + 1, batch))
    groups = discover(model, tokens[:2, :2], prove=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sparsifier = Sparsifier(groups, strength=1e-4, threshold=ElementThreshold(1e-4))
    step, times = training_step(model, optimizer, tokens), {"plain": [], "sparsified": []}
    for repeat in range(-1, repeats):
        for kind in ("plain", "sparsified") if repeat % 2 else ("sparsified", "plain"):
            if kind == "sparsified":
                sparsifier.attach(optimizer)
            taken = seconds(step)
            sparsifier.detach()
            if repeat >= 0:  # the first pair warms up
                times[kind].append(taken)
    ratios = [b / a for a, b in zip(times["plain"], times["sparsified"], strict=True)]
    alone = hooks_alone(model, groups)
    alone()
    largest = max(p.numel() * p.element_size() for p in model.parameters())
    return {
        "model": {"width": width, "layers": 2, "vocabulary": vocabulary, "batch": batch, "length": length},
        "weights": count_weights(model),
        "repeats": repeats,
        "plain_seconds": spread(times["plain"]),
        "sparsified_seconds": spread(times["sparsified"]),
        "ratio": spread(ratios),
        "target_ratio": TARGETS.get(width),
        "hooks_seconds": spread([seconds(alone) for _ in range(max(2, repeats))]),
        "extra_bytes": peak_bytes(alone),
        "largest_matrix_bytes": largest,
    }


def main(parser: ArgumentParser, words: list[str]) -> None:
    parser.add_argument("--widths", type=int, nargs="+", default=[1500, 200])
    parser.add_argument("--vocabulary", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--length", type=int, default=35)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path, default=RESULTS / "step_overhead.json")
    options = parser.parse_args(words)
    found = [measure(w, options.vocabulary, options.batch, options.length, options.repeats) for w in options.widths]
    for item in found:
        ratio, extra = item["ratio"], item["extra_bytes"] / item["largest_matrix_bytes"]
        print(
            f"2 x {item['model']['width']}: {ratio['median']:.3f} of a plain step ({ratio['q25']:.3f} to "
            f"{ratio['q75']:.3f}), target {item['target_ratio']}; extra memory {extra:.3f} of the largest matrix"
        )
    write(options.out, {"sizes": found})
