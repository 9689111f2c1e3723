"""``leanrnn sweep``: many trainings with other settings each, under one budget or several."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from leanrnn.cli.factory import find
from leanrnn.cli.parsing import MaybeInt, MaybePath, MaybeText, Words
from leanrnn.cli.printing import print_json
from leanrnn.cli.stopping import signals
from leanrnn.errors import ConfigError

if TYPE_CHECKING:
    from leanrnn.lab.sweep.study import Claim, Plan, Sweep

__all__ = ["Sweeps", "prepared"]

ALONG = "LEANRNN_SWEEP_WORKER"
"""Set in processes that a sweep has started: they start none."""


@dataclass(frozen=True)
class Sweeps:
    """Try settings of a recipe, or of a function of your own, and find the best for every budget.

    Give the same command again to go on, or in other terminals and on other machines to work together: who joins takes
    the next trial, and one whose process has ended is taken up again from its last checkpoint. Trials that would not
    become the best end early. The front, the best trial of every budget, stands in front.json of the folder."""

    source: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECIPE|FILE:FUNCTION")]
    """A recipe (leanrnn ls lists them); or a function that gets a trial (with settings, budget, folder and report) and
    returns its score, of which less is better, and the part of the budget that is used."""
    data: MaybePath = None
    """Folder (or file) of the data of a recipe; the variable LEANRNN_DATA otherwise."""
    out: MaybePath = None
    """Folder of the sweep; sweeps/RECIPE if not given."""
    budgets: Words = ("mult_adds=50%", "mult_adds=25%", "mult_adds=12.5%")
    """What models may cost in the end: each is a study of its own."""
    search: Words = ()
    """What is tried: NAME=LOW..HIGH, NAME=LOW..HIGH:log, NAME=A|B|C. Of recipes, if not given: half to twice the
    learning rate, and when the model shrinks."""
    set: Words = ()
    """Settings that are the same in all trials, NAME=VALUE, such as epochs=5."""
    trials: int = 20
    """Of every budget."""
    workers: int = 1
    """Processes on this machine, or with --engine ray of the cluster."""
    engine: Literal["processes", "ray"] = "processes"
    """ray: the workers run on a cluster of Ray (pip install leanrnn[ray])."""
    address: MaybeText = None
    """Of the cluster; otherwise one is started on this machine."""
    storage: MaybeText = None
    """Address of a database, such as postgresql://user@host/name; otherwise a journal in the folder."""
    threads: MaybeInt = 1
    """Threads of every worker."""
    save_seconds: float = 300.0
    """From one checkpoint of a trial to the next, besides one after every epoch."""
    json: bool = False
    """Print the front as JSON."""

    def run(self) -> int:
        """Work until all trials are done; 130 if it was interrupted."""
        from leanrnn.environment import hold_memory, use_threads
        from leanrnn.lab.sweep.study import Sweep
        from leanrnn.lab.sweep.work import front_of, work

        self._check()
        use_threads(self.threads)
        hold_memory()
        plan, train = prepared(self)
        sweep = Sweep(self.folder, plan, self.storage)
        with signals(patient=False) as stopped, _shown(sweep, self.json) as told:
            if self.engine == "ray":
                from leanrnn.cli.on_ray import work_on_ray

                work_on_ray(self, sweep, stopped.is_set, told)
            else:
                with _others(0 if ALONG in os.environ else self.workers - 1):
                    work(sweep, train, stopped.is_set, told)
        front = front_of(sweep)
        self._write(front)
        if self.json:
            print_json({"front": front})
        else:
            print("\n".join(_lines(front)))
        if stopped.is_set():
            print(f"stopped; everything is in {self.folder}; the same command continues.", file=sys.stderr)
            return 130
        return 0

    @property
    def folder(self) -> Path:
        """Where everything is."""
        return self.out or Path("sweeps") / Path(self.source.replace(".py:", "-").replace(":", "-")).name

    def _check(self) -> None:
        for name in ("trials", "workers"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}. Give at least 1.")
        if not self.budgets or len({*self.budgets}) < len(self.budgets):
            raise ConfigError("give every budget once, at least one: --budgets mult_adds=50% mult_adds=25%.")
        if self.address is not None and self.engine != "ray":
            raise ConfigError("--address is of a cluster of Ray. Add --engine ray.")

    def _write(self, front: list[dict[str, Any]]) -> None:
        from leanrnn.lab.disk import write_whole

        write_whole(self.folder / "front.json", json.dumps(front, indent=1) + "\n")
        write_whole(self.folder / "front.md", "\n".join(_lines(front)) + "\n")


def prepared(asked: Sweeps) -> tuple[Plan, Any]:
    """The plan, and what trains a trial of it; on every machine that joins."""
    import leanrnn
    from leanrnn.lab.names import named
    from leanrnn.lab.settings import changed
    from leanrnn.lab.sweep.space import axes, valued
    from leanrnn.lab.sweep.study import Plan
    from leanrnn.lab.sweep.work import of_function, of_recipe
    from leanrnn.lab.task import task_named

    for budget in asked.budgets:
        leanrnn.Budget.parse(budget.split(","))  # what is none is told now
    settings = {}
    for text in asked.set:
        name, sign, value = text.partition("=")
        if not sign:
            raise ConfigError(f"{text!r} is no setting. Give NAME=VALUE.")
        settings[name] = tuple(map(valued, value.split(","))) if "," in value else valued(value)
    if ":" in asked.source:
        function = find(asked.source)
        plan = Plan(asked.source, asked.budgets, axes(asked.search), asked.trials, settings)
        return plan, of_function(function)
    recipe = named(asked.source)
    if recipe.start:
        raise ConfigError(f"{asked.source} begins with a trained model. Sweep a recipe that trains from scratch.")
    config: Any = changed(recipe.config, settings, "--set")
    space = axes(asked.search, config.rate)
    for axis in space:
        changed(config, {axis.name: axis.values[0] if axis.values else axis.low if not axis.whole else int(axis.low)},
                "--search")  # fmt: skip
    data = task_named(recipe.task).read(config, asked.data, lambda *_: None)
    plan = Plan(asked.source, asked.budgets, space, asked.trials, settings, data.digest)
    return plan, of_recipe(plan, data, "cpu", asked.save_seconds)


@contextmanager
def _others(count: int) -> Iterator[None]:
    """More processes with the same command; they end by themselves, or with this one."""
    command, there = [sys.executable, "-m", "leanrnn", *sys.argv[1:]], os.environ | {ALONG: "1"}
    found = [subprocess.Popen(command, stdout=subprocess.DEVNULL, env=there) for _ in range(count)]
    try:
        yield
        for each in found:
            each.wait()
    finally:
        for each in found:
            if each.poll() is None:
                each.terminate()


@contextmanager
def _shown(sweep: Sweep, quiet: bool) -> Iterator[Any]:
    """A bar for every budget in a terminal, lines elsewhere."""
    console = Console(stderr=quiet)
    lock = threading.Lock()

    def line(what: str, claim: Claim) -> None:
        console.print(f"{claim.budget}, trial {claim.number}: {what}", highlight=False, soft_wrap=True)

    if not console.is_terminal:
        yield line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        tasks = {budget: bar.add_task(budget, total=sweep.plan.trials) for budget in sweep.plan.budgets}

        def told(what: str, claim: Claim) -> None:
            with lock:
                line(what, claim)
                for budget, task in tasks.items():
                    counts, best = sweep.counts(budget), sweep.known(budget)[1]
                    done = sum(counts.values()) - counts.get("RUNNING", 0)
                    bar.update(task, completed=done, description=budget + (f", best {best:.4g}" if best else ""))

        yield told


def _lines(front: Sequence[dict[str, Any]]) -> list[str]:
    """The front as a table in Markdown."""
    if not front:
        return ["no trial has held its budget."]
    rows = ["| budget | score | used | settings | trials | ended early | run |", "| --- " * 7 + "|"]
    for each in front:
        used = ", ".join(f"{name} {part:.1%}".strip() for name, part in each["used"].items())
        told = ", ".join(f"{n} {v:.4g}" if isinstance(v, float) else f"{n} {v}" for n, v in each["settings"].items())
        done = sum(each.get(state, 0) for state in ("COMPLETE", "PRUNED", "FAIL"))
        rows.append(
            f"| {each['budget']} | {each['score']:.2f} | {used} | {told} | {done} | {each.get('PRUNED', 0)} | "
            f"{each['folder']} |"
        )
    return rows
