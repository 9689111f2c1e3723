"""``leanrnn shrink``: the model of a run, a file, or a model of one's own, which may be trained on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from leanrnn.cli.artefacts import Given, trained
from leanrnn.cli.factory import build
from leanrnn.cli.own_model import Training
from leanrnn.cli.parsing import MaybeFloat, MaybeText, Words
from leanrnn.cli.printing import print_json, print_table
from leanrnn.environment import check_target
from leanrnn.errors import ConfigError

if TYPE_CHECKING:
    from torch import nn

    import leanrnn

__all__ = ["Shrink"]

OF_TRAINING = ("valid", "loss", "epochs", "rate", "teacher")
"""Settings that do nothing without data."""


@dataclass(frozen=True)
class Shrink:
    """Cut the dead components, or as many as you say, out of a model, and write it to a file.

    With --budget every layer keeps the same part of its components, those of the largest norms.

    With --data a model of your own shrinks while it trains on that data, and the components that matter least for the
    loss go first."""

    source: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN|FILE|MODULE:FUNCTION")]
    """A run folder (its last checkpoint, if it is not finished), a file it has written, or a function that returns a
    model of your own and an example of its input."""
    out: Path
    """The file to write."""
    ratio: MaybeFloat = None
    """Part of the components of every layer to cut out: those with the smallest norms."""
    budget: Words = ()
    """What the model may cost, such as mult_adds=25% or weights=1e6. You can give several limits, and floors=8 or
    round_to=4."""
    keep_widths: Words = ()
    """Components to keep in each layer: NAME=NUMBER. Those with the largest norms stay."""
    runtime: Literal["onnxruntime", "torch"] = "onnxruntime"
    """Where milliseconds of a budget are measured, on one thread."""
    round_to: int = 1
    """Keep a multiple of this many components in every layer."""
    factory: MaybeText = None
    """For a file of your own model: MODULE:FUNCTION that returns the dense model and an example."""
    example: MaybeText = None
    """Inputs, if that function returns a model alone, such as "1,35:int64"."""
    data: MaybeText = None
    """To train a model of your own: MODULE:FUNCTION that returns batches, pairs of inputs and target."""
    valid: MaybeText = None
    """Other batches in the same form, to measure the loss before and after."""
    loss: str = "cross_entropy"
    """A loss of torch.nn.functional, or MODULE:FUNCTION that is called with result and target."""
    epochs: int = 10
    """Passes over the data."""
    rate: float = 1e-3
    """Learning rate of Adam; it falls to zero in the second half."""
    teacher: float = 0.0
    """For a trained model: part of the loss that is the distance to the outputs of the model before the cut. The model
    is cut at once, fitted to the data, and then trained on."""
    json: bool = False
    """Print what was done as JSON."""

    def run(self) -> None:
        """Shrink, prove, write."""
        import leanrnn

        own = ":" in str(self.source) and not self.source.exists()
        path = Path(str(self.source).rpartition(":")[0]) if own else trained(self.source)
        _check_model_target(self.out, path)
        if own:
            model, example = build(str(self.source), self.example)
            sizes, about = _sizes(example), None
        else:
            model, example, sizes = self._given(path)
            about = leanrnn.about(path)
        before, trained_now = sizes(model), self.data is not None
        # What is dead may be of any kind; by size of the norms only layers are cut.
        chosen = self.ratio is not None or self.budget or self.keep_widths
        groups = leanrnn.discover(model, example, scope="recurrent" if chosen else "all")
        budget = self._budget(model, groups)
        small, *losses = self._smaller(own, model, groups, budget)
        leanrnn.save(small, self.out, about=about)
        found = [before | losses[0], sizes(small) | losses[1]]
        if self.json:
            print_json({"from": str(self.source), "to": str(self.out), "before": found[0], "after": found[1]})
            return
        print_table([("", "before", "after"), *((k, _told(found[0][k]), _told(found[1][k])) for k in found[0])])
        if trained_now:
            print(f"{self.out} is trained. Load it with leanrnn.load({str(self.out)!r}, ...) and your own constructor.")
        else:
            zeroed = ", with the removed units at zero. Fine-tune it next" if chosen else ""
            print(f"{self.out} gives the same results as {self.source if own else path}{zeroed}.")

    def _smaller(
        self, own: bool, model: nn.Module, groups: leanrnn.Groups, budget: leanrnn.Budget | None
    ) -> tuple[nn.Module, dict[str, float], dict[str, float]]:
        """The smaller model, and the loss before and after, if there are data to train on."""
        import leanrnn

        if self.data is None:
            if idle := [name for name in OF_TRAINING if getattr(self, name) != getattr(type(self), name)]:
                raise ConfigError(f"--{idle[0]} is for training. Say on what: --data MODULE:FUNCTION.")
            widths = _widths(self.keep_widths)
            small = leanrnn.shrink(
                model, groups, ratio=self.ratio, round_to=self.round_to, keep_widths=widths, budget=budget
            )
            return small, {}, {}
        if not own:
            raise ConfigError(f"--data trains a model of your own, and {self.source} is none. Give MODULE:FUNCTION.")
        if self.round_to != 1:
            raise ConfigError("--round-to is for a cut at once. With --data, add it to the budget: round_to=4.")
        if budget is None or self.ratio is not None or self.keep_widths:
            raise ConfigError(
                "--data trains within a budget alone. Say what the model may cost: --budget mult_adds=25%."
            )
        training = Training(self.data, self.valid, self.loss, self.epochs, self.rate, self.teacher)
        return training.run(model, groups, budget, quiet=self.json)

    def _given(self, path: Path) -> tuple[nn.Module, Any, Callable[[Any], dict[str, Any]]]:
        """The model, an example, and what to tell of its size."""
        import leanrnn
        from leanrnn.lab.task import task_of

        if self.factory is not None:
            model, example = Given(self.source, self.factory, self.example).model()
            return model, example, _sizes(example)
        about = leanrnn.about(path)
        task = task_of(about)
        return task.load(path), task.inputs(about, 2, 3), task.sizes

    def _budget(self, model: nn.Module, groups: leanrnn.Groups) -> leanrnn.Budget | None:
        import leanrnn

        timed = any(text.partition("=")[0].strip() == "milliseconds" for text in self.budget)
        latency = leanrnn.fit_latency(model, groups, runtime=self.runtime) if timed else None
        return leanrnn.Budget.parse(self.budget, latency) if self.budget else None


def _told(size: Any) -> str:
    return f"{size:,}" if isinstance(size, int) else str(size)


def _sizes(example: Any) -> Callable[[Any], dict[str, Any]]:
    """What to tell of a model of one's own."""
    from leanrnn.cost import mult_adds
    from leanrnn.groups import count_weights

    return lambda model: {"weights": count_weights(model), "mult-adds": mult_adds(model, example)}


def _check_model_target(out: Path, source: Path) -> None:
    """A file to write a model to: not one that looks exported, and not the one that is read."""
    from leanrnn.deploy import format_of

    if format_of(out) is not None:
        raise ConfigError(f"{out} ends like an exported file. Name it .safetensors, and then use leanrnn export.")
    if out.exists() and source.exists() and out.samefile(source):
        raise ConfigError(f"{out} is the file to shrink itself. Name another one with --out.")
    check_target(out, ConfigError)


def _widths(texts: tuple[str, ...]) -> dict[str, int] | None:
    """What ``--keep-widths`` says."""
    found = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if not name or not number.isdigit():
            raise ConfigError(f"{text!r} is no width. Give NAME=NUMBER, with the name of a layer (leanrnn discover).")
        found[name] = int(number)
    return found or None
