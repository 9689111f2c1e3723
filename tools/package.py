"""Builds wheel and source archive, checks them, and tries the wheel as somebody would who has just installed it.

python -m tools.package          # into dist/, with what `make package` installs; an empty environment in build/try
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from argparse import ArgumentParser
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST, TRY = ROOT / "dist", ROOT / "build" / "try"
FOREIGN = re.compile(r"^(tests|tools|benchmarks|results|docs|examples)/|\.pyc$")
"""What has no place in a wheel."""


def build() -> tuple[Path, Path]:
    """Wheel and source archive, alone in dist/."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--quiet", "--outdir", DIST, ROOT)
    return next(DIST.glob("*.whl")), next(DIST.glob("*.tar.gz"))


def check(wheel: Path, archive: Path) -> None:
    """Metadata and contents."""
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, archive)
    run(sys.executable, "-m", "check_wheel_contents", wheel)
    names = zipfile.ZipFile(wheel).namelist()
    with tarfile.open(archive) as opened:
        inside = {name.partition("/")[2] for name in opened.getnames()}
    faults = [f"{name} is in the wheel" for name in names if FOREIGN.search(name)]
    faults += [f"{name} is not in the wheel" for name in ("leanrnn/py.typed",) if name not in names]
    faults += [
        f"{name} is not in the source archive" for name in ("tests/conftest.py", "Makefile") if name not in inside
    ]
    if faults:
        sys.exit("\n".join(faults))
    print(f"{wheel.name}: {len(names)} files, {wheel.stat().st_size / 1e3:.0f} kB; {archive.name}: {len(inside)} files")


def try_out(wheel: Path) -> None:
    """In an empty environment and folder: what the README shows, and its types as mypy and pyright see them."""
    shutil.rmtree(TRY, ignore_errors=True)
    run(sys.executable, "-m", "venv", TRY / "env")
    python = TRY / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "-qq", "-c", ROOT / "constraints.txt", wheel)
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    (TRY / "tagger.py").write_text(blocks[0])
    (TRY / "use.py").write_text("\n".join(blocks[1:]))
    run(python, "use.py", cwd=TRY)
    run(TRY / "env" / "bin" / "leanrnn", "discover", "tagger.py:tagger", cwd=TRY)
    (TRY / "typed.py").write_text(TYPED)
    run(sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "typed.py", cwd=TRY)
    run(sys.executable, "-m", "pyright", "--pythonpath", python, "typed.py", cwd=TRY)


TYPED = '''\
"""What a type checker sees of leanrnn in somebody's project."""

import torch
from torch import nn

import leanrnn


def small(model: nn.Module, example: torch.Tensor, optimizer: torch.optim.Optimizer) -> nn.Module:
    groups: leanrnn.Groups = leanrnn.discover(model, example)
    budget = leanrnn.Budget(mult_adds="25%")
    sparsifier = leanrnn.Sparsifier(groups, budget=budget, steps=100).attach(optimizer)
    widths: dict[str, int] = groups.widths
    print(widths, sparsifier.steps)
    return leanrnn.shrink(model, groups)
'''


def run(*words: object, cwd: Path = ROOT) -> None:
    """A command that has to succeed; its output is shown."""
    done = subprocess.run([str(word) for word in words], cwd=cwd)
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, words))}")


def main() -> None:
    """Build, check, try."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--no-try", action="store_true", help="do not install the wheel")
    options = parser.parse_args()
    wheel, archive = build()
    check(wheel, archive)
    if not options.no_try:
        try_out(wheel)


if __name__ == "__main__":
    main()
