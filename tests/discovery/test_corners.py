"""Corners that random architectures led into, each as the smallest model that shows it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

import leanrnn
from leanrnn.running.compare import difference, run
from tests.support.families import Run
from tests.support.soaking import zeroed_by_hand


def cut(model: nn.Module, example: Any, keep: dict[str, list[int]]) -> nn.Module:
    """The smaller model, after it was compared with the one zeroed by hand."""
    model = model.double()
    groups = leanrnn.discover(model, example)
    small = leanrnn.shrink(model, groups, keep=keep)
    zeroed = zeroed_by_hand(model, groups, keep)
    assert difference(run(zeroed, example), run(small, example)) <= 1e-12
    return small


def x(time: int = 4, batch: int = 2, size: int = 5) -> Tensor:
    return torch.randn(time, batch, size, dtype=torch.float64)


def test_state_that_starts_from_new_zeros_is_a_state() -> None:
    def forward(m: Any, x: Tensor) -> Any:
        h = x.new_zeros(x.size(1), m.u.in_features)
        for step in x:
            h = torch.tanh(m.w(step) + m.u(h))
        return m.head(h), h

    model = Run(forward, w=nn.Linear(5, 6), u=nn.Linear(6, 6), head=nn.Linear(6, 3))
    small = cut(model, x(), {"u": [0, 2]})
    assert small(x())[1].shape == (2, 2)


def test_projection_as_wide_as_the_cell() -> None:
    for bias in (False, True):
        rnn = nn.LSTM(5, 5, 2, proj_size=3, bias=bias)
        model = Run(lambda m, x: m.head(m.rnn(x)[0]), rnn=rnn, head=nn.Linear(3, 2))
        widths = {"rnn.l0": [0, 3], "rnn.weight_hr_l0": [1, 2], "rnn.l1": [0, 1], "rnn.weight_hr_l1": [0, 2]}
        small = cut(model, x(), widths)
        small(x())[0].sum().backward()
        assert all(p.grad is not None for p in small.parameters())


def test_width_is_named_after_the_layer_not_after_a_bilinear_reader() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        out = m.rnn(x)[0]
        return m.head(out[0], out[-1])

    model = Run(forward, rnn=nn.LSTM(5, 6, proj_size=4), head=nn.Bilinear(4, 4, 3))
    assert leanrnn.discover(model.double(), x()).names == ["rnn.l0", "rnn.weight_hr_l0"]


class Coupled(nn.Module):
    """A cell of four gates that reads three of them."""

    def __init__(self, interleaved: bool) -> None:
        super().__init__()
        self.interleaved = interleaved
        self.w, self.u, self.head = nn.Linear(5, 12), nn.Linear(3, 12), nn.Linear(3, 2)

    def gates(self, z: Tensor) -> tuple[Tensor, ...]:
        if self.interleaved:
            return z.unflatten(-1, (-1, 4)).unbind(-1)
        n = z.size(1) // 4
        return tuple(z[:, k * n : (k + 1) * n] for k in range(4))

    def forward(self, x: Tensor) -> Tensor:
        h = c = x.new_zeros(x.size(1), self.u.in_features)
        for step in x:
            i, _, g, o = (torch.sigmoid(gate) for gate in self.gates(self.w(step) + self.u(h)))
            c = (1 - i) * c + i * g
            h = o * torch.tanh(c)
        return self.head(h)


@pytest.mark.parametrize("interleaved", [False, True])
def test_gate_that_nothing_reads_leaves_with_the_others(interleaved: bool) -> None:
    """More gates than components, and one of them unread: neither may hide which axis is the width."""
    small = cut(Coupled(interleaved), x(), {"u": [0, 2]})
    assert small.u.weight.shape == (8, 2)


@pytest.mark.parametrize("sequence", [False, True])
def test_state_of_a_packed_batch_is_a_state_and_its_outputs_are_a_result(sequence: bool) -> None:
    def forward(m: Any, x: Tensor, lengths: Tensor) -> Any:
        out, state = m.rnn(pack_padded_sequence(x, lengths, enforce_sorted=False))
        return m.head(out.data), out if sequence else state

    model = Run(forward, rnn=nn.LSTM(5, 4), head=nn.Linear(4, 2)).double()
    groups = leanrnn.discover(model, (x(batch=3), torch.tensor([1, 4, 2])))
    assert groups.widths == ({} if sequence else {"rnn.l0": 4})


def test_rms_norm_goes_on_dividing_by_its_former_width() -> None:
    parts = {"rnn": nn.GRU(5, 6), "norm": nn.RMSNorm(6), "head": nn.Linear(6, 2)}
    model = Run(lambda m, x: m.head(m.norm(m.rnn(x)[0])), **parts)
    small = cut(model, x(), {"rnn.l0": [1, 4]})
    assert small.norm.weight.shape == (2,)


def test_unequal_states_of_a_gru_are_not_taken_for_those_of_an_lstm() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        state = m.rnn(x)[1]
        return m.head((state[0] if isinstance(state, tuple) else state)[-1])

    for kind in (nn.GRU, nn.LSTM):
        cut(Run(forward, rnn=kind(5, 6, 2), head=nn.Linear(6, 2)), x(), {"rnn.l0": [0, 1, 2], "rnn.l1": [4, 5]})


class Elman(nn.Module):
    """A layer that starts from a width it remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.width = 3
        self.x, self.h = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        h, outs = x.new_zeros(x.size(1), self.width), []
        for step in x:
            h = torch.tanh(self.x(step) + self.h(h))
            outs.append(h)
        return torch.stack(outs)


def test_remembered_width_is_that_of_its_own_layer() -> None:
    """Seven layers of width 3 cannot all be cut to different widths in the proof, so numbers there say too little."""
    names = [str(k) for k in range(7)]
    model = nn.Sequential(*(Elman() for _ in names), nn.Linear(3, 2))
    cut(model, x(size=3), {f"{name}.h": list(range(1 + k % 3)) for k, name in enumerate(names)})


def test_learned_initial_state_over_two_steps() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.RNNCell(5, 4), nn.Linear(4, 2)
            self.start = nn.Parameter(torch.ones(4))

        def forward(self, x: Tensor) -> Tensor:
            h = self.start.expand(x.size(1), -1)
            for step in x:
                h = self.cell(step, h)
            return self.head(h)

    small = cut(Net(), x(time=2), {"cell": [1, 2]})
    assert small.start.shape == (2,)


def test_gated_linear_unit_ties_the_halves() -> None:
    model = Run(lambda m, x: m.head(nn.functional.glu(m.rnn(x)[0])), rnn=nn.GRU(5, 6), head=nn.Linear(3, 2))
    small = cut(model, x(), {"rnn.l0": [0, 2]})
    assert (small.rnn.hidden_size, small.head.in_features) == (4, 2)


def test_learned_initial_state_of_an_independent_recurrence() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.head = nn.Linear(5, 4), nn.Linear(4, 2)
            self.u, self.start = nn.Parameter(torch.rand(4)), nn.Parameter(torch.rand(4))

        def forward(self, x: Tensor) -> Tensor:
            h = self.start.expand(x.size(1), -1)
            for step in x:
                h = torch.tanh(self.w(step) + self.u * h)
            return self.head(h)

    cut(Net(), x(time=2), {"w": [1, 2]})


class Halves(nn.Module):
    """A state whose two halves meet, so that they lose the same units, in a module that remembers the whole width."""

    def __init__(self, **remembered: Any) -> None:
        super().__init__()
        self.w, self.u, self.head = nn.Linear(5, 8), nn.Linear(8, 8), nn.Linear(4, 3)
        vars(self).update(remembered)

    def width(self) -> int:
        return int(getattr(self, "_size", 0) or self.sizes["state"])

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(x.size(1), self.width())
        for step in x:
            h = torch.tanh(self.w(step) + self.u(h))
        left, right = h.chunk(2, -1)
        return self.head(left * right)


@pytest.mark.parametrize("remembered", [{"_size": 8}, {"sizes": {"state": 8}}])
def test_remembered_number_that_is_twice_the_width_of_its_layer(remembered: dict[str, Any]) -> None:
    small = cut(Halves(**remembered), x(), {"u": [0, 2, 3]})
    assert small.width() == 6
    groups = leanrnn.discover(Halves(**remembered).double(), x())
    again = Halves(**remembered).double()
    text = leanrnn.Groups.from_json(groups.to_json(), again)
    assert leanrnn.shrink(again, text, keep={"u": [1]}, example=x()).width() == 2


class OneNumber(nn.Module):
    """Two layers whose states are made from one remembered number."""

    def __init__(self) -> None:
        super().__init__()
        self.width, self.a, self.b, self.head = 6, nn.Linear(11, 6), nn.Linear(12, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        h, g = (x.new_zeros(x.size(1), self.width) for _ in range(2))
        for step in x:
            h = torch.tanh(self.a(torch.cat([step, h], -1)))
            g = torch.tanh(self.b(torch.cat([h, g], -1)))
        return self.head(g)


class OneSize(nn.Module):
    """A mask as wide as the states that is laid over an attention of the same width."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.key, self.score, self.head = (
            nn.GRU(5, 6),
            nn.Linear(6, 6),
            nn.Linear(6, 1, bias=False),
            nn.Linear(6, 2),
        )

    def forward(self, x: Tensor) -> Tensor:
        out = self.rnn(x)[0]
        mask = (x[..., :1] > 0).expand_as(out)
        weights = self.score(mask * torch.sigmoid(self.key(out)))
        return self.head((weights * out).sum(0))


@pytest.mark.parametrize(("model", "name"), [(OneNumber(), "a"), (OneSize(), "rnn.l0")])
def test_widths_that_can_only_shrink_together(model: nn.Module, name: str) -> None:
    groups = leanrnn.discover(model.double(), x())
    assert (groups.names, groups.pinned) == ([name], [])
    small = cut(model, x(), {name: [0, 2, 3, 5]})
    assert small.head.in_features == 4


def test_features_that_no_weight_makes_are_named_as_such() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        h, y = x.new_zeros(x.size(1), m.u.in_features), x.new_ones(x.size(1), 3)
        for step in x:
            h = torch.tanh(m.w(torch.cat([step, y], -1)) + m.u(h))
            y = (h @ m.out).expand(-1, 3)
        return m.head(h)

    model = Run(forward, w=nn.Linear(8, 6), u=nn.Linear(6, 6), head=nn.Linear(6, 3))
    model.out = nn.Parameter(torch.randn(6, 1))
    groups = leanrnn.discover(model.double(), x())
    assert groups.names == ["u"]
    assert groups.pinned == [("w", "is made of data: weights read it and none makes it")]


@pytest.mark.parametrize("where", ["rnn", "head"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("wrap", [nn.utils.parametrizations.spectral_norm, nn.utils.spectral_norm])
@pytest.mark.filterwarnings("ignore:.*spectral_norm.*:FutureWarning")
def test_spectral_norm_is_cut_along(wrap: Any, training: bool, where: str) -> None:
    """Its vectors are buffers that are written before they are read, and a zero adds nothing to them."""
    rnn, head = nn.LSTM(5, 6), nn.Linear(6, 3)
    wrap(rnn, "weight_ih_l0") if where == "rnn" else wrap(head)
    model = Run(lambda m, x: m.head(m.rnn(x)[0]), rnn=rnn, head=head).train(training)
    small = cut(model, x(), {"rnn.l0": [0, 2, 3]})
    vectors = [b.numel() for b in small.buffers()]
    assert vectors == ([12, 5] if where == "rnn" else [3, 3])


def test_spectral_norm_that_moves_at_each_reading_is_named() -> None:
    rnn = nn.LSTM(5, 6)
    nn.utils.parametrizations.spectral_norm(rnn, "weight_hh_l0")
    model = Run(lambda m, x: m.head(m.rnn(x)[0]), rnn=rnn, head=nn.Linear(6, 3)).double()
    model(x())
    ((name, reason),) = leanrnn.discover(model, x()).pinned
    assert name == "rnn.l0" and reason.startswith("rnn.weight_hh_l0 is under a spectral norm")
    assert len(leanrnn.discover(model.eval(), x())) == 1


@pytest.mark.parametrize(
    "select",
    [
        lambda out, mask: out.masked_select(mask.unsqueeze(-1)),
        lambda out, mask: out.masked_select(mask.unsqueeze(-1).expand_as(out)),
        lambda out, mask: out[mask],
    ],
)
def test_rows_chosen_by_a_mask(select: Any) -> None:
    def forward(m: Any, x: Tensor, mask: Tensor) -> Tensor:
        out = m.rnn(x)[0]
        return m.head(select(out, mask).view(-1, out.size(-1)))

    model = Run(forward, rnn=nn.GRU(5, 6), head=nn.Linear(6, 3))
    cut(model, (x(), torch.tensor([[True, False], [True, True], [False, True], [True, True]])), {"rnn.l0": [0, 2, 3]})


def complex_steps(m: Any, x: Tensor) -> Tensor:
    h = torch.zeros(x.size(1), m.u.size(0), dtype=m.u.dtype)
    for step in x:
        z = step.to(m.w.dtype) @ m.w + (m.decay * h if m.u.dim() == 1 else h @ m.u)
        h = z if m.u.dim() == 1 else z / (1 + z.abs()) * torch.relu(z.abs() + m.bias)
    return m.head(torch.cat([h.real, h.imag], -1))


@pytest.mark.parametrize("diagonal", [True, False])
def test_weights_that_are_complex_numbers(diagonal: bool) -> None:
    model = Run(complex_steps, head=nn.Linear(12, 3)).double()
    model.w = nn.Parameter(torch.randn(5, 6, dtype=torch.complex128))
    model.u = nn.Parameter(torch.randn(*[6] * (1 if diagonal else 2), dtype=torch.complex128) / 3)
    model.decay, model.bias = model.u, nn.Parameter(torch.rand(6, dtype=torch.float64))
    groups = leanrnn.discover(model, x())
    (name,) = groups.names
    cut(model, x(), {name: [0, 3, 4]})
    with torch.no_grad():  # a number without its real part is not zero
        model.w[:, 2].real.zero_()
        model.u.select(-1, 2).real.zero_()
        model.head.weight[:, [2, 8]] = 0
    assert leanrnn.groups.alive(groups)[name].all()
    with torch.no_grad():
        weights = [s for s in groups[name].strips if s.role == "weight"]
        parts = [model.get_parameter(s.tensor).transpose(0, s.axis)[s.positions[s.components == 2]] for s in weights]
        squares = sum(float(part.abs().square().sum()) for part in parts)
    assert float(leanrnn.groups.group_norms(groups)[name][2]) ** 2 == pytest.approx(squares)
