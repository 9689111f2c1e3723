"""The training loop of language models. Read it from top to bottom.

It uses the public names of leanrnn only: what it does, a loop of your own can do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import leanrnn
from leanrnn.errors import ConfigError
from leanrnn.lab.average import update_
from leanrnn.lab.events import Epoch, Interval
from leanrnn.lab.language.config import Config
from leanrnn.lab.language.ends import BEST, finish, first_scores, told_outset, widths_of
from leanrnn.lab.language.job import LanguageJob, begun, resumed, save, teacher_from
from leanrnn.lab.language.model import detached, drops
from leanrnn.lab.language.perplexity import perplexity
from leanrnn.lab.language.text import Text, check_long_enough, streams, windows
from leanrnn.lab.precision import products
from leanrnn.lab.ranks import ALONE, Ranks
from leanrnn.lab.runs import Run
from leanrnn.layers import quick

__all__ = ["train"]


def train(
    config: Config,
    text: Text,
    run: Run,
    *,
    start: Path | None = None,
    teacher: Path | None = None,
    device: str = "cpu",
    save_seconds: float = 300.0,
    stopped: Callable[[], bool] = lambda: False,
    told: Callable[[list[str]], object] = lambda lines: None,
    ranks: Ranks = ALONE,
) -> Iterator[Interval | Epoch]:
    """Train, yielding what happens, until the run is complete or ``stopped`` says so; goes on where it was left. What
    it begins with is ``told`` in a few lines. ::

    with Run.open(Path("runs/mine"), {"config": config.to_json()}) as run:
        for event in train(config, text, run):
            print(event)
    """
    there = torch.device(device)
    check_long_enough(text, config)  # now, not after hours of training
    if ranks.world > config.batch:
        raise ConfigError(f"{ranks.world} processes cannot share {config.batch} streams. Give a larger batch.")
    rows = ranks.share(streams(text.train, config.batch), dim=1).to(there)
    per_epoch = (len(rows) - 1) // config.window
    asked = teacher_from(teacher, text, there) if teacher else None  # first: a new model draws random numbers
    job = resumed(config, run, per_epoch, there, ranks) or begun(config, text, per_epoch, start, there)
    job.teacher, job.notes, job.scores = asked, run.notes, lambda model: first_scores(model, rows, config)
    job.ranks = ranks
    told(told_outset(job, config, text, rows, per_epoch))
    last = time.monotonic()
    while job.epoch < config.epochs:
        for interval in _epoch(job, config, rows, per_epoch):
            if interval is not None:
                run.log({"kind": "interval", **asdict(interval)})
                yield interval
            if job.window == per_epoch:
                break  # what follows is saved with the epoch
            if not ranks.asks(job.window):
                continue
            ended, due = ranks.any(stopped(), time.monotonic() - last > save_seconds)
            if ended or due:
                save(job, run, job.epoch * per_epoch + job.window)
                last = time.monotonic()
                if ended:
                    return
        event = _end_of_epoch(job, config, text, per_epoch)
        if (
            config.best
            and ranks.first
            and event.epoch > config.counts_from
            and event.valid <= min(job.valid[config.counts_from :])
        ):
            leanrnn.save(job.judged, run.folder / BEST, about=job.about)
        run.log({"kind": "epoch", **asdict(event)})
        save(job, run, job.epoch * per_epoch)
        last = time.monotonic()
        yield event
        if ranks.any(stopped())[0]:
            return
    run.write("result.json", finish(job, config, text, run))


def _epoch(job: LanguageJob, config: Config, rows: Tensor, per_epoch: int) -> Iterator[Interval | None]:
    """What is left of an epoch; after every window an interval, or None where there is nothing to tell."""
    if job.window == 0:
        # Every epoch has its own dropout, whatever came before it: two runs can take turns in one process.
        torch.manual_seed(job.ranks.seed(config.seed * 1_000_003 + job.epoch))
        if job.epoch and job.epoch == config.recovers_from:
            _recover(job, config)
        if job.epoch == config.averaged_from:
            job.begin_average()
    model, optimizer, ranks = job.model.train(), job.optimizer, job.ranks
    for group in optimizer.param_groups:
        group["lr"] = config.rate_at(job.epoch)
    for i, (words, wanted) in enumerate(windows(rows, config.window)):
        if i < job.window:
            continue
        began = time.perf_counter()
        with products(config.precision, words.device), quick():
            scores, state = job.replica(words, job.state)
            taught = job.taught(words) if job.teacher else None
        # The paper's loss: the sum over the window, the mean over the streams; here the part of it of our streams.
        scores = scores.to(job.losses.dtype)
        loss = cross_entropy(scores.flatten(0, 1), wanted.flatten(), reduction="sum") / config.batch
        job.losses[i % len(job.losses)] = loss.detach()
        if taught is not None:
            distance = leanrnn.distil(scores, taught, temperature=config.temperature, reduction="sum") / config.batch
            loss = (1 - config.taught) * loss + config.taught * distance
        loss = loss * ranks.world  # the mean of the gradients over all processes is that of the whole loss
        if config.l2:
            loss = loss + config.l2 / 2 * sum(p.square().sum() for p in model.parameters() if p.requires_grad)
        if job.sparsifier and config.penalty_in_loss:
            loss = loss + job.sparsifier.loss()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        optimizer.step()
        if job.average is not None:
            done = (job.epoch - config.averaged_from) * per_epoch + i
            update_(job.average, model, min(config.average, (done + 1) / (done + 10)))  # at first it forgets faster
        job.state = detached(state)
        job.window = i + 1
        if job.sparsifier and config.compact and (job.epoch * per_epoch + job.window) % config.compact == 0:
            job.compact()
        if job.narrower:
            _follow(job, config)
        due = job.window % len(job.losses) == 0 or job.window == per_epoch
        # Waits for the step to end.
        losses = ranks.total(job.losses[: i % len(job.losses) + 1]).tolist() if due else []
        job.seconds += time.perf_counter() - began
        yield _interval(job, config, per_epoch, losses) if due else None


def _follow(job: LanguageJob, config: Config) -> None:
    """Units have gone out of model and optimizer; the state that is carried on loses the same ones."""
    job.narrower = False
    if job.sparsifier is not None and job.state is not None:
        named = zip(job.state, job.model.layer_names, strict=True)
        job.state = [job.sparsifier.cut_state(state, layer=name) for state, name in named]
    if config.follow:
        job.model.scale_dropout(config.keep, config.widths)


def _recover(job: LanguageJob, config: Config) -> None:
    """The budget is met, or the penalty is lowered, or ends: then what is dead goes, and what is left is trained as
    any model would be."""
    job.model.drops = drops(config, job.epoch)
    if config.follow:
        job.model.scale_dropout(config.keep, config.widths)
    if job.sparsifier is not None and not config.budget and not config.afterwards:
        job.compact()
        _follow(job, config)
        job.sparsifier.detach()
        job.sparsifier = None


def _interval(job: LanguageJob, config: Config, per_epoch: int, losses: list[float]) -> Interval:
    step = job.epoch * per_epoch + job.window
    tally = job.tally(config, losses, step)
    return Interval(
        step=step,
        epoch=round(step / per_epoch, 3),
        loss=tally.loss / config.window,
        penalty=tally.penalty,
        strength=tally.strength,
        widths=widths_of(job),
        alive=tally.alive or widths_of(job),
        **tally.towards,
        tokens_per_second=len(losses) * config.window * config.batch / tally.seconds,
    )


def _end_of_epoch(job: LanguageJob, config: Config, text: Text, per_epoch: int) -> Epoch:
    """Validate, and get ready for the next."""
    (valid,) = job.ranks.from_first(1, lambda: [perplexity(job.judged, text.valid, config.batch, config.window)])
    train = math.exp(min(job.total / per_epoch / config.window, 700.0))
    step, rate = (job.epoch + 1) * per_epoch, config.rate_at(job.epoch)
    widths, towards = widths_of(job), job.towards(config)
    event = Epoch(job.epoch + 1, step, rate, train, valid, widths, job.alive or widths, job.seconds, **towards)
    job.valid.append(valid)
    job.spent += job.seconds
    job.epoch, job.window, job.total, job.seconds, job.mark = job.epoch + 1, 0, 0.0, 0.0, 0.0
    job.state = job.teacher_state = None
    return event
