"""One frame a call: files of C beside onnxruntime and PyTorch.

python -m benchmarks speed c      # a minute; nothing else running

Three small models with states, of random weights: a noise suppressor of three GRUs of unequal widths, a voice detector
with an LSTM, and a language model's two GRUs. A call is one frame of one sequence, its state handed on, on one thread.
onnxruntime is called from Python; what that call costs by itself is told by a model that adds two numbers (`nothing`).
The file of C is called in a loop of C, compiled with -O3 -march=native. All take turns.
"""

from __future__ import annotations

import itertools
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

import leanrnn
from benchmarks.common import RESULTS, spread, table, write
from leanrnn.deploy import RUNTIMES, in_turns, metadata_of
from leanrnn.deploy.files import inputs_for
from leanrnn.environment import hold_memory

FRAMES = 100
"""In one call that is timed."""


class Stack(nn.Module):
    """A linear layer, recurrent layers, and a linear layer."""

    def __init__(self, kind: type[nn.RNNBase], sizes: tuple[int, ...]) -> None:
        super().__init__()
        into, *widths, out = sizes
        self.into = nn.Linear(into, widths[0])
        pairs = itertools.pairwise(widths)
        self.layers = nn.ModuleList(kind(a, b, batch_first=True) for a, b in pairs)
        self.out = nn.Linear(widths[-1], out)

    def forward(self, frames: torch.Tensor, states: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The outputs, and the last states."""
        y, last = torch.tanh(self.into(frames)), []
        for layer, state in zip(self.layers, states, strict=True):
            y, state = layer(y, state)
            last.append(state)
        return torch.sigmoid(self.out(y)), last

    def example(self) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """A frame and a first state."""
        states = [torch.zeros(1, 1, layer.hidden_size) for layer in self.layers]
        return torch.randn(1, 1, self.into.in_features), states


class Detector(nn.Module):
    """A linear layer, an LSTM, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.rnn, self.out = nn.Linear(129, 128), nn.LSTM(128, 128, batch_first=True), nn.Linear(128, 1)

    def forward(self, frames: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The outputs, and the last state."""
        y, (h, c) = self.rnn(torch.relu(self.into(frames)), (h, c))
        return torch.sigmoid(self.out(y)), h, c

    def example(self) -> tuple[torch.Tensor, ...]:
        """A frame and a first state."""
        return torch.randn(1, 1, 129), torch.zeros(1, 1, 128), torch.zeros(1, 1, 128)


def models() -> dict[str, Stack | Detector]:
    """By what they are for."""
    return {
        "noise suppression, GRU 24, 48, 96": Stack(nn.GRU, (42, 24, 24, 48, 96, 22)),
        "voice detection, LSTM 128": Detector(),
        "language, GRU 200, 200": Stack(nn.GRU, (200, 200, 200, 200, 2000)),
    }


def frame_by_frame(path: Path) -> Callable[[], object]:
    """Frames through onnxruntime, each with the state of the one before."""
    from leanrnn.deploy.runtimes import session

    metadata = metadata_of(path)
    ready, inputs = session(path, 1), inputs_for(metadata, {"batch": 1, "time": 1, "length": 1})
    names = [each.name for each in ready.get_outputs()]

    def call() -> None:
        for _ in range(FRAMES):
            found = dict(zip(names, ready.run(None, inputs), strict=True))
            inputs.update({name: found[out] for name, out in metadata["states"].items()})

    return call


def in_c(path: Path) -> Callable[[], object]:
    """As many frames in one loop of C."""
    inputs = inputs_for(metadata_of(path), {"batch": 1, "time": FRAMES, "length": 1})
    inputs = {name: np.ascontiguousarray(each) for name, each in inputs.items()}
    return RUNTIMES["c"].open(path, inputs, 1)


def in_torch(model: Stack | Detector) -> Callable[[], object]:
    """Frames through the model itself."""

    def call() -> None:
        with torch.inference_mode():
            frame, *state = model.example()
            for _ in range(FRAMES):
                _, *state = model(frame, *state)

    return call


def main(parser: ArgumentParser, words: Sequence[str]) -> None:
    """Export, time in turns, print and write."""
    parser.add_argument("--seconds", type=float, default=10.0, help="for each model")
    parser.add_argument("--out", type=Path, default=RESULTS / "c_speed.json")
    args = parser.parse_args(words)
    hold_memory()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    found, rows = {}, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        nothing = leanrnn.export(nn.Linear(1, 1), torch.zeros(1, 1), folder / "nothing.onnx").path
        for about, model in models().items():
            onnx = leanrnn.export(model.eval(), model.example(), folder / "m.onnx").path
            c = leanrnn.export(model, model.example(), folder / "m.c")
            calls = {
                "torch": in_torch(model), "onnxruntime": frame_by_frame(onnx), "nothing": frame_by_frame(nothing),
                "c": in_c(c.path), "c, 8 bits": in_c(leanrnn.quantize(c.path, seconds=0).path),
            }  # fmt: skip
            spent = in_turns(calls, args.seconds, rounds=3, turn=5, warm_up=2)
            microseconds = {key: spread([1e6 * each / FRAMES for each in times]) for key, times in spent.items()}
            found[about] = {"sizes": c.notes[-1], "microseconds": microseconds}
            medians = {key: each["median"] for key, each in microseconds.items()}
            ratios = [f"{medians['onnxruntime'] / medians[key]:.1f}" for key in ("c", "c, 8 bits")]
            rows.append([about, *(f"{medians[key]:.3g}" for key in calls), *ratios])
    head = ["model", *(f"{key}, µs" for key in calls), "C: times as fast as onnxruntime", "in 8 bits"]
    print(table(head, rows))
    write(args.out, {"frames": FRAMES, "models": found})
