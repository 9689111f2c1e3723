"""What the rest of discovery asks of an operator stands beside its rule, and holds for its relatives too."""

import ast
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import leanrnn
from leanrnn.discovery.rules import Kind, find
from leanrnn.discovery.rules.base import _RULES
from leanrnn.errors import OperatorError
from tests.support.families import H, Run

DISCOVERY = Path(leanrnn.__file__).parent / "discovery"
X = torch.randn(4, 2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
DONE = torch.tensor([[True], [False]])


def cell(step, finish) -> Run:
    """A home-made cell in a loop; ``finish`` makes a second result of its states."""

    def forward(m, x):
        states = [x.new_zeros(x.shape[1], m.w.weight.shape[0])]
        for row in x:
            states.append(step(m, row, states[-1]))
        return m.head(states[-1]), finish(m, states[1:])

    parts = {"inward": nn.Linear(5, H), "w": nn.Linear(H, H, bias=False), "head": nn.Linear(H, 2)}
    return Run(forward, **parts, rms=nn.RMSNorm(H)).double()


def plain(m, row: Tensor, h: Tensor) -> Tensor:
    return torch.tanh(torch.addmm(m.inward(row), h, m.w.weight.t()))


def in_place(m, row: Tensor, h: Tensor) -> Tensor:
    return torch.tanh(m.inward(row).addmm_(h, m.w.weight.t()))


def by_unbind(m, states: list[Tensor]) -> Tensor:
    out = torch.zeros(len(states), *states[0].shape, dtype=torch.float64)
    for row, state in zip(out.unbind(0), states, strict=True):
        row.copy_(state)
    return out


def by_copy(m, states: list[Tensor]) -> Tensor:
    out = torch.zeros(len(states), *states[0].shape, dtype=torch.float64)
    return out.copy_(torch.stack(states))


def test_a_product_in_place_has_weights_too():
    """Without its recurrent weight a group would be 7: the row of the first layer and the column of the last."""
    apart, together = (leanrnn.discover(cell(step, lambda m, s: m.head(s[0])), X) for step in (plain, in_place))
    assert apart["w"].group_size == together["w"].group_size == 19
    assert together["w"].readers == apart["w"].readers


@pytest.mark.parametrize("finish", [by_unbind, by_copy])
def test_a_sequence_written_step_by_step_is_no_state(finish):
    pinned = dict(leanrnn.discover(cell(plain, finish), X).pinned)
    assert "reaches output 1" in pinned["w"]


@pytest.mark.parametrize(
    "finish",
    [
        lambda m, s: s[-1],
        lambda m, s: s[-1].masked_fill(DONE, 0.0),
        lambda m, s: s[-1].clone().masked_fill_(DONE, 0.0),
        lambda m, s: F.hardswish(s[-1]),
        lambda m, s: m.rms(s[-1]),
        lambda m, s: torch.stack(s).unsafe_split_with_sizes([len(s) - 1, 1])[1],
        lambda m, s: torch.select_copy(torch.stack(s), 0, -1),
    ],
    ids=["plain", "masked", "masked in place", "hardswish", "rms norm", "cut off", "copied out"],
)
def test_a_state_is_a_state_whichever_relative_of_an_operator_made_it(finish):
    groups = leanrnn.discover(cell(plain, finish), X)
    assert groups.widths == {"w": H} and groups.pinned == []


def test_a_convolution_with_time_in_front_has_weights():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.kernel = nn.GRU(5, H), nn.Parameter(torch.randn(1, H, 3))
            self.bias = nn.Parameter(torch.zeros(3))

        def forward(self, x):
            return torch.conv_tbc(self.rnn(x)[0], self.kernel, self.bias)

    groups = leanrnn.discover(Model().double(), X)
    assert set(groups["rnn.l0"].readers) == {"rnn.weight_hh_l0", "kernel"}


def test_part_of_a_list_of_positions_is_not_the_list():
    """It was taken for the whole, and discover ended in a ValueError of its own."""

    def forward(m, x):
        back = torch.tensor(list(range(len(x)))[::-1])
        return m.head(m.rnn(x)[0].index_select(0, back[1:]))

    net = Run(forward, rnn=nn.GRU(5, H), head=nn.Linear(H, 2)).double()
    assert leanrnn.discover(net, X).widths == {"rnn.l0": H}


@torch.library.custom_op("leanrnn_kinds::scan", mutates_args=())
def scan(x: Tensor, decay: Tensor) -> Tensor:
    out = x.clone()
    for t in range(1, len(x)):
        out[t] += out[t - 1] * decay
    return out


@pytest.fixture
def scanning(monkeypatch):
    monkeypatch.setattr("leanrnn.discovery.rules.base._RULES", dict(_RULES))
    monkeypatch.setattr("leanrnn.discovery.register.LIKE", {})
    parts = {"inward": nn.Linear(5, H), "decay": nn.Linear(1, H, bias=False), "head": nn.Linear(H, 2)}
    return Run(lambda m, x: m.head(scan(m.inward(x), m.decay.weight[:, 0])), **parts).double()


@pytest.mark.parametrize("kind", ["scan", Kind.SCAN, Kind.SCAN | Kind.PASS])
def test_a_rule_of_a_user_carries_a_kind(scanning, kind):
    leanrnn.register(scan, "[t] b h, h -> [t] b h")
    assert leanrnn.discover(scanning, X, scope="all").widths == {"inward": H}
    with pytest.raises(leanrnn.errors.DiscoveryError, match="no recurrent width"):
        leanrnn.discover(scanning, X)
    leanrnn.register(scan, "[t] b h, h -> [t] b h", kind=kind)
    assert leanrnn.discover(scanning, X).widths == {"inward": H}


def test_a_kind_that_does_not_exist_is_refused(scanning):
    with pytest.raises(OperatorError, match="there is no kind 'scam'"):
        leanrnn.register(scan, "pointwise", kind="scam")
    with pytest.raises(OperatorError, match="kind= goes with a rule"):
        leanrnn.register(scan, like=lambda x, decay: x, kind="scan")


def test_what_a_product_adds_is_an_argument_of_it():
    aten = torch.ops.aten
    for packet in (aten.addmm, aten.addmm_, aten.baddbmm, aten.addmv, aten.addr, aten.convolution, aten.linear):
        known = find(packet.default)
        assert Kind.PRODUCT in known.kind
        assert known.summand in {a.name for a in packet.default._schema.arguments}


@pytest.mark.parametrize("path", sorted(DISCOVERY.glob("*.py")), ids=lambda path: path.stem)
def test_only_rules_name_operators(path):
    """A list of names elsewhere would have to be found and kept up by whoever adds a rule."""
    names = {name.split(".")[1] for name in _RULES if "." in name}
    lists = []
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if not (isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__"):
            for node in (n for n in ast.walk(statement) if isinstance(n, (ast.Tuple, ast.List, ast.Set))):
                lists.append({e.value for e in node.elts if isinstance(e, ast.Constant)} & names)
    assert [found for found in lists if len(found) > 1] == []
    assert '"aten.' not in path.read_text(encoding="utf-8")
