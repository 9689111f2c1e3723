"""Training of question answering. Read it from top to bottom; it uses the public names of leanrnn only."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

import leanrnn
from leanrnn.environment import give_back_memory
from leanrnn.groups import count_weights
from leanrnn.lab.average import update_
from leanrnn.lab.disk import write_whole
from leanrnn.lab.events import Answered, Evaluation
from leanrnn.lab.notes import noted
from leanrnn.lab.outset import outset
from leanrnn.lab.precision import products
from leanrnn.lab.ranks import ALONE, Ranks
from leanrnn.lab.runs import Run
from leanrnn.lab.squad.config import SquadConfig
from leanrnn.lab.squad.data import Batch, Inputs, Squad, batches, usable
from leanrnn.lab.squad.evaluate import judged, predictions, runner
from leanrnn.lab.squad.finish import all_scores, shrunk
from leanrnn.lab.squad.job import SquadJob, begun, example, resumed, save, teacher_from
from leanrnn.lab.squad.model import BiDAF

__all__ = ["LONG_ENOUGH", "train"]

LONG_ENOUGH = 30
"""Words of a text that tells what a word costs, with a question of twelve."""


def train(
    config: SquadConfig,
    data: Squad,
    run: Run,
    *,
    start: Path | None = None,
    teacher: Path | None = None,
    device: str = "cpu",
    save_seconds: float = 300.0,
    stopped: Callable[[], bool] = lambda: False,
    told: Callable[[list[str]], object] = lambda lines: None,
    ranks: Ranks = ALONE,
) -> Iterator[Answered | Evaluation]:
    """Train, yielding what happens, until the run is complete or ``stopped`` says so; goes on where it was left. What
    it begins with is ``told`` in a few lines. ::

    with Run.open(Path("runs/mine"), {"config": config.to_json()}) as run:
        for event in train(config, data, run):
            print(event)
    """
    there = torch.device(device)
    rows = usable(data.train, config)
    asked = teacher_from(teacher, data, there) if teacher else None  # first: a new model draws random numbers
    if (job := resumed(config, run, there, ranks)) is None:
        job = begun(config, data, start, there)
        if not ranks.first:
            torch.manual_seed(ranks.seed(config.seed))  # dropout of its own
    job.teacher, job.notes, job.ranks = asked, run.notes, ranks
    told(_outset(job, config, data, len(rows), there))
    last, source = time.monotonic(), _endless(config, data, rows, job.step)
    while job.step < config.steps:
        interval = _step(job, config, next(source), there)
        if interval is not None:
            give_back_memory()  # texts of every length leave blocks of every size
            run.log({"kind": "interval", **asdict(interval)})
            yield interval
        if job.step % config.evaluate == 0 and job.step < config.steps:
            event = _evaluated(job, config, data, run)
            run.log({"kind": "evaluation", **asdict(event)})
            yield event
        ended = due = False
        if ranks.asks(job.step):
            ended, due = ranks.any(stopped(), time.monotonic() - last > save_seconds)
        if ended or due or job.step == config.steps:
            save(job, run)
            last = time.monotonic()
            if ended and job.step < config.steps:
                return
    event, result = _finish(job, config, data, run)
    run.log({"kind": "evaluation", **asdict(event)})
    yield event
    run.write("result.json", result)


def _outset(job: SquadJob, config: SquadConfig, data: Squad, usable: int, device: torch.device) -> list[str]:
    known = data.vocabulary
    words = f"{len(known.words):,} words and {len(known.characters):,} characters known"
    found = f"{usable:,} questions to train on, {len(data.dev.ids):,} to judge by; {words}"
    way = f"{config.steps:,} steps, {math.ceil(usable / config.batch):,} to read all questions"
    if job.step:
        way += f"; continues after step {job.step:,}"
    inputs = tuple(each.to(device) for each in example(known, 1, LONG_ENOUGH, 12))
    return outset(found, job.model, inputs, LONG_ENOUGH, job.model.widths, way)


def _endless(config: SquadConfig, data: Squad, rows: NDArray[np.int64], done: int) -> Iterator[Batch]:
    """Batches for ever, every pass over the questions in an order of its own; those that are done are left out."""
    each = math.ceil(len(rows) / config.batch)
    round_ = done // each
    while True:
        random = np.random.default_rng([config.seed, round_])
        found = batches(data.train, data.vocabulary, rows, config.batch, cut=config.context_tokens, random=random)
        for i, batch in enumerate(found):
            if round_ * each + i >= done:
                yield batch
        round_ += 1


def _step(job: SquadJob, config: SquadConfig, batch: Batch, device: torch.device) -> Answered | None:
    """One update; an interval if one is complete."""
    began = time.perf_counter()
    place = job.step % len(job.losses)
    job.model.train()
    batch, part = _share(batch, job.ranks)
    inputs = [each.to(device, non_blocking=True) for each in batch.inputs]
    with products(config.precision, device):
        start, end = (scores.to(job.losses.dtype) for scores in job.replica(*inputs))
        taught = job.teacher(*inputs) if job.teacher else None
    job.scores = lambda model: all_scores(model, tuple(each[:2] for each in inputs))
    loss = cross_entropy(start, batch.first.to(device)) + cross_entropy(end, batch.last.to(device))
    job.losses[place] = loss.detach() * part
    if taught is not None:
        loss = leanrnn.distil((start, end), taught, loss, weight=config.taught, temperature=config.temperature)
    loss = loss * (part * job.ranks.world)  # the mean of the gradients over all processes is that of the whole loss
    if job.sparsifier and config.penalty_in_loss:
        loss = loss + job.sparsifier.loss()
    job.optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    job.optimizer.step()
    update_(job.average, job.model, config.average)
    job.step += 1
    if job.sparsifier and config.compact and job.step % config.compact == 0:
        job.compact()  # what the average still has of it goes with it
    due = place + 1 == len(job.losses) or job.step == config.steps or job.step % config.evaluate == 0
    losses = job.ranks.total(job.losses[: place + 1]).tolist() if due else []  # waits for the step to end
    job.seconds += time.perf_counter() - began
    return _interval(job, config, losses) if due else None


def _share(batch: Batch, ranks: Ranks) -> tuple[Batch, float]:
    """This process's questions of a batch, and what part of it they are. One that has none computes with the first
    question and no weight: all processes have to take every step."""
    count = len(batch.rows)
    begin, end = ranks.bounds(count)
    if ranks.world == 1:
        return batch, 1.0
    taken = slice(begin, end) if end > begin else slice(0, 1)
    inputs = tuple(each[taken] for each in batch.inputs)
    own = Batch(cast(Inputs, inputs), batch.first[taken], batch.last[taken], batch.rows[taken])
    return own, (end - begin) / count


def _interval(job: SquadJob, config: SquadConfig, losses: list[float]) -> Answered:
    tally = job.tally(config, losses, job.step)
    return Answered(
        step=job.step,
        loss=tally.loss,
        penalty=tally.penalty,
        strength=tally.strength,
        widths=job.model.widths,
        alive=job.model.widths | tally.alive,
        **tally.towards,
        examples_per_second=len(losses) * config.batch / tally.seconds,
    )


def _evaluated(job: SquadJob, config: SquadConfig, data: Squad, run: Run) -> Evaluation:
    """Answer the development questions with the average as it is."""
    rows = None
    if config.judged and config.judged < len(data.dev.ids):
        rows = np.linspace(0, len(data.dev.ids) - 1, config.judged).astype(np.int64)
    return _event(job, config, data, run, job.average, rows, job.model.widths | job.alive)


def _event(
    job: SquadJob, config: SquadConfig, data: Squad, run: Run, model: BiDAF, rows: NDArray[np.int64] | None,
    living: dict[str, int],
) -> Evaluation:  # fmt: skip
    def scores() -> tuple[float, float]:
        answers = predictions(runner(model), data.dev, data.vocabulary, rows, config.batch)
        write_whole(run.folder / "predictions.json", json.dumps(answers, ensure_ascii=False) + "\n")
        return judged(answers, data.dev, rows)

    exact, f1 = job.ranks.from_first(2, scores)
    steps = (job.step - 1) % config.evaluate + 1
    towards = job.towards(config)
    event = Evaluation(job.step, job.total / steps, exact, f1, model.widths, living, job.seconds, **towards)
    job.course, job.total = [*job.course, f1], 0.0
    return event


def _finish(job: SquadJob, config: SquadConfig, data: Squad, run: Run) -> tuple[Evaluation, dict[str, Any]]:
    """Shrink the average, write it, answer all questions with it."""
    if job.sparsifier and config.budget:
        job.compact()
    model = job.average.eval()
    if job.sparsifier:
        with noted(run.notes):
            model, apart = shrunk(job.model, model, job.sparsifier.groups, config, example(data.vocabulary, 2, 12, 5))
        job.difference = max(job.difference, apart)
    if job.ranks.first:
        leanrnn.save(model, run.folder / "model.safetensors", about=job.about)
    event = _event(job, config, data, run, model, None, model.widths)
    return event, {
        "exact": event.exact,
        "f1": event.f1,
        "widths": model.widths,
        "weights": count_weights(model),
        "trained_weights": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "weights_without_embeddings": model.weights_without_embeddings,
        "seconds": round(job.seconds, 1),
        "difference": job.difference,
        "f1_by_evaluation": job.course,
        **({"used": event.used} if event.used else {}),
    }
