"""The paper's speedup: 10 sequences of 30 words through its language models, dense and with the widths it found.

python -m benchmarks speed paper               # 1000 runs of each, some ten minutes, nothing else running
python -m benchmarks speed paper --runs 100

Weights are random: time does not depend on them. The models take turns, in onnxruntime with single precision and with
weights of eight bits; memory for the scores is held from run to run. The last columns tell how far that is from what
the machine can do: the same matrix products alone, each as large as the model has it, one after the other, by the same
runtime. Ratios depend on the processor: a result is kept for every kind of processor it was measured with.
"""

from __future__ import annotations

import json
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch

import leanrnn
from benchmarks.common import DOCS, RESULTS, kind_of_processor, put, spread, table, told
from leanrnn.deploy import File, in_turns
from leanrnn.deploy.runtimes import session
from leanrnn.environment import hold_memory
from leanrnn.lab.language.model import LanguageModel

WORDS, BATCH, STEPS = 10_000, 10, 30
WIDTHS = {"dense": (1500, 1500), "373, 315": (373, 315), "381, 535": (381, 535)}
BLOCK = 50  # runs of one model at a time
PAPER = {"373, 315": 10.59, "381, 535": 7.10}
"""Its speedups, for 9.0 and 7.5 times fewer weights, with ten threads of another processor."""


def files(folder: Path, embedding: int, widths: tuple[int, int], words: int) -> dict[str, Path]:
    """The model in single precision and in eight bits."""
    name = "-".join(map(str, widths))
    model = LanguageModel(words, embedding, widths).eval()
    written = leanrnn.export(model, torch.randint(words, (STEPS, BATCH)), folder / f"{name}.onnx")
    return {"float32": written.path, "int8": leanrnn.quantize(written.path, seconds=0).path}


def products(embedding: int, widths: tuple[int, int], words: int) -> list[tuple[int, int, int, int]]:
    """Of every matrix product of a run: rows, inner length, columns, how often."""
    found, rows = [], BATCH * STEPS
    for inner, width in zip((embedding, *widths), widths, strict=False):
        found += [(rows, inner, 4 * width, 1), (BATCH, width, 4 * width, STEPS)]
    return [*found, (rows, widths[-1], words, 1)]


def plain(folder: Path, inner: int, columns: int, threads: int) -> Any:
    """A session of nothing but a product with constant weights, which onnxruntime packs when it loads them."""
    values = torch.randn(inner, columns).numpy()
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["rows", inner])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["rows", columns])],
        [onnx.numpy_helper.from_array(values, "w")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, str(folder / "product.onnx"))
    return session(folder / "product.onnx", threads)


def limit(folder: Path, shapes: list[tuple[int, int, int, int]], rounds: int = 20) -> float:
    """Seconds of the products alone, in the same runtime, into memory that is there."""
    total = 0.0
    for rows, inner, columns, count in shapes:
        ready = plain(folder, inner, columns, torch.get_num_threads())
        bound = ready.io_binding()
        bound.bind_cpu_input("x", torch.randn(rows, inner).numpy())
        bound.bind_ortvalue_output("y", onnxruntime.OrtValue.ortvalue_from_shape_and_type([rows, columns], "float32"))

        def products(ready: Any = ready, bound: Any = bound, count: int = count) -> None:
            for _ in range(count):
                ready.run_with_iobinding(bound)

        total += spread(in_turns({"": products}, rounds=rounds, turn=1)[""])["median"]
    return total


def run(folder: Path, runs: int, embedding: int, scale: float, words: int) -> dict[str, Any]:
    """All models in turns."""
    calls, facts = {}, {}
    for name, widths in WIDTHS.items():
        small = (round(widths[0] * scale), round(widths[1] * scale))
        shapes = products(embedding, small, words)
        facts[name] = {
            "widths": small,
            "mult_adds": sum(m * k * n * c for m, k, n, c in shapes),
            "limit": limit(folder, shapes),
        }
        for kind, path in files(folder, embedding, small, words).items():
            file = File(path, "onnxruntime", {"batch": BATCH, "time": STEPS})
            calls[f"{name} {kind}"] = file.caller(torch.get_num_threads())
    seconds = in_turns(calls, rounds=max(1, runs // BLOCK), turn=min(runs, BLOCK))
    first = spread(seconds["dense float32"])["median"]
    measured = {}
    for name, times in seconds.items():
        found = spread(times)
        measured[name] = {"milliseconds": {k: v * 1e3 for k, v in found.items()}, "speedup": first / found["median"]}
    for name, each in facts.items():
        median = measured[f"{name} float32"]["milliseconds"]["median"] / 1e3
        each["gflops"] = 2 * each["mult_adds"] / median / 1e9
        each["gflops_of_the_products_alone"] = 2 * each["mult_adds"] / each["limit"] / 1e9
    return {"runs": runs, "batch": BATCH, "steps": STEPS, "embedding": embedding, "models": facts, "measured": measured}


def page(processors: dict[str, Any]) -> str:
    """The table of docs/reproduce.md."""
    head = ["processor", "widths", "weights", "mult-adds a word", "ms (quartiles)", "times faster", "in the paper"]
    rows = [row for name, result in processors.items() for row in lines(name, result)]
    return table([*head, "GFLOPS", "GFLOPS of the products alone"], rows)


def lines(processor: str, result: dict[str, Any]) -> list[list[str]]:
    """Of one processor."""
    rows = []
    for name, each in result["measured"].items():
        model, kind = name.rsplit(" ", 1)
        facts, ms = result["models"][model], each["milliseconds"]
        exact = kind == "float32"
        rows.append([
            processor, "1500, 1500" if model == "dense" else model, kind,
            f"{facts['mult_adds'] / BATCH / STEPS / 1e6:.2f} M",
            f"{ms['median']:.1f} ({ms['q25']:.1f} to {ms['q75']:.1f})", f"{each['speedup']:.2f}",
            str(PAPER.get(model, "")) if exact else "", f"{facts['gflops']:.0f}" if exact else "",
            f"{facts['gflops_of_the_products_alone']:.0f}" if exact else "",
        ])  # fmt: skip
    return rows


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Measure, write, and put the table into the page."""
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--scale", type=float, default=1.0, help="of all widths, for a trial")
    parser.add_argument("--words", type=int, default=WORDS)
    parser.add_argument("--out", type=Path, default=RESULTS / "paper_speedup.json")
    options = parser.parse_args(words)
    hold_memory()
    with tempfile.TemporaryDirectory() as folder:
        result = run(Path(folder), options.runs, round(1500 * options.scale), options.scale, options.words)
    known = json.loads(options.out.read_text()) if options.out.exists() else {"processors": {}}
    known["processors"][kind_of_processor()] = told(result)
    options.out.write_text(json.dumps(known, indent=2) + "\n")
    text = page(known["processors"])
    print(text)
    if options.out.parent == RESULTS:
        put({DOCS / "reproduce.md": text}, "speedup")
