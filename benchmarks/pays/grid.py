"""The small grid that every arm is tuned on, with the first seed and by validation; and what of it is still to do."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.pays.cases import Settings
from benchmarks.pays.records import Record

__all__ = ["SEEDS", "best_so_far", "chosen", "final", "missing"]

KEEP = 0.9
FASTEST, SLOWEST, LOWEST = 4.0, 1 / 32, 0.5
SEEDS = (1, 2, 3)


def chosen(records: Sequence[Record], arm: str) -> Record | None:
    """The best of a complete grid, with the first seed; None as long as something is missing."""
    done = _grid(records, arm)
    scores = _scores(done)
    return done[min(scores, key=lambda key: scores[key])] if _next(done) is None else None


def best_so_far(records: Sequence[Record], arm: str) -> list[float]:
    """Perplexities of the validation text in the best run of a grid that is not complete."""
    done = _grid(records, arm)
    scores = _scores(done)
    return done[min(scores, key=lambda key: scores[key])].valid if done else []


def final(records: Sequence[Record], arm: str) -> list[Record]:
    """The runs that count: those of all seeds with the chosen setting."""
    best = chosen(records, arm)
    if best is None:
        return []
    return [r for r in records if r.arm == arm and not r.missed and (r.rate, r.keep) == (best.rate, best.keep)]


def missing(records: Sequence[Record], arm: str, seeds: bool, rate: float = 0.5) -> Settings | None:
    """The next setting to run: of the grid, which begins with ``rate``, then, if ``seeds``, the chosen one with the
    other seeds."""
    setting = _next(_grid(records, arm), rate)
    best = chosen(records, arm)
    if best is None or not seeds:
        return setting
    have = {r.seed for r in final(records, arm)}
    left = [seed for seed in SEEDS if seed not in have]
    return Settings(best.rate, best.keep, left[0]) if left else None


def _grid(records: Sequence[Record], arm: str) -> dict[tuple[float, float], Record]:
    """The runs of an arm with the first seed."""
    return {(r.rate, r.keep): r for r in records if r.arm == arm and r.seed == SEEDS[0] and not r.missed}


def _scores(done: dict[tuple[float, float], Record]) -> dict[tuple[float, float], float]:
    """Perplexities of a grid; one that was ended early has none."""
    epochs = max((len(record.valid) for record in done.values()), default=0)
    return {key: r.valid[-1] if len(r.valid) == epochs else math.inf for key, r in done.items()}


def _next(done: dict[tuple[float, float], Record], rate: float = 0.5) -> Settings | None:
    """Learning rates first, by factors of two until the best has a worse one on either side; then dropout at that
    rate: more as long as it gains, or if more is not better, none."""
    if not done:
        return Settings(rate, KEEP)
    scores = _scores(done)
    rates = {rate: score for (rate, keep), score in scores.items() if keep == KEEP}
    best = min(rates, key=lambda rate: rates[rate])
    if best == max(rates) < FASTEST:
        return Settings(best * 2, KEEP)
    if best == min(rates) > SLOWEST:
        return Settings(best / 2, KEEP)
    keeps = {keep: score for (rate, keep), score in scores.items() if rate == best}
    for keep in (0.8, 1.0):
        if keep not in keeps and min(keeps.values()) == keeps[KEEP]:
            return Settings(best, keep)
    lowest = min(keeps)
    if min(keeps, key=lambda keep: keeps[keep]) == lowest > LOWEST:
        return Settings(best, round(lowest - 0.1, 2))
    return None
