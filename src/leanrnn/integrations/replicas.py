"""``DistributedDataParallel`` after a cut: the same object, made anew around the same model."""

from __future__ import annotations

from typing import Any

from torch.nn.parallel import DistributedDataParallel

from leanrnn.errors import IntegrationError

__all__ = ["wrap_again_"]

MIB = 1024 * 1024


def wrap_again_(replica: object) -> None:
    """Give a replica the parameters that its model has now, in place, so that whoever holds it need not be told.

    Every process has to do so in the same step. What is no replica is left alone. ::

        sparsifier.attach(optimizer, after=lambda _: wrap_again_(replica))
    """
    if not isinstance(replica, DistributedDataParallel):
        return
    old: Any = replica
    if old.mixed_precision is not None:
        raise IntegrationError("DistributedDataParallel(mixed_precision=...) cannot shrink. Use autocast instead.")
    hooks, training, model = list(old._comm_hooks), replica.training, replica.module
    settings = {
        "device_ids": old.device_ids,
        "output_device": old.output_device,
        "dim": old.dim,
        "forward_sync_buffers": old.forward_sync_buffers,
        "process_group": old.process_group,
        "bucket_cap_mb": old.bucket_bytes_cap / MIB,
        "find_unused_parameters": old.find_unused_parameters,
        "gradient_as_bucket_view": old.gradient_as_bucket_view,
        "batched_grad_copy": old.batched_grad_copy,
        "static_graph": old.static_graph,
        "skip_all_reduce_unused_params": old.skip_all_reduce_unused_params,
    }
    old.reducer = old.logger = None  # the old one takes its hooks from the parameters as it goes
    old.__init__(model, **settings)
    replica.training = training
    for hook, state in hooks:
        replica.register_comm_hook(state, hook)
