"""leanrnn and other tools that remove hidden units, on the same dozen models: who gives back the same function?

make peers                                # in an environment of its own; results/peers.json, docs/compared.md
python -m benchmarks peers --table        # the tables of docs/compared.md from results/peers.json alone

Every tool has a process to itself for every model. It is asked twice to remove half of the hidden units: when they are
dead beforehand, which must leave the outputs alone, and from a model in which all are alive, where the truth is that
model with zeros at what the tool says it removed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import traceback
import warnings
from argparse import SUPPRESS, ArgumentParser
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import common
from benchmarks.common import DOCS, RESULTS, ROOT, between_marks, table, write
from benchmarks.peers import tools
from benchmarks.peers.models import HIDDEN, MODELS, build, units
from benchmarks.peers.tools import TOOLS, Cut, Inputs, Way
from leanrnn.groups import count_weights

PAGE = DOCS / "compared.md"
PACKAGES = ("leanrnn", "torch-pruning", "torch", "numpy", "scipy")
OWN = (Path(__file__), Path(tools.__file__), Path(common.__file__))
ALLOWED = 1e-5  # float32, relative to the largest number of an output
VERDICTS = (
    "correct",
    "silent",
    "not judged",
    "wrong",
    "crashed",
    "not offered",
)  # best first: silence at least does no harm
KINDS = {"dead": "Half of the units dead beforehand, best way", "alive": "All units alive, best way"}
NOT_RUN = {
    "TinyNeuralNetwork": "not on PyPI (the `tinynn` there is another project), and its repository could not be reached"
}


def judge(way: Way, name: str, dead: bool) -> dict[str, Any]:
    """What became of one model in one way. Only what the tool itself raises is its crash."""
    case, original = build(name, dead), build(name, dead).model
    try:
        cut = way(case.model, case.inputs)
        after = None if cut is None else outputs(cut, case.inputs)
    except Exception as error:
        if Path(traceback.extract_tb(error.__traceback__)[-1].filename) in OWN:
            raise  # a fault of this comparison, not of the tool
        return {"verdict": "crashed", "error": shortened(error)}
    if cut is None or after is None:
        return {"verdict": "not offered"}
    sizes = {
        "units": [units(original), units(cut.small)],
        "weights": [count_weights(original), count_weights(cut.small)],
    }
    if sizes["units"][0] == sizes["units"][1]:
        return {"verdict": "silent", **sizes}
    if not dead and cut.zeros is None:
        return {"verdict": "not judged", **sizes}
    if not dead:
        zero(original, cut)
    wanted = flat(original(*states(case.inputs, cut, narrow=False)))
    far = difference(wanted, after, cut)
    return {"verdict": "correct" if far <= ALLOWED else "wrong", "difference": far, **sizes}


def zero(model: nn.Module, cut: Cut) -> None:
    """Zeros where the tool says that it cut."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    for name, mask in (cut.zeros or {}).items():
        parameters[name].data.mul_(mask)


def states(inputs: Inputs, cut: Cut, narrow: bool) -> Inputs:
    """The inputs, with states only of units that were kept: the others at zero or, if narrow, left out."""
    kept = torch.tensor(cut.kept)
    there = torch.zeros(HIDDEN).index_fill(0, kept, 1.0)
    change = (lambda x: x.index_select(-1, kept)) if narrow else (lambda x: x * there)
    return tuple(change(x) if x.shape[-1] == HIDDEN and x.is_floating_point() else x for x in inputs)


def outputs(cut: Cut, inputs: Inputs) -> list[Tensor]:
    """What the smaller model gives, whether it asks for a state of the old width or of its own."""
    try:
        return flat(cut.small(*states(inputs, cut, narrow=False)))
    except RuntimeError:
        if all(x.shape[-1] != HIDDEN for x in inputs):
            raise
        return flat(cut.small(*states(inputs, cut, narrow=True)))


def flat(result: Any) -> list[Tensor]:
    """All tensors of a result."""
    return [each.detach() for each in (result if isinstance(result, tuple) else (result,))]


def difference(wanted: list[Tensor], got: list[Tensor], cut: Cut) -> float:
    """The largest difference, relative to the largest number of each output; a state may have lost what was dropped."""
    worst = 0.0
    for large, small in zip(wanted, got, strict=True):
        if large.shape != small.shape:
            large = large.index_select(-1, torch.tensor(cut.kept))
        worst = max(worst, ((large - small).abs().max() / large.abs().max()).item())
    return worst


def shortened(error: Exception) -> str:
    """Type and message in one line; without a message, the line that raised it."""
    message = " ".join(re.sub(r"\([^()]*\n.*\n\)", "(...)", str(error), flags=re.DOTALL).split())
    line = traceback.extract_tb(error.__traceback__)[-1].line or ""
    return f"{type(error).__name__}: {message[:110] or line}"


def fresh(tool: str, name: str) -> dict[str, Any]:
    """All ways of a tool on one model, in a new process."""
    command = [sys.executable, "-m", "benchmarks", "peers", "--one", tool, name]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return _all_ways(tool, "no result after 120 s")
    if done.returncode < 0:
        return _all_ways(tool, f"the process was ended by signal {-done.returncode}")
    if done.returncode:
        raise RuntimeError(f"{tool} on {name}: {done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _all_ways(tool: str, error: str) -> dict[str, Any]:
    outcome = {"verdict": "crashed", "error": error}
    return {way: {"dead": outcome, "alive": outcome} for way in TOOLS[tool]}


def one(tool: str, name: str) -> dict[str, Any]:
    """All ways of a tool on one model, each question in a fork of its own: a run that fails may leave things behind."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    asked = [(tool, way, name, kind == "dead") for way in TOOLS[tool] for kind in KINDS]
    with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        answers = iter(pool.starmap(_judge_named, asked, chunksize=1))
    return {way: {kind: next(answers) for kind in KINDS} for way in TOOLS[tool]}


def _judge_named(tool: str, way: str, name: str, dead: bool) -> dict[str, Any]:
    return judge(TOOLS[tool][way], name, dead)


def cell(outcome: dict[str, Any]) -> str:
    """A verdict in few words."""
    verdict = str(outcome["verdict"])
    if verdict == "crashed":
        return f"crashed: `{outcome['error']}`".replace("|", "\\|")
    if verdict == "correct":
        return "correct, {} → {}".format(*outcome["units"])
    return f"**wrong** by {outcome['difference']:.2g}" if "difference" in outcome else verdict


def best(ways: dict[str, Any], kind: str) -> dict[str, Any]:
    """The outcome of the way that went best; of two that are wrong, the one that is nearer."""
    outcomes = [way[kind] for way in ways.values()]
    return min(outcomes, key=lambda outcome: (VERDICTS.index(outcome["verdict"]), outcome.get("difference", 0.0)))


def tables(result: dict[str, Any]) -> str:
    """What stands between the marks of docs/compared.md."""
    models = result["models"]
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    parts = [f"Versions: {versions}; Python {result['environment']['python']}."]
    parts += [f"{tool} was not run: {why}." for tool, why in result["not_run"].items()]
    for kind, title in KINDS.items():
        rows = [[n, *(cell(best(models[n][t], kind)) for t in TOOLS)] for n in models]
        parts += [f"### {title}", table(["model", *TOOLS], rows)]
    for tool in TOOLS:
        rows = [[n, *(_both(way) for way in models[n][tool].values())] for n in models]
        parts += [f"### {tool}, every way", table(["model", *(f"`{way}`" for way in TOOLS[tool])], rows)]
    return "\n\n".join(parts)


def _both(way: dict[str, Any]) -> str:
    """Both questions' verdicts, or the one if they agree."""
    return " / ".join(dict.fromkeys(cell(way[kind]) for kind in KINDS))


def rewritten(page: str, result: dict[str, Any]) -> str:
    """The page with the tables of this result."""
    return between_marks(page, tables(result))


def main(parser: ArgumentParser, words: list[str]) -> None:
    """All tools on all models, one after the other."""
    parser.add_argument("--table", action="store_true", help="only write the tables again")
    parser.add_argument("--out", type=Path, default=RESULTS / "peers.json")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--one", nargs=2, help=SUPPRESS)
    options = parser.parse_args(words)
    if options.one:
        print(json.dumps(one(*options.one)))
        return
    if not options.table:
        models: dict[str, Any] = {}
        for name in MODELS:
            models[name] = {tool: fresh(tool, name) for tool in TOOLS}
            print(f"{name}: " + "; ".join(f"{t}: {cell(best(w, 'dead'))}" for t, w in models[name].items()), flush=True)
        versions = {name: metadata.version(name) for name in PACKAGES}
        write(options.out, {"versions": versions, "not_run": NOT_RUN, "models": models})
    options.page.write_text(rewritten(options.page.read_text(), json.loads(options.out.read_text())))
