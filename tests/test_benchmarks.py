"""The benchmarks run, at a size that says nothing about time, and memory is as promised."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run(name: str, out: Path, *options: str) -> dict:
    command = [sys.executable, str(ROOT / "benchmarks" / name), "--out", str(out), *options]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return json.loads(out.read_text())


def test_step_overhead_needs_less_than_a_copy_of_the_largest_matrix(tmp_path):
    options = ["--widths", "128", "--vocabulary", "8000", "--batch", "2", "--length", "2", "--repeats", "2"]
    result = run("step_overhead.py", tmp_path / "overhead.json", *options)
    size = result["sizes"][0]
    assert 0 < size["extra_bytes"] <= size["largest_matrix_bytes"]
    assert size["ratio"]["median"] > 0 and result["environment"]["torch"]


def test_discover_cost_measures_and_fits_an_exponent(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from discover_cost import growth, measure

    cost = measure("discover and shrink", "rhn-4", 9, 2, meta=False)
    assert cost["seconds"] > 0 and cost["extra_bytes"] >= 0 and cost["operators"] > 100
    squares = growth("test", [2, 4, 8], "axes", lambda n: {"axes": n, "seconds": n**2})
    assert abs(squares["exponent"] - 2) < 1e-9
