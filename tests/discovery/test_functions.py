"""Recurrences inside a ``torch.autograd.Function``: seen if operators do the work, named if a kernel does."""

import inspect

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import leanrnn
from leanrnn.discovery.instead import LIKE
from leanrnn.errors import DiscoveryError, OperatorError
from tests.discovery.test_corners import cut, x
from tests.support.families import H, Run


def steps(x: np.ndarray, decay: np.ndarray, out: np.ndarray) -> np.ndarray:
    """The kernel: numpy stands for what a fused recurrence has in CUDA or Triton."""
    state, keep = np.zeros_like(x[0]), 1 / (1 + np.exp(-decay))
    for t in range(len(x)):
        state = state * keep + x[t]
        out[t] = state
    return out


class Fresh(torch.autograd.Function):
    """The result comes from outside of torch."""

    @staticmethod
    def forward(ctx, x: Tensor, decay: Tensor) -> Tensor:
        ctx.save_for_backward(x, decay)
        given = x.detach().numpy()
        return torch.from_numpy(steps(given, decay.detach().numpy(), np.empty_like(given)))


class Written(torch.autograd.Function):
    """The result is written into memory that torch made; the context comes later."""

    @staticmethod
    def forward(x: Tensor, decay: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        steps(x.detach().numpy(), decay.detach().numpy(), out.numpy())
        return out

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(*inputs)


class Half(torch.autograd.Function):
    """What the kernel wrote meets the input in an operator."""

    @staticmethod
    def forward(ctx, x: Tensor, decay: Tensor) -> Tensor:
        out = torch.empty_like(x)
        steps(x.detach().numpy(), decay.detach().numpy(), out.numpy())
        return out.clone()[:] * torch.ones_like(x) + 0 * x


class Visible(torch.autograd.Function):
    """The same in operators: nothing is hidden."""

    @staticmethod
    def forward(ctx, x: Tensor, decay: Tensor) -> Tensor:
        out, state = torch.empty_like(x), torch.zeros_like(x[0])
        for t in range(len(x)):
            state = state * decay.sigmoid() + x[t]
            out[t] = state
        return out


class Nothing(torch.autograd.Function):
    """A result that is zero, and rightly so."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


class Same(torch.autograd.Function):
    """Only the gradient is another."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x


def reference(x: Tensor, decay: Tensor) -> Tensor:
    found = [torch.zeros_like(x[0])]
    for step in x:
        found.append(found[-1] * decay.sigmoid() + step)
    return torch.stack(found[1:])


def scanned(kind: type) -> Run:
    apply = kind.apply  # as people write it, before anybody looks

    def forward(m, x: Tensor) -> Tensor:
        return m.head(apply(m.inward(x), m.decay.weight[0]))

    return Run(forward, inward=nn.Linear(5, H), decay=nn.Linear(H, 1), head=nn.Linear(H, 3)).double()


LINE = inspect.getsourcelines(scanned)[1] + 4


@pytest.fixture(autouse=True)
def forgotten():
    """What a test teaches is forgotten after it."""
    before = dict(LIKE)
    yield
    LIKE.clear()
    LIKE.update(before)


@pytest.mark.parametrize("kind", [Fresh, Written, Half])
def test_an_opaque_function_is_named_with_its_line_and_what_to_do(kind):
    groups = leanrnn.discover(scanned(kind), x())
    assert not groups.layers
    reason = dict(groups.pinned)["inward"]
    assert reason.startswith(f"meets {kind.__name__}, an autograd.Function")
    assert f"leanrnn.register({kind.__name__}, like=...)" in reason and reason.endswith(f"{__file__}:{LINE}")


@pytest.mark.parametrize("kind", [Fresh, Written, Half])
def test_with_a_reference_the_width_can_leave(kind):
    leanrnn.register(kind.apply if kind is Half else kind, like=reference)
    model = scanned(kind)
    assert leanrnn.discover(model, x()).widths == {"inward": H}
    assert cut(model, x(), {"inward": [0, 2]}).inward.out_features == 2


def test_what_runs_in_operators_needs_no_reference():
    model = scanned(Visible)
    assert leanrnn.discover(model, x()).widths == {"inward": H}
    cut(model, x(), {"inward": [1, 3]})


@pytest.mark.parametrize("kind", [Nothing, Same])
def test_harmless_functions_hide_nothing(kind):
    model = Run(lambda m, x: m.head(kind.apply(m.rnn(x)[0])), rnn=nn.GRU(5, H), head=nn.Linear(H, 3))
    groups = leanrnn.discover(model, torch.randn(4, 2, 5))
    assert "autograd.Function" not in str(groups)
    assert groups.widths == {"rnn.l0": H}


def test_other_layers_are_offered_beside_an_opaque_function():
    def forward(m, x: Tensor) -> Tensor:
        return m.head(Fresh.apply(m.inward(m.rnn(x)[0]), m.decay.weight[0]))

    parts = {"rnn": nn.GRU(5, 4), "inward": nn.Linear(4, H), "decay": nn.Linear(H, 1), "head": nn.Linear(H, 3)}
    groups = leanrnn.discover(Run(forward, **parts).double(), x())
    assert groups.widths == {"rnn.l0": 4} and "meets Fresh" in dict(groups.pinned)["inward"]


def test_where_no_weight_leads_to_it_the_error_names_it():
    model = Run(lambda m, x: m.head(Fresh.apply(x, x[0, 0])), head=nn.Linear(5, 3)).double()
    with pytest.raises(DiscoveryError, match=r"no recurrent width.* may be hidden in Fresh, an autograd.Function"):
        leanrnn.discover(model, x())


def test_an_operator_without_a_rule_is_named_where_nothing_else_is_recurrent():
    @torch.library.custom_op("leanrnn_test::scan", mutates_args=())
    def scan(x: Tensor, decay: Tensor) -> Tensor:
        return reference(x, decay)

    def forward(m, x: Tensor) -> Tensor:
        return m.head(scan(m.inward(x), m.decay.weight[0]))

    model = Run(forward, inward=nn.Linear(5, H), decay=nn.Linear(H, 1), head=nn.Linear(H, 3)).double()
    assert "meets scan, an operator without a rule" in dict(leanrnn.discover(model, x()).pinned)["inward"]


def test_a_wrong_reference_and_a_rule_are_refused():
    leanrnn.register(Fresh, like=lambda x, decay: x * decay)
    with pytest.raises(OperatorError, match="registered for Fresh does not return"):
        leanrnn.discover(scanned(Fresh), x())
    for given in ({"rule": "pointwise"}, {"like": 3}, {}):
        with pytest.raises(OperatorError):
            leanrnn.register(Fresh, given.get("rule"), like=given.get("like"))


def test_nothing_is_left_behind():
    leanrnn.discover(scanned(Visible), x())
    assert "__getattribute__" not in vars(torch.autograd.function.FunctionMeta)
