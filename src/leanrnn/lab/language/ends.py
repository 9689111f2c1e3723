"""What a run of a language model tells as it begins, and what it leaves when it ends."""

from __future__ import annotations

from typing import Any

from torch import Tensor

import leanrnn
from leanrnn.groups import count_weights
from leanrnn.lab.job import judging
from leanrnn.lab.language.config import Config
from leanrnn.lab.language.job import LanguageJob
from leanrnn.lab.language.model import LanguageModel, load_language_model
from leanrnn.lab.language.perplexity import perplexity
from leanrnn.lab.language.text import Text, streams
from leanrnn.lab.notes import noted
from leanrnn.lab.outset import outset
from leanrnn.lab.runs import Run

__all__ = ["BEST", "LONG_ENOUGH", "finish", "first_scores", "told_outset", "widths_of"]

LONG_ENOUGH = 3
"""Words of a sequence that tells what a word costs."""
BEST = "best.safetensors"
"""The model of the best epoch so far, where it is that one that counts."""


def told_outset(job: LanguageJob, config: Config, text: Text, rows: Tensor, per_epoch: int) -> list[str]:
    """Data, model and way of a run, in a few lines."""
    data = (
        f"{len(text.train):,} {config.tokens}s to train on, {len(text.valid):,} to validate, {len(text.test):,} to "
        f"test; {len(text.words):,} different"
    )
    way = f"{config.epochs} epochs of {per_epoch:,} batches"
    if job.epoch or job.window:
        way += f"; continues in epoch {job.epoch + 1}"
    words = rows[:LONG_ENOUGH, :1]
    return outset(data, job.model, words, len(words), widths_of(job), way)


def first_scores(model: LanguageModel, rows: Tensor, config: Config) -> Tensor:
    """Of the first window, without dropout."""
    with judging(model):
        scores: Tensor = model(rows[: config.window])[0]
    return scores


def finish(job: LanguageJob, config: Config, text: Text, run: Run) -> dict[str, Any]:
    """Shrink, write the model, test it as the paper does: one stream, the state carried through the whole text."""
    rows = streams(text.valid, config.batch).to(job.losses.device)
    if job.sparsifier and (config.budget or job.average is not None):
        job.compact()  # now: what is dead in training is not quite zero in the average
    if not job.ranks.first:
        return {}
    model = job.judged.eval()
    groups = job.sparsifier.groups if job.sparsifier else None
    if config.best:
        model = load_language_model(run.folder / BEST).to(job.losses.device).eval()
        groups = leanrnn.discover(model, rows[: config.window], scope=config.scope) if config.sparse else None
    if groups is not None:
        with noted(run.notes):
            small = leanrnn.shrink(model, groups, example=rows[: config.window])
        assert isinstance(small, LanguageModel)
        job.note_difference(first_scores(model, rows, config), first_scores(small, rows, config))
        model = small
    leanrnn.save(model, run.folder / "model.safetensors", about=job.about)
    return {
        "valid": perplexity(model, text.valid, config.batch, config.window),
        "test": perplexity(model, text.test, 1, 1000, whole=True),
        "test_in_batches": perplexity(model, text.test, config.batch, config.window),
        "embedding": model.embedding.weight.size(1),
        "widths": list(model.widths),
        "weights": count_weights(model),
        "seconds": round(job.spent, 1),
        "difference": job.difference,
        "valid_by_epoch": job.valid,
        **({"used": used} if (used := job.towards(config).get("used")) else {}),
        **({"valid_in_one": perplexity(model, text.valid, 1, 1000, whole=True)} if config.best else {}),
    }


def widths_of(job: LanguageJob) -> dict[str, int]:
    """Of embedding and layers, by name."""
    found = {"embedding": int(job.model.embedding.weight.size(1))}
    return found | dict(zip(job.model.layer_names, job.model.widths, strict=True))
