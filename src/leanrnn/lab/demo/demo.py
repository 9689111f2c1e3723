"""``leanrnn demo``: one small language model, trained twice at a time, dense and lean. Read it from top to bottom.

The text is the documentation that comes with Python itself, so none is downloaded. Both models read the same
batches in the same order, equally often, at the same learning rates; the lean one is to end with a quarter of the
mult-adds, and loses the units that are worth least for what they cost. What becomes of them then is in deliver.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

import leanrnn
from leanrnn.deploy import far_apart
from leanrnn.environment import check_folder, use_threads
from leanrnn.errors import RunError
from leanrnn.lab import Config
from leanrnn.lab.demo.deliver import deliver
from leanrnn.lab.events import Epoch, Interval
from leanrnn.lab.language.generate import generate
from leanrnn.lab.language.loop import train
from leanrnn.lab.language.model import load_language_model
from leanrnn.lab.language.text import Text, read
from leanrnn.lab.runs import Run

__all__ = ["CONFIGS", "demonstrate"]

DENSE = Config(
    corpus="python", vocabulary=2000, embedding=200, widths=(200, 200), window=35, epochs=12, schedule="line",
    constant=6, keep=0.8, follow=True,
)  # fmt: skip
CONFIGS = {"dense": DENSE, "lean": replace(DENSE, budget="mult_adds=25%")}
PROMPT = "this method returns".split()


@dataclass
class Side:
    """One of the two runs: how far it is, for the eyes."""

    name: str
    total: int
    epochs: list[Epoch] = field(default_factory=list)
    now: Interval | None = None

    @property
    def seconds(self) -> float:
        """Of training so far."""
        return sum(epoch.seconds for epoch in self.epochs)

    def row(self) -> tuple[str, ...]:
        """Of the live table."""
        last = self.epochs[-1] if self.epochs else None
        event = self.now or last
        return (
            self.name,
            f"{event.epoch:g} of {self.total}" if event else "",
            f"{last.valid:.2f}" if last else "",
            " + ".join(map(str, event.widths.values())) if event else "",
            f"{last.seconds:.0f}" if last else "",
        )


def demonstrate(out: Path, *, threads: int | None = None, seed: int = 1, epochs: int | None = None) -> dict[str, Any]:
    """The whole story; what is left behind is in ``out``. Interrupted, it goes on where it was. ::

    demonstrate(Path("leanrnn-demo"))["lean"]["valid"]
    """
    use_threads(threads)
    check_folder(out, RunError)
    configs = {name: replace(config, seed=seed) for name, config in CONFIGS.items()}
    if epochs is not None:
        configs = {name: replace(config, epochs=epochs, constant=epochs // 2) for name, config in configs.items()}
    print("Reading the documentation that comes with Python ...")
    text = read(DENSE)
    print(f"{len(text.train):,} words to learn from, {len(text.valid):,} to judge by, {len(text.words):,} different.\n")
    results = _side_by_side(configs, text, out)
    _compare(results, text, out)
    for page in deliver(out, text, configs["dense"], " ".join(PROMPT)):
        print(f"Open {page}")
    return results


# 1. Train both side by side, an epoch at a time, on the same batches.


def _side_by_side(configs: dict[str, Config], text: Text, out: Path) -> dict[str, Any]:
    sides = {name: Side(name, config.epochs) for name, config in configs.items()}
    with ExitStack() as stack:
        about = {n: {"config": c.to_json(), "text": text.digest} for n, c in configs.items()}
        runs = {name: stack.enter_context(Run.open(out / name, about[name])) for name in configs}
        tell = stack.enter_context(_live(sides))
        left = {name: iter(train(configs[name], text, runs[name])) for name in configs if not runs[name].result()}
        while left:
            # Whoever has trained for less time so far is next.
            name = min(left, key=lambda name: sides[name].seconds)
            if not _one_epoch(left[name], sides[name], tell):
                del left[name]
        return {name: run.result() for name, run in runs.items()}


def _one_epoch(events: Iterator[Interval | Epoch], side: Side, tell: Any) -> bool:
    """Go on to the end of an epoch; false if the run is at its end."""
    for event in events:
        side.now = event if isinstance(event, Interval) else None
        if isinstance(event, Epoch):
            side.epochs.append(event)
        tell(side)
        if isinstance(event, Epoch):
            return True
    return False


@contextmanager
def _live(sides: dict[str, Side]) -> Iterator[Any]:
    """A table that changes under one's eyes in a terminal; a line an epoch elsewhere."""
    console = Console()

    def table() -> Table:
        found = Table("", "epoch", "validation perplexity", "embedding + layers", "seconds an epoch")
        for side in sides.values():
            found.add_row(*side.row())
        return found

    if console.is_terminal:
        with Live(table(), console=console, refresh_per_second=4) as live:
            yield lambda side: live.update(table())
        return

    def line(side: Side) -> None:
        if side.now is None:
            name, epoch, valid, widths, seconds = side.row()
            print(
                f"{name:<5}  epoch {epoch:>8}  perplexity {valid:>7}  widths {widths:<15}  {seconds:>3} s", flush=True
            )

    yield line


# 2. What was gained.


def _compare(results: dict[str, Any], text: Text, out: Path) -> None:
    files = {name: out / name / "model.safetensors" for name in results}
    models = {name: load_language_model(path) for name, path in files.items()}
    words = text.valid[: 35 * 20].view(20, 35).t().contiguous()
    costs = {name: leanrnn.measure(model, words) for name, model in models.items()}
    table = Table("", "dense", "lean", "dense / lean")
    for column in table.columns[1:]:
        column.justify = "right"

    noisy = any(far_apart(*each.quartiles) for each in costs.values())  # other work was going on

    def row(title: str, form: str, values: dict[str, float], more_is_better: bool = False, timed: bool = False) -> None:
        dense, lean = values["dense"], values["lean"]
        ratio = lean / dense if more_is_better else dense / lean
        told = "noisy" if timed and noisy else f"{ratio:.2f}"
        table.add_row(title, format(dense, form), format(lean, form), told)

    widths = {n: f"{r['embedding']} + {' + '.join(map(str, r['widths']))}" for n, r in results.items()}
    row("validation perplexity", ".2f", {n: r["valid"] for n, r in results.items()})
    row("test perplexity", ".2f", {n: r["test"] for n, r in results.items()})
    table.add_row("embedding + layers", widths["dense"], widths["lean"], "")
    row("weights", ",d", {n: c.weights for n, c in costs.items()})
    row("mult-adds a word", ",d", {n: c.mult_adds // words.numel() for n, c in costs.items()})
    row("bytes of the file", ",d", {n: f.stat().st_size for n, f in files.items()})
    row("seconds of training", ".0f", {n: r["seconds"] for n, r in results.items()})
    row(f"ms for {words.numel()} words", ".2f", {n: c.milliseconds for n, c in costs.items()}, timed=True)
    row("words a second", ",.0f", {n: words.numel() / c.milliseconds * 1e3 for n, c in costs.items()}, True, True)
    Console().print(table)
    print(f"Whenever units went, no score of a word changed by more than {results['lean']['difference']:.1e}.")
    for name, model in models.items():
        print(f"{name:<5} {' '.join(PROMPT)} | {' '.join(generate(model, list(text.words), PROMPT))}")
    print(f"The models are {files['dense']} and {files['lean']}; leanrnn measure {out / 'lean'} measures one again.")
