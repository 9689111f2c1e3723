"""The paper's figure 1: what zeros in a matrix are worth if they lie anywhere, and if whole rows and columns are gone.

python -m benchmarks speed fig1      # two minutes, nothing else running; writes results, table and picture

A product W X as an LSTM has it: four gates of ``hidden`` rows, ``2 * hidden`` columns (the input and the state), a
batch of columns in X. Of the same W a part is zero: at random, stored as compressed sparse rows (multiplied by MKL
through torch, and by scipy), or 4k rows and 2k columns, which leave a smaller dense matrix. They are timed in turns.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.common import DOCS, RESULTS, put, spread, table, write
from leanrnn.deploy import in_turns

SIZES = {"hidden 1500, batch 10": (1500, 10), "hidden 650, batch 20": (650, 20), "hidden 200, batch 1": (200, 1)}
SPARSITIES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975)
WAYS = {
    "structured": "rows and columns removed",
    "torch": "random zeros, CSR, MKL",
    "scipy": "random zeros, CSR, scipy",
}
PICTURE = DOCS / "fig1.svg"


def products(hidden: int, batch: int, sparsity: float) -> dict[str, Callable[[], object]]:
    """The dense product, and the same with so many weights less in every way."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(4 * hidden, 2 * hidden, generator=generator)
    x = torch.randn(2 * hidden, batch, generator=generator)
    sparse = weight * (torch.rand(weight.shape, generator=generator) >= sparsity)
    with warnings.catch_warnings(action="ignore"):  # it is in beta, says torch
        rows = sparse.to_sparse_csr()
    left = max(1, round(hidden * (1 - sparsity) ** 0.5))
    small, part = weight[: 4 * left, : 2 * left].contiguous(), x[: 2 * left].contiguous()
    scipy_rows, array = _scipy(sparse), x.numpy()
    return {
        "dense": lambda: weight @ x,
        "structured": lambda: small @ part,
        "torch": lambda: rows @ x,
        "scipy": lambda: scipy_rows @ array,
    }


def _scipy(sparse: Tensor) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix(sparse.numpy())


def two_of_four() -> str:
    """Whether this machine multiplies matrices with two zeros in every four; what torch says if not."""
    from torch.sparse import to_sparse_semi_structured

    pattern = torch.tensor([0, 0, 1, 1]).repeat(128, 32).to(torch.bfloat16)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        to_sparse_semi_structured(pattern.to(device)) @ torch.ones(128, 128, dtype=torch.bfloat16, device=device)
    except Exception as error:  # whatever it is, it is the answer
        return f"no: {' '.join(str(error).split())[:160]}"
    return "yes"


def run(sizes: dict[str, tuple[int, int]], rounds: int, block: int) -> dict[str, Any]:
    """Speedups over the dense product, by size, way and sparsity."""
    found: dict[str, Any] = {}
    for name, (hidden, batch) in sizes.items():
        lines: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for sparsity in SPARSITIES:
            seconds = in_turns(products(hidden, batch, sparsity), rounds=rounds, turn=block)
            spent = {way: spread(each) for way, each in seconds.items()}
            for way in WAYS:
                faster = spent["dense"]["median"] / spent[way]["median"]
                lines[way].append({"sparsity": sparsity, "speedup": faster, "milliseconds": spent[way]["median"] * 1e3})
        found[name] = lines
    return {"sizes": found, "two_of_four": two_of_four()}


def page(result: dict[str, Any]) -> str:
    """The tables of docs/reproduce.md."""
    parts = []
    for name, lines in result["sizes"].items():
        rows = [[told, *(f"{each['speedup']:.2f}" for each in lines[way])] for way, told in WAYS.items()]
        rows.append(["as many times fewer weights", *(f"{1 / (1 - s):.0f}" for s in SPARSITIES)])
        parts.append(f"{name}: times faster than dense\n\n" + table(["zeros", *(f"{s:.1%}" for s in SPARSITIES)], rows))
    return "\n\n".join(parts)


def draw(result: dict[str, Any], path: Path) -> None:
    """The picture."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "leanrnn", "font.size": 9}):
        figure = Figure(figsize=(9, 3), layout="constrained")
        for axis, (name, lines) in zip(
            figure.subplots(1, len(result["sizes"]), squeeze=False)[0], result["sizes"].items(), strict=True
        ):
            for (way, told), colour, mark in zip(WAYS.items(), ("#3572b0", "#d1733b", "#3f9163"), "os^", strict=True):
                x, y = ([each[key] for each in lines[way]] for key in ("sparsity", "speedup"))
                axis.plot(x, y, color=colour, marker=mark, label=told, linewidth=1.4, markersize=4)
            axis.plot(
                SPARSITIES, [1 / (1 - s) for s in SPARSITIES], color="#888888", linestyle=":", label="fewer weights"
            )
            axis.axhline(1, color="#888888", linewidth=0.6)
            axis.set(title=name, xlabel="part of the weights that is gone", yscale="log")
        figure.axes[0].set_ylabel("times faster than dense")
        figure.axes[0].legend(frameon=False, fontsize=7)
        figure.savefig(path, metadata={"Date": None})


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Measure, write, draw."""
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--block", type=int, default=12, help="calls of one product at a time")
    parser.add_argument("--hidden", type=int, help="only a product of this size, for a trial")
    parser.add_argument("--out", type=Path, default=RESULTS / "fig1_gemm.json")
    options = parser.parse_args(words)
    sizes = {f"hidden {options.hidden}, batch 2": (options.hidden, 2)} if options.hidden else SIZES
    result = run(sizes, options.rounds, options.block)
    write(options.out, result)
    draw(result, PICTURE if options.out.parent == RESULTS else options.out.with_suffix(".svg"))
    print(page(result), f"\ntwo zeros in every four: {result['two_of_four']}")
    if options.out.parent == RESULTS:
        put({DOCS / "reproduce.md": page(result)}, "fig1")
