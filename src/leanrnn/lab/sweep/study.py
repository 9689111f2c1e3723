"""A study that processes share: which trial is whose, what came out, and whose process is gone.

Every budget is a study of Optuna with one objective, the score, and the limits of the budget as constraints. A process
has a trial as long as it holds a lock beside the trial's folder; the lock ends with the process, however that ends, and
then any other process takes the trial up again, with its settings and from its last checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, Timeout

from leanrnn.errors import ConfigError, RunError
from leanrnn.lab.disk import write_whole
from leanrnn.lab.sweep.forecast import Point, hopeless
from leanrnn.lab.sweep.space import Axis

__all__ = ["Claim", "Hopeless", "Plan", "Sweep", "optuna"]


class Hopeless(Exception):
    """This trial would not become the best one; raised where it tells its score."""


@dataclass(frozen=True)
class Plan:
    """What a sweep is; it stands in ``sweep.json`` of its folder."""

    source: str
    """A recipe, or FILE:FUNCTION."""
    budgets: tuple[str, ...]
    space: tuple[Axis, ...]
    trials: int
    """Of every budget."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What is the same in all of them and not as in the recipe."""
    text: str = ""
    """Tells the data from other data."""
    seed: int = 1

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return json.loads(json.dumps(asdict(self)))  # type: ignore[no-any-return]


@dataclass
class Claim:
    """A trial that this process has; ``settings`` are what it is to be trained with."""

    sweep: Sweep
    budget: str
    number: int
    settings: dict[str, Any]
    folder: Path
    lock: BaseFileLock
    trial: Any
    points: list[Point] = field(default_factory=list)

    def report(self, part: float, score: float, used: float = 1.0) -> None:
        """How good the model is (lower is better) and what part of the budget it takes, so far into the training;
        :class:`Hopeless` if it is better to stop here. ::

            trial.report(0.5, valid_loss, used=1.4)
        """
        self.points = [each for each in self.points if each[0] < part - 1e-9] + [(part, score, used)]
        self.trial.set_user_attr("points", self.points)
        finished, best = self.sweep.known(self.budget)
        if hopeless(self.points[-1], finished, best):
            raise Hopeless

    def finish(self, score: float, used: Mapping[str, float]) -> None:
        """The result; what is above 1 in ``used`` does not hold the budget."""
        for name, part in used.items():
            self.trial.set_constraint(name, part - 1.0)
        self._tell(score)

    def end(self) -> None:
        """It was hopeless."""
        self._tell(None, "PRUNED")

    def fail(self, reason: str) -> None:
        """It could not be trained."""
        self.trial.set_user_attr("reason", reason)
        self._tell(None, "FAIL")

    def _tell(self, score: float | None, state: str = "COMPLETE") -> None:
        kind = optuna().trial.TrialState[state]
        self.sweep.studies[self.budget].tell(self.number, score, state=kind)


class Sweep:
    """A folder, its plan, and its studies. ::

    sweep = Sweep(Path("sweeps/mine"), plan)
    with sweep.claimed() as claim:
        claim.finish(train(claim.settings), {"mult_adds": 0.98})
    """

    def __init__(self, folder: Path, plan: Plan, storage: str | None = None) -> None:
        self.folder, self.plan = folder, plan
        (folder / "trials").mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(folder / "lock")
        with self._lock:
            self._agree()
            where = _storage(folder, storage)
            self.studies = {
                budget: optuna().create_study(
                    study_name=f"{plan.source}, {budget}", storage=where, direction="minimize", load_if_exists=True
                )
                for budget in plan.budgets
            }

    @contextmanager
    def claimed(self) -> Iterator[Claim | None]:
        """A trial whose process is gone, or else a new one of the budget that has fewest; None if there is none."""
        claim = self._claim()
        try:
            yield claim
        finally:
            if claim is not None:
                claim.lock.release()

    def running(self) -> int:
        """Trials that some process has."""
        return sum(self.counts(budget).get("RUNNING", 0) for budget in self.plan.budgets)

    def counts(self, budget: str) -> dict[str, int]:
        """How many trials there are, by what became of them."""
        states = [trial.state.name for trial in self.studies[budget].get_trials(deepcopy=False)]
        return {state: states.count(state) for state in dict.fromkeys(states)}

    def known(self, budget: str) -> tuple[list[list[Point]], float | None]:
        """What the finished trials of a budget have told, and the best score that holds it."""
        trials = [trial for trial in self.studies[budget].get_trials(deepcopy=False) if trial.state.name == "COMPLETE"]
        points = [[tuple(each) for each in trial.user_attrs.get("points", ())] for trial in trials]
        held = [trial.value for trial in trials if _holds(trial)]
        return [each for each in points if each], min(held, default=None)

    def best(self, budget: str) -> dict[str, Any] | None:
        """The trial with the best score of those that hold the budget."""
        trials = self.studies[budget].get_trials(deepcopy=False)
        held = [trial for trial in trials if trial.state.name == "COMPLETE" and _holds(trial)]
        if not held:
            return None
        trial = min(held, key=lambda each: each.value)
        return {
            "budget": budget,
            "score": trial.value,
            "used": {name: value + 1.0 for name, value in trial.constraints.items()},
            "settings": dict(trial.params),
            "folder": str(self.place(budget, trial.number).relative_to(self.folder)),
            **self.counts(budget),
        }

    def place(self, budget: str, number: int) -> Path:
        """The folder of a trial."""
        return self.folder / "trials" / f"{self.plan.budgets.index(budget)}-{number:04}"

    def _claim(self) -> Claim | None:
        with self._lock:
            counts = {}
            for budget, study in self.studies.items():
                trials = study.get_trials(deepcopy=False)
                counts[budget] = len(trials)
                for frozen in trials:
                    if frozen.state.name == "RUNNING" and (claim := self._held(budget, frozen.number, frozen)):
                        return claim
            budget = min(counts, key=lambda each: counts[each])
            if counts[budget] >= self.plan.trials:
                return None
            study = self.studies[budget]
            study.sampler = optuna().samplers.TPESampler(seed=self.plan.seed * 10_000 + counts[budget])
            return self._held(budget, (trial := study.ask()).number, trial)

    def _held(self, budget: str, number: int, trial: Any) -> Claim | None:
        """A trial with its lock, if nobody else has that."""
        place = self.place(budget, number)
        lock = FileLock(place.with_suffix(".lock"), timeout=0)
        try:
            lock.acquire()
        except Timeout:
            return None
        trial = optuna().trial.Trial(self.studies[budget], trial._trial_id)
        settings = {axis.name: axis.suggest(trial) for axis in self.plan.space}
        points = [tuple(each) for each in trial.user_attrs.get("points", ())]
        return Claim(self, budget, number, settings, place, lock, trial, points)

    def _agree(self) -> None:
        """A folder is of one sweep; only its number of trials may grow."""
        path, now = self.folder / "sweep.json", self.plan.to_json()
        if path.exists():
            before = json.loads(path.read_text(encoding="utf-8"))
            other = [key for key in now if key != "trials" and before.get(key) != now[key]]
            if other:
                raise RunError(
                    f"{self.folder} holds another sweep: {other[0]} was {before.get(other[0])} and is {now[other[0]]}. "
                    "Name another folder with --out."
                )
        write_whole(path, json.dumps(now, indent=1) + "\n")


def _holds(trial: Any) -> bool:
    return all(value <= 0 for value in trial.constraints.values())


def _storage(folder: Path, given: str | None) -> Any:
    """A journal in the folder, or the database of an address."""
    if given is None:
        journal = optuna().storages.journal
        path = str(folder / "journal.log")
        lock = journal.JournalFileOpenLock(path)  # of network folders too
        return optuna().storages.JournalStorage(journal.JournalFileBackend(path, lock_obj=lock))
    try:
        return optuna().storages.RDBStorage(given)
    except ImportError as error:
        raise ConfigError(
            f"{given.partition('://')[0]} needs a package that is not installed ({error}). For PostgreSQL: "
            "pip install 'psycopg[binary]'"
        ) from error
    except Exception as error:  # of whatever driver there is
        told = str(error).splitlines()[0]
        raise ConfigError(f"the database cannot be used: {told}. Look at the address in --storage.") from error


def optuna() -> Any:
    """The package, in silence; an error that names the extra if it is not there."""
    try:
        package = import_module("optuna")  # mypy need not have it
    except ImportError as error:
        raise ConfigError("Optuna is not installed. Install it with: pip install leanrnn[sweep]") from error
    package.logging.set_verbosity(package.logging.WARNING)
    return package
