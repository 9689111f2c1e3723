"""What the published list of groups for BiDAF leaves out, in numbers. ::

    python -m benchmarks squad lists runs/squad-dense --questions 500

Half of the components of the second modelling LSTM, forwards, those of the smallest norm, are set to zero: once the
3201 weights that the paper's source lists for each, once the 4001 that discovery finds. Then they are cut out. A list
is right if cutting changes nothing any more. Writes results/squad_a1i.json; SQuAD and GloVe are found through
LEANRNN_DATA.
"""

from __future__ import annotations

import copy
import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import numpy as np
import torch

import leanrnn
from benchmarks.common import RESULTS, environment
from leanrnn.groups import group_norms
from leanrnn.lab.squad.config import SquadConfig
from leanrnn.lab.squad.data import Squad, batches, read
from leanrnn.lab.squad.evaluate import judged, predictions, runner
from leanrnn.lab.squad.job import example, load
from leanrnn.lab.squad.model import BiDAF

LAYER = "modelling2.fwd.l0"


def listed(tensor: str, axis: int, index: int, width: int) -> bool:
    """Whether the paper's source lists this row or column: not where the output LSTM reads the summary a1i."""
    return not (tensor.startswith("output.") and axis == 1 and 10 * width <= index < 12 * width)


@torch.no_grad()
def zeroed(model: BiDAF, slices: list[tuple[str, int, int]]) -> BiDAF:
    """A copy with these rows and columns of weights at zero; biases are in no list."""
    found = copy.deepcopy(model)
    for tensor, axis, index in slices:
        if "weight" in tensor:
            found.get_parameter(tensor).select(axis, index).zero_()
    return found


@torch.no_grad()
def compared(before: BiDAF, after: BiDAF, data: Squad, rows: Any) -> dict[str, float]:
    """How far the scores of two models are apart, and how many answers are not the same."""
    apart = 0.0
    for batch in batches(data.dev, data.vocabulary, rows[:120], 60):
        pairs = zip(runner(before)(*batch.inputs), runner(after)(*batch.inputs), strict=True)
        apart = max(apart, *(float((a - b).abs().max()) for a, b in pairs))
    a, b = (predictions(runner(model), data.dev, data.vocabulary, rows) for model in (before, after))
    f1 = [judged(each, data.dev, rows)[1] for each in (a, b)]
    changed = sum(a[key] != b[key] for key in a)
    return {"largest_change_of_a_score": apart, "answers_changed": changed, "f1_before": f1[0], "f1_after": f1[1]}


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Measure, print, write down."""
    parser.add_argument("run", type=Path, help="a dense run of squad-bidaf that is finished")
    parser.add_argument("--questions", type=int, default=1000)
    options = parser.parse_args(words)
    path = options.run / "model.safetensors"
    model = load(path).eval()
    data = read(SquadConfig.from_json(leanrnn.about(path)["config"]))
    groups = leanrnn.discover(model, example(data.vocabulary))
    layer, norms = groups[LAYER], group_norms(groups)[LAYER]
    kept = norms.argsort(descending=True)[: layer.width // 2].tolist()
    gone = [k for k in range(layer.width) if k not in kept]
    every = [piece for k in gone for piece in layer.slices(k)]
    rows = np.linspace(0, len(data.dev.ids) - 1, options.questions).astype(np.int64)
    found: dict[str, Any] = {"questions": len(rows), "components": len(gone), "environment": environment()}
    lists = {"published": [p for p in every if listed(*p, layer.width)], "discovered": every}
    for name, slices in lists.items():
        before = zeroed(model, slices)
        after = leanrnn.shrink(before, groups, keep={LAYER: kept}, verify=False)
        assert isinstance(after, BiDAF)
        found[name] = compared(before, after.eval(), data, rows)
        print(name, found[name])
    (RESULTS / "squad_a1i.json").write_text(json.dumps(found, indent=1) + "\n")
