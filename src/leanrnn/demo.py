"""``leanrnn demo``: one small language model, trained twice, dense and lean. Read it from top to bottom.

The text is the documentation that comes with Python itself, so nothing is downloaded.
"""

from __future__ import annotations

import ast
import math
import re
import sysconfig
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode

import leanrnn

__all__ = ["LanguageModel", "Text", "read_text", "run"]

VOCABULARY, WIDTH, WINDOW, BATCH = 1500, 200, 35, 20
RATE = 20.0  # of plain SGD, going down to zero in a line
STRENGTH = 1e-3  # of the penalty: more of it leaves fewer components and, at some point, worse text
PENALISED = 1 / 5  # of the epochs of the lean model; in the rest the survivors recover
SECONDS = 1.0  # spent on each timing


# 1. The text: Python's own documentation, cut into windows of 36 words; every tenth page is held out whole.


@dataclass(frozen=True)
class Text:
    """Word numbers, one window a row: a model reads all but the last word and predicts all but the first."""

    train: Tensor
    valid: Tensor


def read_text() -> Text:
    """The help topics of ``pydoc`` and the docstring of every standard module, as word numbers."""
    from pydoc_data.topics import topics

    pages = [topics[name] for name in sorted(topics)]
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        pages.append(ast.get_docstring(ast.parse(path.read_bytes())) or "")
    parts = [re.findall(r"[a-z_]+|\d|[^\w\s]", page.lower()) for page in pages]
    known = {word: i + 1 for i, (word, _) in enumerate(Counter(chain(*parts)).most_common(VOCABULARY - 1))}

    def windows(chosen: list[list[str]]) -> Tensor:
        numbers = torch.tensor([known.get(word, 0) for word in chain(*chosen)])  # 0 stands for every rare word
        return numbers[: len(numbers) // (WINDOW + 1) * (WINDOW + 1)].view(-1, WINDOW + 1)

    return Text(
        train=windows([part for i, part in enumerate(parts) if i % 10]),
        valid=windows(parts[::10]),
    )


# 2. The model: nothing in it knows leanrnn.


class LanguageModel(nn.Module):
    """Embedding, two LSTM layers, softmax over the words: the shape of the paper's Penn Treebank model."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, num_layers=2, dropout=0.1, batch_first=True)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, words: Tensor) -> Tensor:
        """Scores of the next word at every place of ``words`` (batch, time)."""
        output, _ = self.lstm(self.dropout(self.embedding(words)))
        scores: Tensor = self.head(self.dropout(output))
        return scores


def loss_of(model: nn.Module, rows: Tensor) -> Tensor:
    """Mean cross-entropy of the next word, in nats."""
    return cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


# 3. The training loop: an ordinary one, which serves all models as it is.


def epochs(model: nn.Module, optimizer: torch.optim.Optimizer, text: Text, which: range, last: int) -> Iterator[float]:
    """Train for the epochs ``which`` of ``last``; print how each went and give the seconds it took."""
    for epoch in which:
        optimizer.param_groups[0]["lr"] = RATE * (1 - epoch / last)
        start = time.perf_counter()
        for rows in torch.split(text.train[torch.randperm(len(text.train))], BATCH):
            loss = loss_of(model, rows)
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
            optimizer.zero_grad()
        seconds = time.perf_counter() - start
        print(f"  epoch {epoch + 1:2}  perplexity {perplexity(model, text.valid):6.2f}  {seconds:5.1f} s", flush=True)
        yield seconds


@torch.no_grad()
def perplexity(model: nn.Module, rows: Tensor) -> float:
    """How many words the model hesitates between, on average."""
    was_training = model.training
    model.eval()
    losses = [loss_of(model, part) * len(part) for part in torch.split(rows, BATCH)]
    model.train(was_training)
    return math.exp(torch.stack(losses).sum() / len(rows))


# 4. Dense, then lean: the same start and the same loop. The lean model gets twice the epochs: they take less time.


def train_dense(text: Text, count: int) -> tuple[nn.Module, float]:
    """The ordinary model, for comparison, and the seconds its training took."""
    torch.manual_seed(0)
    model = LanguageModel()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    print(f"\nThe dense model, {WIDTH} + {WIDTH} components:")
    seconds = sum(epochs(model, optimizer, text, range(count), count))
    return model.eval(), seconds


def train_lean(text: Text, count: int) -> tuple[nn.Module, float]:
    """Under the penalty first; what is left is an ordinary, smaller model, which recovers in the remaining epochs."""
    torch.manual_seed(0)
    model = LanguageModel()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    groups = leanrnn.discover(model, text.train[:2, :5])
    print(f"\nWhat can shrink, found by running the model once:\n{groups}")

    sparsifier = leanrnn.Sparsifier(groups, strength=STRENGTH, mode="proximal").attach(optimizer)
    penalised, seconds = max(1, round(count * PENALISED)), 0.0
    print(f"\nThe lean model, with {STRENGTH} * (sum of all group norms) on top of the loss:")
    for epoch, spent in enumerate(epochs(model, optimizer, text, range(penalised), count), start=1):
        seconds += spent
        if epoch < penalised:
            sparsifier.compact()  # the dead leave model, optimizer and groups: the next epoch is cheaper
            print(f"  compacted to {_widths(groups)} components")

    small = leanrnn.shrink(model, groups)
    apart = largest_difference(model, small, text.valid)
    print(
        f"  shrunk to {_widths(leanrnn.discover(small, text.train[:2, :5]))} components, without the penalty from here"
    )
    print(f"  (its scores of the held-out text are {apart:.1e} from those of the model with the zeros still in it)")
    optimizer = torch.optim.SGD(small.parameters(), lr=RATE)
    seconds += sum(epochs(small, optimizer, text, range(penalised, count), count))
    return small.eval(), seconds


def _widths(groups: leanrnn.Groups) -> str:
    return " + ".join(map(str, groups.widths.values()))


@torch.no_grad()
def largest_difference(model: nn.Module, other: nn.Module, rows: Tensor) -> float:
    """Between the scores of two models."""
    model.eval(), other.eval()
    apart = (model(rows[:, :-1]) - other(rows[:, :-1])).abs().max()
    model.train(), other.train()
    return float(apart)


# 5. What was gained.


def compare(dense: nn.Module, lean: nn.Module, seconds: dict[nn.Module, float], text: Text, out: Path) -> Table:
    """One row per quantity, dense against lean."""
    table = Table("", "dense", "lean", "dense / lean")
    for column in table.columns[1:]:
        column.justify = "right"
    words, files = text.valid[:BATCH, :-1], {dense: out / "dense.safetensors", lean: out / "lean.safetensors"}

    def row(name: str, form: str, quantity: Callable[[nn.Module], float]) -> None:
        a, b = quantity(dense), quantity(lean)
        table.add_row(name, format(a, form), format(b, form), f"{a / b:.2f}")

    row("validation perplexity", ".2f", lambda model: perplexity(model, text.valid))
    row("weights", ",d", lambda model: sum(p.numel() for p in model.parameters()))
    row("mult-adds a word", ",d", lambda model: mult_adds(model, words))
    row("bytes of the file", ",d", lambda model: files[model].stat().st_size)
    row("seconds of training", ".0f", seconds.__getitem__)
    row(f"ms for {words.numel()} words", ".2f", lambda model: milliseconds(model, words))
    return table


def mult_adds(model: nn.Module, words: Tensor) -> int:
    """Multiplications with addition, for one word."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # switching oneDNN warns about Intel GPUs on every machine without one
        # With oneDNN an LSTM is a single operator, which the counter does not know.
        with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
            model(words)
    return int(counter.get_total_flops()) // 2 // words.numel()


def milliseconds(model: nn.Module, words: Tensor) -> float:
    """Median time of one batch."""
    with torch.inference_mode():
        timer = Timer("model(words)", globals={"model": model, "words": words}, num_threads=torch.get_num_threads())
        return timer.blocked_autorange(min_run_time=SECONDS).median * 1e3


def run(out: Path, *, count: int = 4, threads: int = 1) -> None:
    """The whole story; both models are left in ``out``.

    >>> run(Path("leanrnn-demo"))
    """
    torch.set_num_threads(threads)
    out.mkdir(parents=True, exist_ok=True)
    text = read_text()
    print(f"Python's own documentation: {text.train.numel():,} words to learn from, {text.valid.numel():,} held out.")
    dense, dense_seconds = train_dense(text, count)
    lean, lean_seconds = train_lean(text, 2 * count)
    leanrnn.save(dense, out / "dense.safetensors")
    leanrnn.save(lean, out / "lean.safetensors")
    print()
    Console().print(compare(dense, lean, {dense: dense_seconds, lean: lean_seconds}, text, out))
    print(f'Both are in {out}. To use one: leanrnn.load("{out / "lean.safetensors"}", leanrnn.demo.LanguageModel)')
