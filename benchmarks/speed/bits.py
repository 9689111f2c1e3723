"""A GRU in eight bits, three ways: what each changes, how large it is, and how long it takes.

python -m benchmarks speed bits      # trains a small language model first, in minutes; nothing else running

The model reads the documentation that comes with Python, as that of `leanrnn demo` does: embedding, two layers of 200
and 2000 words. `weights` has bytes in the file and computes in single precision, `rounded` (QDQ) besides rounds what
goes into every layer to bytes and back, and `loop` is what `leanrnn.quantize` writes: products of bytes, the recurrent
ones in a loop. Times are taken of a second model too, with layers of 650 and random weights. They are timed in
turns, on one thread; a ratio is left out where quartiles are far apart.
"""

from __future__ import annotations

import tempfile
from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import torch

import leanrnn
from benchmarks.common import DOCS, RESULTS, put, spread, table, write
from leanrnn.deploy import File, in_turns, times_faster
from leanrnn.environment import hold_memory
from leanrnn.lab import Config
from leanrnn.lab.demo.demo import CONFIGS
from leanrnn.lab.language.loop import train
from leanrnn.lab.language.model import language_model
from leanrnn.lab.language.onnx import export_language_model, perplexity_of_file
from leanrnn.lab.language.text import Text, read
from leanrnn.lab.runs import Run

RUN, WIDE = RESULTS.parent / "runs" / "gru-bits", (650, 650)
SIZES = ({"batch": 1, "time": 1}, {"batch": 1, "time": 30}, {"batch": 10, "time": 30})


def trained(config: Config, text: Text) -> Path:
    """The file of a GRU that has learned the text; one that is there is taken."""
    about = {"config": config.to_json(), "text": text.digest}
    with Run.open(RUN, about, defaults={"config": Config().to_json()}) as run:
        if run.result() is None:
            for event in train(config, text, run):
                print(event.line(config) or "", end="\n" if event.line(config) else "", flush=True)
    return RUN / "model.safetensors"


def rounded(source: Path, out: Path) -> Path:
    """What goes into recurrent nodes is rounded to bytes and made numbers again; weights are bytes in the file."""
    model = onnx.load(source)
    for node in [node for node in model.graph.node if node.op_type == "GRU"]:
        names = [f"{node.name}/{part}" for part in ("bytes", "scale", "zero")]
        rounds = onnx.helper.make_node("DynamicQuantizeLinear", [node.input[0]], names)
        back = onnx.helper.make_node("DequantizeLinear", names, [f"{node.name}/rounded"])
        place = list(model.graph.node).index(node)
        model.graph.node.insert(place, back)
        model.graph.node.insert(place, rounds)
        node.input[0] = back.output[0]
    onnx.save(model, out)
    return leanrnn.quantize(out, out, weights_only=True, seconds=0).path


def ways(source: Path, folder: Path) -> dict[str, Path]:
    """The model in 32 bits, and in eight in every way."""
    return {
        "32 bits": source,
        "weights": leanrnn.quantize(source, folder / "weights.onnx", weights_only=True, seconds=0).path,
        "rounded": rounded(source, folder / "rounded.onnx"),
        "loop": leanrnn.quantize(source, folder / "loop.onnx", seconds=0).path,
    }


def clock(files: Mapping[str, Path], seconds: float) -> dict[str, list[dict[str, Any]]]:
    """Milliseconds of every way, at every size, and how many times faster than 32 bits."""
    calls = {(name, i): File(path, "onnxruntime", each) for name, path in files.items() for i, each in enumerate(SIZES)}
    spent = in_turns({key: file.caller(1) for key, file in calls.items()}, seconds)
    return {
        name: [
            {
                **SIZES[i],
                **spread([1e3 * each for each in spent[name, i]]),
                "times_faster": times_faster(spent["32 bits", i], spent[name, i]),
            }
            for i in range(len(SIZES))
        ]
        for name in files
    }


def wide(config: Config, words: int, folder: Path, widths: tuple[int, ...] = WIDE) -> Path:
    """Layers that are several times as wide, with random weights: time does not depend on them."""
    config = replace(config, embedding=widths[0], widths=widths)
    about = {"config": config.to_json(), "words": list(map(str, range(words)))}
    path = folder / "wide.safetensors"
    leanrnn.save(language_model(config, words).eval(), path, about=about)
    return export_language_model(path, path.with_suffix(".onnx")).path


def rows(found: Mapping[str, Any]) -> str:
    """The tables of docs/deploy.md."""
    sizes = [f"batch {each['batch']}, time {each['time']}" for each in SIZES]
    quality = [
        [name, f"{each['perplexity']:.3f}", f"{each['bytes'] / 1e6:.2f}", *map(_told, each["times"]),
         *(_told(time) for time in found["wide"][name])]
        for name, each in found["trained"].items()
    ]  # fmt: skip
    head = ["way", "perplexity", "MB", *sizes, *(f"{WIDE[0]} wide: {each}" for each in sizes)]
    return table(head, quality)


def _told(time: Mapping[str, Any]) -> str:
    ratio = time["times_faster"]
    return f"{time['median']:.3g} ms" + (
        " (noisy)" if ratio is None else f" ({ratio:.2f} times as fast)" * (ratio != 1)
    )


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Train, export, judge, time, write down."""
    parser.add_argument("--epochs", type=int, default=3, help="of training")
    parser.add_argument("--seconds", type=float, default=60.0, help="of timing, for each of two models")
    options = parser.parse_args(words)
    hold_memory()
    torch.set_num_threads(1)
    config = replace(CONFIGS["dense"], cell="gru", epochs=options.epochs, constant=1)
    text = read(config)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        files = ways(export_language_model(trained(config, text), folder / "gru.onnx").path, folder)
        times = clock(files, options.seconds)
        found: dict[str, Any] = {"trained": {}}
        for name, path in files.items():
            score = perplexity_of_file(path, text, config.batch, config.window)
            found["trained"][name] = {"perplexity": score, "bytes": path.stat().st_size, "times": times[name]}
            print(f"{name:<8} {score:.3f}  {path.stat().st_size:,} bytes", flush=True)
        found["wide"] = clock(ways(wide(config, len(text.words), folder), folder), options.seconds)
    write(RESULTS / "gru_bits.json", found)
    put({DOCS / "deploy.md": rows(found)}, "gru-bits")
