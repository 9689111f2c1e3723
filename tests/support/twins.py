"""Two equal training runs, one of which is compacted while the other holds its dead components at zero."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from leanrnn.groups.groups import Groups
from leanrnn.sparsify.sparsifier import Sparsifier
from tests.support.handmade import kill_
from tests.support.training import OPTIMIZERS, batches

DEAD = {"rnn.l0": [0, 3], "rnn.l1": [1, 2, 5]}


class Run:
    """A training run with everything that has to survive compaction."""

    def __init__(self, model: nn.Module, groups: Groups, make=OPTIMIZERS["momentum"], parameters=None, **settings):
        self.model, self.groups = model, groups
        self.average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.8))
        self.optimizer = make(model.parameters() if parameters is None else parameters)
        if callable(make_penalty := settings.get("penalty")):
            settings["penalty"] = make_penalty(groups)
        if "budget" not in settings:
            settings = {"strength": 0.01, "threshold": 1e-3} | settings
        self.sparsifier = Sparsifier(groups, **settings).attach(self.optimizer, copies=[self.average])
        self.state, self.losses, self.held = None, [], None

    def hold(self, dead: dict[str, list[int]]) -> None:
        """Keep the places of dead components at zero: parameters, gradients and optimizer state."""
        tensors = self.groups.tensors()
        places = [
            (tensors[t], a, i) for name, ks in dead.items() for k in ks for t, a, i in self.groups[name].slices(k)
        ]
        self.held = [(p, a, i) for p, a, i in places if isinstance(p, nn.Parameter)]

    def zero_held(self) -> None:
        for p, axis, index in self.held or []:
            state = [v for v in self.optimizer.state[p].values() if isinstance(v, Tensor) and v.shape == p.shape]
            for tensor in (p.data, p.grad, *state):
                tensor.select(axis, index).zero_()

    def train(self, steps: int, seed: int = 1) -> None:
        for tokens in batches(steps, seed):
            self.optimizer.zero_grad(set_to_none=False)
            self.output, state = self.model(tokens, self.state)
            self.state = nested_detach(state)
            self.loss = nn.functional.cross_entropy(self.output[:-1].flatten(0, 1), tokens[1:].flatten())
            self.loss.backward()
            self.zero_held()
            self.optimizer.step()
            self.zero_held()
            self.average.update_parameters(self.model)
            self.losses.append(self.loss.item())


def nested_detach(state):
    return tuple(map(nested_detach, state)) if type(state) is tuple else state.detach()


def twins(make_model, dead=DEAD, **settings) -> tuple[Run, Run]:
    """Two equal runs with a past, in which the same components have died."""
    runs = []
    for _ in range(2):
        run = Run(*make_model(), **settings)
        run.train(5)
        kill_(run.groups, dead)
        runs.append(run)
    runs[1].hold(dead)
    return runs[0], runs[1]


def expect_same(small: Run, large: Run, dead=DEAD) -> None:
    """Losses, parameters, averages and optimizer state of what is left are equal."""
    np.testing.assert_allclose(small.losses, large.losses, rtol=0, atol=1e-10)
    masks = {n: ~np.isin(np.arange(w), dead.get(n, [])) for n, w in large.groups.widths.items()}
    names = {id(p): name for name, p in large.model.named_parameters()}
    state = {names[id(p)]: large.optimizer.state[p] for p in large.optimizer.state}
    kept = large.groups.kept_positions(masks)

    def picked(name: str, tensor: Tensor) -> Tensor:
        for (owner, axis), positions in kept.items():
            tensor = tensor.index_select(axis, torch.from_numpy(positions)) if owner == name else tensor
        return tensor

    for name, p in small.model.named_parameters():
        torch.testing.assert_close(p, picked(name, large.model.get_parameter(name)), rtol=0, atol=1e-10)
        averages = small.average.module.get_parameter(name), large.average.module.get_parameter(name)
        torch.testing.assert_close(averages[0], picked(name, averages[1]), rtol=0, atol=1e-10)
        for key, value in small.optimizer.state[p].items():
            other = state[name][key]
            other = picked(name, other) if isinstance(other, Tensor) and other.dim() else other
            torch.testing.assert_close(value, other, rtol=0, atol=1e-10)
