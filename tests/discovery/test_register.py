"""Teaching discovery an operator: by a function that does the same, by a pattern, by a word."""

import pytest
import torch
from torch import Tensor, nn

import leanrnn
from leanrnn.discovery.instead import LIKE, instead_of
from leanrnn.discovery.rules import base
from leanrnn.errors import OperatorError
from tests.support.families import H, Run


@torch.library.custom_op("leanrnn_taught::mix", mutates_args=())
def mix(x: Tensor, scale: Tensor) -> Tensor:
    return (x * scale).tanh()


@torch.library.custom_op("leanrnn_taught::dot", mutates_args=())
def dot(x: Tensor, weight: Tensor, times: int) -> Tensor:
    return times * (x @ weight)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """What a test teaches is forgotten after it."""
    monkeypatch.setattr(base, "_RULES", dict(base._RULES))
    monkeypatch.setattr("leanrnn.discovery.register.LIKE", LIKE)
    before = dict(LIKE)
    yield
    LIKE.clear()
    LIKE.update(before)
    instead_of.cache_clear()


def model() -> Run:
    def forward(m, x):
        return m.head(torch.ops.leanrnn_taught.mix(m.rnn(x)[0], m.scale.weight[0]))

    return Run(forward, rnn=nn.GRU(5, H), scale=nn.Linear(H, 1), head=nn.Linear(H, 2)).double()


def example() -> Tensor:
    return torch.randn(4, 2, 5, dtype=torch.float64)


def cut(groups: leanrnn.Groups, net: nn.Module, x: Tensor) -> None:
    small = leanrnn.shrink(net, groups, ratio=0.5, example=x)
    assert small.rnn.hidden_size == H // 2 and small.scale.weight.shape == (1, H // 2)


TAUGHT = [
    {"rule": "pointwise"},
    {"rule": "[t] b h, h -> [t] b h"},
    {"like": lambda x, scale: torch.tanh(x * scale)},
]


@pytest.mark.parametrize("taught", TAUGHT, ids=["word", "pattern", "function"])
@pytest.mark.parametrize(
    "operator",
    [mix, "leanrnn_taught::mix", torch.ops.leanrnn_taught.mix, torch.ops.leanrnn_taught.mix.default],
    ids=["custom_op", "name", "packet", "overload"],
)
def test_a_taught_operator_lets_the_width_go(operator, taught):
    net, x = model(), example()
    assert "without a rule" in dict(leanrnn.discover(net, x).pinned)["rnn.l0"]
    leanrnn.register(operator, **taught)
    groups = leanrnn.discover(net, x)
    assert groups.widths == {"rnn.l0": H}
    cut(groups, net, x)


def test_a_sum_is_followed_through_a_function():
    def forward(m, x):
        return torch.ops.leanrnn_taught.dot(m.rnn(x)[0], m.head.weight.t(), 2)

    net, x = Run(forward, rnn=nn.LSTM(5, H), head=nn.Linear(H, 2, bias=False)).double(), example()
    leanrnn.register("leanrnn_taught::dot", like=lambda x, weight, times: (x @ weight) * times)
    groups = leanrnn.discover(net, x)
    assert groups.widths == {"rnn.l0": H} and groups["rnn.l0"].readers == ("rnn.weight_hh_l0", "head.weight")


def test_a_pattern_that_claims_too_much_is_caught_by_the_proof():
    @torch.library.custom_op("leanrnn_taught::soft", mutates_args=())
    def soft(x: Tensor) -> Tensor:
        return x.softmax(-1)

    net = Run(lambda m, x: m.head(soft(m.rnn(x)[0])), rnn=nn.GRU(5, H), head=nn.Linear(H, 2)).double()
    leanrnn.register(soft, "t b h -> t b h")
    assert "changes the result" in dict(leanrnn.discover(net, example()).pinned)["rnn.l0"]


def test_a_function_that_does_something_else_is_refused():
    leanrnn.register(mix, like=lambda x, scale: x * scale)
    with pytest.raises(OperatorError, match="does not return what the operator returns"):
        leanrnn.discover(model(), example())


@pytest.mark.parametrize(
    ("operator", "given", "text"),
    [
        ("nowhere::nothing", {"rule": "pointwise"}, "there is no operator nowhere::nothing"),
        ("nonsense", {"rule": "pointwise"}, "is no operator"),
        (3, {"rule": "pointwise"}, "is no operator"),
        (mix, {}, "needs one of a rule and like="),
        (mix, {"rule": "pointwise", "like": torch.tanh}, "needs one of a rule and like="),
        (mix, {"rule": 7}, "Give a function"),
        (mix, {"rule": "b h"}, "on one side only"),
        (mix, {"rule": "t b h, h -> t b"}, "h is on one side only"),
        (mix, {"rule": "t t -> t"}, "no list of different names"),
        (mix, {"rule": "(t b) h -> t h"}, "no list of different names"),
    ],
)
def test_nonsense_is_refused(operator, given, text):
    with pytest.raises(OperatorError, match=text):
        leanrnn.register(operator, given.get("rule"), like=given.get("like"))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("b h, h -> b h", "has inputs of"),
        ("t b h, h -> t b h, t", "has results of"),
        ("t b h, t -> t b h", "t is 4 long and 6 long"),
    ],
)
def test_a_pattern_that_does_not_fit_is_refused(pattern, text):
    leanrnn.register(mix, pattern)
    with pytest.raises(OperatorError, match=text):
        leanrnn.discover(model(), example())


def test_inference_mode_inside_a_model():
    """Operators that torch takes apart outside of inference mode arrive whole inside of it."""

    def forward(m, x):
        with torch.inference_mode():
            y = torch.matmul(m.rnn(x)[0], m.head.weight.mT)
            return y.reshape(-1).clone()

    net = Run(forward, rnn=nn.GRU(5, H), head=nn.Linear(H, 2)).double()
    assert leanrnn.discover(net, example()).widths == {"rnn.l0": H}
