"""Runs the programs of a page of docs/frameworks in this process, kills it at a step if asked to, and writes down what
came out. ``prove.py`` starts it with the page, a folder, and the step."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

import leanrnn


def programs(page: Path) -> str:
    """The blocks of Python of a page, each at its own lines, so that a traceback shows them."""
    text, lines = page.read_text(encoding="utf-8"), []
    for match in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        lines += [""] * (text.count("\n", 0, match.start(1)) - len(lines)) + match[1].splitlines()
    return "\n".join(lines)


class Steps:
    """Counts steps of all optimizers and the weights they have, and ends the process with one of them."""

    def __init__(self, last: int) -> None:
        self.last, self.count, self.sizes = last, 0, list[int]()

    def __call__(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """A step was done."""
        self.count += 1
        self.sizes.append(sum(p.numel() for group in optimizer.param_groups for p in group["params"]))
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)


def main(page: str, folder: str, last: str = "0") -> None:
    """Run, save, export."""
    source = programs(Path(page))
    code = compile(source, page, "exec")
    os.chdir(folder)
    torch.set_num_threads(1)
    for seed in (torch.manual_seed, np.random.seed, random.seed):
        seed(0)
    steps = Steps(int(last))
    register_optimizer_step_post_hook(steps)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(code, names)
    model = names["model"].eval().cpu()
    leanrnn.save(model, "end.safetensors")
    try:
        exported = f"differs by {leanrnn.export(model, names['example'], 'end.onnx').difference:.0e}"
    except leanrnn.errors.ExportError as error:
        exported = "no: " + re.sub(r"\S*site-packages/", "", str(error).partition(". ")[0])
    size = sum(p.numel() for p in model.parameters())
    found = {"steps": steps.count, "sizes": [*steps.sizes, size], "exported": exported}
    Path("end.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
