"""A job in a checkpoint: everything that changes while training, so that a run goes on to the same bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

import leanrnn
from leanrnn.errors import RanksError
from leanrnn.lab.average import put_back_, stored
from leanrnn.lab.job import Job
from leanrnn.lab.ranks import Ranks
from leanrnn.lab.runs import Run, Saved

__all__ = ["groups_in", "latest", "load_job", "save_job"]


def save_job(
    job: Job[Any], run: Run, step: int, *, tensors: Mapping[str, Tensor] | None = None, data: Mapping[str, Any]
) -> None:
    """Write a checkpoint; ``tensors`` and ``data`` are what only the jobs of this task have. ::

    save_job(job, run, job.step, data={"dropout": 0.5})
    """
    ranks = job.ranks
    whole = {
        "losses": ranks.total(job.losses),
        "random": _stacked(ranks.each(torch.get_rng_state())),
        **(tensors or {}),
    }
    if (device := job.losses.device).type != "cpu":  # dropout there has a state of its own
        whole["random_there"] = _stacked(ranks.each(torch.get_device_module(device).get_rng_state()))
    whole |= stored(job.average) if job.average is not None else {}
    plain = {
        **{name: getattr(job, name) for name in job.NUMBERS},
        **data,
        "optimizer": _unpacked(job.optimizer.state_dict(), whole),
        "sparsifier": job.sparsifier.state_dict() if job.sparsifier else None,
        "groups": job.sparsifier.groups.to_json() if job.sparsifier else None,
    }
    run.save(step, job.model, whole, plain, job.about)


def load_job(job: Job[Any], saved: Saved, seed: int) -> dict[str, Tensor]:
    """The reverse, into a job that was built for the model of the checkpoint; returns the tensors, on its device. The
    seed is for a run that goes on with more processes, or fewer."""
    device, data = job.losses.device, saved.data
    tensors = {name: tensor.to(device) for name, tensor in saved.tensors.items()}
    if job.sparsifier:
        job.sparsifier.load_state_dict(data["sparsifier"])
    for name in job.NUMBERS:
        setattr(job, name, data[name])
    job.optimizer.load_state_dict(_packed(data["optimizer"], tensors))
    # Those of all processes together; the first goes on with them.
    job.losses = tensors["losses"].clone() if job.ranks.first else torch.zeros_like(tensors["losses"])
    if job.average is not None:
        put_back_(job.average, tensors)
    own = _own(job.ranks, saved.tensors["random"])
    if own is None:  # as many as there are now were not there then
        torch.manual_seed(job.ranks.seed(seed))
        job.notes.append("the number of processes has changed: dropout goes on with other numbers.")
        return tensors
    torch.set_rng_state(own)
    there = saved.tensors.get("random_there")
    if there is not None and (own := _own(job.ranks, there)) is not None:
        torch.get_device_module(device).set_rng_state(own)
    return tensors


def latest(run: Run, ranks: Ranks) -> Saved | None:
    """The newest checkpoint that is whole, the same one on every process."""
    saved = ranks.in_turn(run.latest)
    number = -1 if saved is None else int(saved.model.parent.name)
    numbers = [int(each) for each in ranks.each(torch.tensor(number))]
    if others := [rank for rank, each in enumerate(numbers) if each != numbers[0]]:
        raise RanksError(
            f"process {others[0]} does not see the checkpoints in {run.folder} that process 0 sees. Name a folder with "
            "--out that all machines share."
        )
    return saved


def _stacked(states: list[Tensor]) -> Tensor:
    """Of one process its state, of several a row each."""
    return states[0] if len(states) == 1 else torch.stack(states)


def _own(ranks: Ranks, states: Tensor) -> Tensor | None:
    """The reverse of it, if there are as many processes as then."""
    rows = states[None] if states.dim() == 1 else states
    return rows[ranks.rank].clone() if len(rows) == ranks.world else None


def groups_in(saved: Saved, model: nn.Module) -> leanrnn.Groups | None:
    """The groups of a checkpoint, bound to its model; none in a dense run."""
    return leanrnn.Groups.from_json(saved.data["groups"], model) if saved.data["groups"] else None


def _unpacked(state: dict[str, Any], tensors: dict[str, Tensor]) -> dict[str, Any]:
    """The state of an optimizer as plain data; its tensors go where the others are."""
    plain: dict[str, dict[str, Any]] = {}
    for index, values in state["state"].items():
        for key, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{index}.{key}"] = value
            else:
                plain.setdefault(str(index), {})[key] = value
    return {"state": plain, "param_groups": state["param_groups"]}


def _packed(data: dict[str, Any], tensors: dict[str, Tensor]) -> dict[str, Any]:
    """The reverse of it."""
    state = {int(index): dict(values) for index, values in data["state"].items()}
    for name, tensor in tensors.items():
        kind, _, rest = name.partition(".")
        if kind == "optimizer":
            index, _, key = rest.partition(".")
            state.setdefault(int(index), {})[key] = tensor
    return {"state": state, "param_groups": data["param_groups"]}
