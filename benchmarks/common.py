"""What every benchmark shares: the machine it ran on, spread of repeated timings, where results go, and the tables that
pages take from them."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from leanrnn.deploy import has_vnni

ROOT = Path(__file__).parents[1]
RESULTS, DOCS = ROOT / "results", ROOT / "docs"


def environment() -> dict[str, Any]:
    """Processor, threads and versions; nothing that names the machine."""
    return {
        "processor": _of_processor("model name") or platform.processor(),
        "instructions": instructions(),
        "family": _of_processor("cpu family"),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def instructions() -> str:
    """What the processor has for products of matrices: ``AVX2``, or ``AVX512 VNNI``."""
    return f"{torch.backends.cpu.get_cpu_capability()}{' VNNI' * has_vnni()}"


def kind_of_processor() -> str:
    """Its instructions, and its maker's family where the system tells: ``AVX512 VNNI, family 26``."""
    return ", family ".join(filter(None, (instructions(), _of_processor("cpu family"))))


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and quartiles."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": middle, "q25": low, "q75": high}


def told(result: dict[str, Any]) -> dict[str, Any]:
    """Result with the command, ``python -m benchmarks ...`` as it was typed, and the environment."""
    module = sys.modules["__main__"].__spec__
    name = module.name.removesuffix(".__main__") if module else Path(sys.argv[0]).stem
    command = shlex.join(["python", "-m", name, *sys.argv[1:]])
    return {"command": command, "environment": environment(), **result}


def write(path: Path, result: dict[str, Any]) -> None:
    """The same as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told(result), indent=2) + "\n")


def printed(*words: str) -> Any:
    """What a command of leanrnn prints as JSON. ::

    printed("export", "runs/mine", "--out", "mine.onnx")["difference"]
    """
    command = [sys.executable, "-m", "leanrnn", *words, "--json"]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout)


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def between_marks(page: str, text: str, name: str = "") -> str:
    """The page with this text where its marks say that tables are written by a program; ``name`` tells which."""
    marks = re.compile(rf"(<!-- tables: {name}[^\n]*? -->\n).*?(\n<!-- end of tables -->)", re.DOTALL)
    return marks.sub(lambda match: f"{match[1]}\n{text}\n{match[2]}", page)


def put(pages: Mapping[Path, str], name: str) -> None:
    """Write tables between the marks of this name, one text for each page."""
    for page, text in pages.items():
        page.write_text(between_marks(page.read_text(), text, f"{name},"))


def _of_processor(key: str) -> str:
    """What Linux tells of the first processor; elsewhere nothing."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.partition("\t")[0] == key), "")
