"""Every tool of docs/compared.md, used in the ways its own documentation shows.

A way takes a model and the arguments of its forward, may change the model, and returns what came out. ``None`` means
that the tool has nothing for such a layer. What was followed stands in each docstring.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.peers.models import ALIVE, DEAD

Inputs = tuple[Tensor, ...]


class Cut(NamedTuple):
    """A smaller model; where the tool tells, also what it removed: zeros by tensor, and the units kept at the end."""

    small: nn.Module
    zeros: Mapping[str, Tensor] | None = None
    kept: Sequence[int] = ALIVE


Way = Callable[[nn.Module, Inputs], Cut | None]


def leanrnn_ratio(model: nn.Module, inputs: Inputs) -> Cut:
    """README: discover with an example, then shrink by size of the norms."""
    return _leanrnn(model, inputs, None)


def leanrnn_keep(model: nn.Module, inputs: Inputs) -> Cut:
    """Docstring of shrink: the components that stay, here the living."""
    return _leanrnn(model, inputs, ALIVE)


def _leanrnn(model: nn.Module, inputs: Inputs, kept: Sequence[int] | None) -> Cut:
    import leanrnn
    from leanrnn.groups import choose

    groups = leanrnn.discover(model, inputs)
    keep = {layer.name: kept for layer in groups} if kept else None
    ratio = None if kept else 0.5
    masks = choose(groups, keep=keep, ratio=ratio)
    zeros = {name: torch.ones_like(p) for name, p in model.named_parameters(remove_duplicate=False)}
    for layer in groups:
        for k in (~masks[layer.name]).nonzero()[0]:
            for name, axis, index in layer.slices(int(k)):
                zeros[name].select(axis, index).zero_()
    last = masks[groups.names[-1]].nonzero()[0].tolist()
    return Cut(leanrnn.shrink(model, groups, keep=keep, ratio=ratio), zeros, last)


def tp_pruner(model: nn.Module, inputs: Inputs) -> Cut:
    """README, "High-level Pruners": BasePruner with group magnitude; nn.LSTM is among its default root modules."""
    import torch_pruning as tp

    importance = tp.importance.GroupMagnitudeImportance(p=2)
    # "DO NOT prune the final classifier!"
    tp.pruner.BasePruner(model, inputs, importance, pruning_ratio=0.5, ignored_layers=[model.head]).step()
    return Cut(model)


def tp_roots(model: nn.Module, inputs: Inputs) -> Cut:
    """Docstring of BasePruner, ``root_module_types``, as its users do for LSTM (its issue 276)."""
    import torch_pruning as tp

    options: dict[str, Any] = {"pruning_ratio": 0.5, "ignored_layers": [model.head]}
    roots = [nn.LSTM, nn.GRU, nn.LSTMCell]
    importance = tp.importance.MagnitudeImportance(p=1)
    tp.pruner.MagnitudePruner(model, inputs, importance, root_module_types=roots, **options).step()
    return Cut(model)


def tp_graph(model: nn.Module, inputs: Inputs) -> Cut | None:
    """README, "How It Works: DepGraph": a group with a pruning function and the indices to drop; here the dead ones."""
    import torch_pruning as tp

    graph = tp.DependencyGraph().build_dependency(model, example_inputs=inputs)
    layers = [module for module in model.modules() if isinstance(module, nn.LSTM)]
    for layer in layers:
        group = graph.get_pruning_group(layer, tp.pruner.function.prune_lstm_out_channels, idxs=list(DEAD))
        if graph.check_pruning_group(group):
            group.prune()
    return Cut(model) if layers else None


def ao_saliency(model: nn.Module, inputs: Inputs) -> Cut:
    """torch's own test of LSTMSaliencyPruner: the packed matrices by name, a step, then prune."""
    from torch.ao.pruning._experimental.pruner import LSTMSaliencyPruner

    return _ao(LSTMSaliencyPruner({"sparsity_level": 0.5}), model, _matrices(model))


def ao_default(model: nn.Module, inputs: Inputs) -> Cut:
    """Docstring of BaseSparsifier.prepare: without a configuration all supported layers, nn.LSTM among them."""
    from torch.ao.pruning._experimental.pruner import LSTMSaliencyPruner

    return _ao(LSTMSaliencyPruner({"sparsity_level": 0.5}), model, None)


def ao_mask(model: nn.Module, inputs: Inputs) -> Cut:
    """Docstring of BaseStructuredSparsifier: one's own update_mask; here the dead units in all gates."""
    from torch.ao.pruning._experimental.pruner import BaseStructuredSparsifier

    class Chosen(BaseStructuredSparsifier):
        def update_mask(self, module: nn.Module, tensor_name: str, **kwargs: Any) -> None:
            mask = getattr(module.parametrizations, tensor_name)[0].mask
            mask.data.view(-1, len(ALIVE) + len(DEAD))[:, list(DEAD)] = False

    return _ao(Chosen({}), model, _matrices(model))


def _matrices(model: nn.Module) -> list[dict[str, str]]:
    names = [name for name, _ in model.named_parameters()]
    return [{"tensor_fqn": name} for name in names if "weight_ih" in name or "weight_hh" in name]


def _ao(pruner: Any, model: nn.Module, config: list[dict[str, str]] | None) -> Cut:
    pruner.prepare(model, config)
    pruner.enable_mask_update = True
    pruner.step()
    masks = {group["tensor_fqn"]: _mask(group) for group in pruner.groups}
    small = pruner.prune().eval()
    # prune drops the masked rows' biases too, and lets the output gate's mask say which columns of the next layer go.
    zeros = masks | {name.replace("weight", "bias"): mask.squeeze(1) for name, mask in masks.items()}
    recurrent = [mask for name, mask in masks.items() if "weight_hh" in name]
    kept = recurrent[-1].view(4, -1)[3].nonzero().flatten().tolist() if recurrent else ALIVE
    return Cut(small, zeros, kept)


def _mask(group: dict[str, Any]) -> Tensor:
    return getattr(group["module"].parametrizations, group["tensor_name"])[0].mask.clone().unsqueeze(1)


TOOLS: dict[str, dict[str, Way]] = {
    "leanrnn": {"shrink(ratio=0.5)": leanrnn_ratio, "shrink(keep=...)": leanrnn_keep},
    "Torch-Pruning": {"BasePruner": tp_pruner, "root_module_types": tp_roots, "DependencyGraph": tp_graph},
    "torch.ao": {"LSTMSaliencyPruner": ao_saliency, "prepare(model, None)": ao_default, "own update_mask": ao_mask},
}
