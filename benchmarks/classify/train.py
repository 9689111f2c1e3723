"""The model, its one training loop, and the arms: ways to a smaller one."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import leanrnn
from benchmarks.classify.messages import LANGUAGES, Messages, Part

__all__ = ["ARMS", "Classifier", "Task", "Trained", "errors"]

EMBEDDING, WIDTH = 32, 96
EPOCHS, PATIENCE, BATCH = 12, 3, 64
FITTED = 30
"""Batches that say what goes, of a cut at once."""


class Classifier(nn.Module):
    """Characters, an LSTM in both directions, and a head on the mean and the largest of its outputs."""

    def __init__(self, characters: int, width: int = WIDTH) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, EMBEDDING)
        self.rnn = nn.LSTM(EMBEDDING, width, bidirectional=True, batch_first=True)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(4 * width, len(LANGUAGES))

    def forward(self, texts: Tensor) -> Tensor:
        """Scores of the languages, (batch, languages)."""
        there = (texts > 0).unsqueeze(2)
        outputs = self.rnn(self.dropout(self.embedding(texts)))[0] * there
        mean = outputs.sum(1) / there.sum(1).clamp_min(1)
        scores: Tensor = self.head(self.dropout(torch.cat((mean, outputs.amax(1)), 1)))
        return scores


@dataclass(frozen=True)
class Task:
    """What a run is about."""

    data: Messages
    rate: float
    seed: int
    times: int = 4
    teacher: nn.Module | None = None
    found: Mapping[str, int] = field(default_factory=dict)
    """The widths that ours found, for the arm that begins with them."""
    epochs: int = EPOCHS

    @property
    def budget(self) -> leanrnn.Budget:
        """What the smaller model may cost."""
        return leanrnn.Budget(mult_adds=f"{100 / self.times}%")

    def dense(self) -> Classifier:
        """A new model at full size."""
        torch.manual_seed(self.seed)
        return Classifier(self.data.characters)

    def groups(self, model: nn.Module) -> leanrnn.Groups:
        """Its groups."""
        return leanrnn.discover(model, self.data.train.texts[:2])

    def uniform(self) -> int:
        """The largest width within the budget."""
        groups = self.groups(self.dense())
        limits = self.budget.limits(groups)
        return next(w for w in range(WIDTH, 0, -1) if limits.hold(dict.fromkeys(groups.names, w)))


@dataclass
class Trained:
    """A model, the loss on the messages to tune by after every epoch, and seconds of the processor."""

    model: nn.Module
    valid: list[float] = field(default_factory=list)
    seconds: float = 0.0


def train(
    task: Task,
    begun: Trained,
    until: int | None = None,
    sparsifier: Callable[[nn.Module, int], leanrnn.Sparsifier] | None = None,
) -> Trained:
    """Adam up to an epoch, the last by default, or until three epochs were no better; the best is the result. While a
    sparsifier is at work, no epoch can be the last or the best."""
    model, best, until = begun.model, None, until or task.epochs
    optimizer = torch.optim.Adam(model.parameters(), lr=task.rate)
    steps = (len(task.data.train) + BATCH - 1) // BATCH
    acting = None if sparsifier is None else sparsifier(model, steps * task.epochs).attach(optimizer)
    least, since = float("inf"), 0
    for epoch in range(len(begun.valid), until):
        started = time.process_time()
        torch.manual_seed(1000 * task.seed + epoch)
        model.train()
        for texts, labels in task.data.train.batches(BATCH, seed=1000 * task.seed + epoch):
            scores = model(texts)
            loss = cross_entropy(scores, labels)
            if task.teacher is not None:
                with torch.no_grad():
                    taught = task.teacher(texts)
                loss = leanrnn.distil(scores, taught, loss, weight=0.5)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        begun.seconds += time.process_time() - started
        begun.valid.append(mean_loss(model, task.data.valid))
        progress = acting.status().progress if acting is not None else None
        if progress is not None and progress.phase in ("warm up", "shrink"):
            continue
        since += 1
        if begun.valid[-1] < least:
            least, since, best = begun.valid[-1], 0, copy.deepcopy(model.state_dict())
        if since == PATIENCE:
            break
    if best is not None:
        model.load_state_dict(best)
    if acting is not None:
        acting.detach()
    return begun


@torch.no_grad()
def mean_loss(model: nn.Module, part: Part) -> float:
    """Without dropout."""
    model.eval()
    return sum(float(cross_entropy(model(x), y, reduction="sum")) for x, y in part.batches(512)) / len(part)


@torch.no_grad()
def errors(model: nn.Module, part: Part) -> float:
    """The share of messages whose language is not told."""
    model.eval()
    return sum(int((model(x).argmax(1) != y).sum()) for x, y in part.batches(512)) / len(part)


def dense(task: Task) -> Trained:
    """The model as it is."""
    return train(task, Trained(task.dense()))


def uniform(task: Task) -> Trained:
    """Small from the start, both directions of one width."""
    torch.manual_seed(task.seed)
    return train(task, Trained(Classifier(task.data.characters, task.uniform())))


def found(task: Task) -> Trained:
    """Small from the start, with the widths that ours ended with."""
    dense = task.dense()
    small = leanrnn.shrink(dense, task.groups(dense), keep_widths=task.found)
    for name, p in small.named_parameters():
        if name.startswith("rnn."):
            nn.init.uniform_(p, -((width := task.found[_direction(name)]) ** -0.5), width**-0.5)
    small.get_submodule("head").reset_parameters()  # type: ignore[operator]
    return train(task, Trained(small))


def _direction(name: str) -> str:
    return "rnn.l0_reverse" if "reverse" in name else "rnn.l0"


def at_once(cut: Callable[[Task, nn.Module, leanrnn.Groups], nn.Module]) -> Callable[[Task], Trained]:
    """Dense for half of the epochs, cut, and trained on for as many as are left."""

    def run(task: Task) -> Trained:
        half = train(task, Trained(task.dense()), until=task.epochs // 2)
        half.model = cut(task, half.model, task.groups(half.model))
        return train(task, half)

    return run


def by_norm(task: Task, model: nn.Module, groups: leanrnn.Groups) -> nn.Module:
    """The largest stay."""
    return leanrnn.shrink(model, groups, budget=task.budget)


def by_saliency(task: Task, model: nn.Module, groups: leanrnn.Groups) -> nn.Module:
    """What the loss feels stays."""
    saliency = leanrnn.Saliency(groups)
    for texts, labels in islice(task.data.train.batches(BATCH, seed=task.seed), FITTED):
        model.zero_grad()
        cross_entropy(model.eval()(texts), labels).backward()  # type: ignore[no-untyped-call]
        saliency.update()
    return leanrnn.shrink(model, groups, budget=task.budget, scores=saliency.scores())


def by_refit(task: Task, model: nn.Module, groups: leanrnn.Groups) -> nn.Module:
    """What stays is fitted to what the whole model computes."""
    texts = [texts for texts, _ in islice(task.data.train.batches(BATCH, seed=task.seed), FITTED)]
    return leanrnn.refit(model, groups, texts, budget=task.budget)


def ours(task: Task) -> Trained:
    """To a budget while it trains."""

    def sparsifier(model: nn.Module, steps: int) -> leanrnn.Sparsifier:
        return leanrnn.Sparsifier(task.groups(model), budget=task.budget, steps=steps)

    return train(task, Trained(task.dense()), sparsifier=sparsifier)


@dataclass(frozen=True)
class Arm:
    """One way: its name in tables, what it does, and whether it has a teacher."""

    title: str
    run: Callable[[Task], Trained]
    taught: bool = False


PLAIN = {
    "uniform": Arm("direct, uniform widths", uniform),
    "found": Arm("direct, the widths ours found", found),
    "ours": Arm("ours, to a budget", ours),
    "norm": Arm("cut at once by norm, trained on", at_once(by_norm)),
    "saliency": Arm("cut at once by saliency, trained on", at_once(by_saliency)),
    "refit": Arm("cut at once by refit, trained on", at_once(by_refit)),
}
ARMS = {"dense": Arm("dense", dense), **PLAIN, **{f"{n} taught": replace(a, taught=True) for n, a in PLAIN.items()}}
