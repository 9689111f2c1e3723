"""leanrnn on recurrent models that other people published: what can be cut out of them, and what not.

make zoo                                # a chosen few, in an environment of their own; prints a table
make zoo MODELS="flair_tagger pf_tft"   # others; their packages are installed first
make zoo MODELS=all                     # all of them; results/reach.json and docs/reach.md
python -m benchmarks reach --table      # docs/reach.md from results/reach.json alone

Every model has a process to itself. A random half of every group is dropped: first set to zero by hand, from
``layer.slices(k)`` alone, then cut out by ``shrink``; all outputs have to be the same. What was cut is then exported,
run at other lengths, and written in eight bits. A run of all of them that was interrupted goes on where it stopped, as
long as neither leanrnn nor the entries have changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from argparse import SUPPRESS, ArgumentParser
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, ROOT, write
from benchmarks.reach.page import PAGE, explained, line, printed, rewritten, short
from benchmarks.reach.trial import attempt
from benchmarks.zoo import ZOO
from benchmarks.zoo.packages import CHOSEN, OLDER, imported, libraries, record

SECONDS = 600
MARK = "reach: "  # packages print what they like; the answer is the line that starts so


def one(name: str) -> dict[str, Any]:
    """What became of one model, in this process."""
    started = time.perf_counter()
    try:
        answer = attempt(ZOO[name])
    except Exception as error:
        answer = {"result": "ERROR", "why": short(f"{type(error).__name__}: {error}")[:300]}
        answer["at"] = short(traceback.format_exc().strip()[-500:])
    return answer | {"version": _version(ZOO[name].package), "seconds": round(time.perf_counter() - started, 1)}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def apart(name: str, option: str = "--one") -> dict[str, Any]:
    """The same in a process of its own, in a folder of its own: some packages write files when they are imported."""
    paths = [str(OLDER)] if ZOO[name].older else []
    paths += [path for path in [os.environ.get("PYTHONPATH")] if path] + [str(ROOT)]
    settings = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "benchmarks", "reach", option, name]
    with tempfile.TemporaryDirectory() as folder:
        keep = {"capture_output": True, "text": True, "cwd": folder, "env": os.environ | settings}
        try:
            done = subprocess.run(command, timeout=SECONDS, **keep)
        except subprocess.TimeoutExpired:
            return {"result": "ERROR", "why": f"no answer in {SECONDS} s", "seconds": SECONDS}
    lines = [text for text in done.stdout.splitlines() if text.startswith(MARK)]
    if not lines:
        why = short(done.stderr.strip()[-300:]) or f"the process ended with {done.returncode}"
        return {"result": "ERROR", "why": why}
    return dict(json.loads(lines[-1].removeprefix(MARK)))


def fingerprint() -> str:
    """What the answers depend on: leanrnn's source, the entries and the procedure."""
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "benchmarks" / "zoo").glob("*.py")]
    files += [ROOT / "benchmarks" / "reach" / name for name in ("models.py", "trial.py", "exports.py")]
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def all_models(partial: Path) -> dict[str, Any]:
    """Answers for all entries; those of an interrupted run of the same code are taken over, but for errors."""
    of, known = fingerprint(), json.loads(partial.read_text()) if partial.exists() else {}
    models = {
        name: answer
        for name, answer in known.get("models", {}).items()
        if known["of"] == of and name in ZOO and answer["result"] != "ERROR"
    }
    for name in ZOO:
        if name not in models:
            models[name] = apart(name)
            partial.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(json.dumps({"of": of, "models": models}))
        print(line(name, models[name]), flush=True)
    return {name: models[name] for name in ZOO}


def chosen(names: list[str]) -> dict[str, Any]:
    """Answers for the models that were named."""
    models = {}
    for name in names:
        models[name] = apart(name)
        print(line(name, models[name]), flush=True)
    return models


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Run models, or write the page."""
    parser.add_argument("models", nargs="*", default=list(CHOSEN), help="names of entries, or all")
    parser.add_argument("--table", action="store_true", help="only write the page again")
    parser.add_argument("--packages", action="store_true", help="write down what these models import")
    parser.add_argument("--out", type=Path, default=RESULTS / "reach.json")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--one", choices=ZOO, help=SUPPRESS)
    parser.add_argument("--imported", choices=ZOO, help=SUPPRESS)
    options = parser.parse_args(words)
    if unknown := set(options.models) - ZOO.keys() - {"all"}:
        parser.error(f"no entry is called {', '.join(sorted(unknown))}. There are {', '.join(ZOO)}.")
    if options.one or options.imported:
        libraries()
        print(MARK + json.dumps(one(options.one) if options.one else imported(options.imported)), flush=True)
        os._exit(0)  # not through the exit handlers of a few hundred packages
    if options.packages:
        for name in ZOO if options.models == ["all"] else options.models:
            found = apart(name, "--imported")
            print(f"{name}: {found.get('why', 'recorded')}", flush=True)
            if "newer" in found:
                record(name, found)
    elif options.table or options.models == ["all"]:
        partial = options.out.with_suffix(".partial.json")
        if not options.table:
            write(options.out, {"models": all_models(partial)})
            partial.unlink()
        result = json.loads(options.out.read_text())
        options.page.write_text(rewritten(options.page.read_text(), result))
        _leave(result["models"])
    else:
        models = chosen(options.models)
        print("\n" + printed(models))
        _leave(models)


def _leave(models: dict[str, Any]) -> None:
    """Say what nobody has explained yet; fail if a model went wrong."""
    for name, answer in models.items():
        for pin in explained(name, answer)[1]:
            print(f"not explained in its entry: {name}: {pin}")
    files = [answer["file"] for answer in models.values() if "file" in answer]
    wrong = any("raw" in file or "lengths" in file["why"] for file in files)
    sys.exit(wrong or any(answer["result"] in ("WRONG", "ERROR") for answer in models.values()))
