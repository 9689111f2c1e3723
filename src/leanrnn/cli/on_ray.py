"""The workers of a sweep on a cluster of Ray: each is a task that Ray starts again elsewhere if its node is gone."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leanrnn.errors import ConfigError

if TYPE_CHECKING:
    from leanrnn.cli.sweep import Sweeps
    from leanrnn.lab.sweep.study import Sweep

__all__ = ["work_on_ray"]

LOOK = 2.0
"""Seconds between looks at what has come out."""


def work_on_ray(asked: Sweeps, sweep: Sweep, stopped: Callable[[], bool], told: Callable[..., Any]) -> None:
    """Start the workers and wait for them. Trials whose worker is gone are free, and taken up by any other."""
    try:
        ray = import_module("ray")  # mypy need not have it
    except ImportError as error:
        raise ConfigError("Ray is not installed. Install it with: pip install leanrnn[ray]") from error
    own = not ray.is_initialized()
    if own:
        ray.init(address=asked.address, log_to_driver=False, include_dashboard=False if asked.address is None else None)
    try:
        here = replace(
            asked, out=asked.folder.absolute(), data=asked.data and asked.data.absolute(), engine="processes",
            address=None, workers=1,
        )  # fmt: skip
        task = ray.remote(num_cpus=1, max_retries=-1)(_join)
        left = [task.remote(here, str(Path.cwd())) for _ in range(asked.workers)]
        while left and not stopped():
            done, left = ray.wait(left, timeout=LOOK)
            ray.get(done)  # what a worker could not do is told here
        for each in left:
            ray.cancel(each, force=True)
    finally:
        if own:
            ray.shutdown()


def _join(asked: Sweeps, folder: str) -> None:
    """One worker, on whatever node."""
    from leanrnn.cli.sweep import prepared
    from leanrnn.environment import use_threads
    from leanrnn.lab.sweep.study import Sweep
    from leanrnn.lab.sweep.work import work

    os.chdir(folder)  # files of the user are named from there
    use_threads(asked.threads)
    plan, train = prepared(asked)
    work(Sweep(asked.folder, plan, asked.storage), train)
