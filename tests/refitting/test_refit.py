"""A trained model cut at once: the weights that read what is gone are fitted to what stays."""

import warnings

import pytest
import torch
from torch import Tensor, nn

import leanrnn
from leanrnn import Budget, discover, refit, shrink
from leanrnn.discovery.recorder import opaque_kernels_off
from leanrnn.errors import GroupsError, LeanRNNWarning
from leanrnn.refitting.products import Products
from tests.sparsify.test_compact import Tied
from tests.support import families_heads  # noqa: F401 - adds its models
from tests.support.families import FAMILIES


class Net(nn.Module):
    def __init__(self, cell: type[nn.RNNBase] = nn.LSTM, **options: bool) -> None:
        super().__init__()
        self.rnn = cell(3, 8, 2, **options)
        self.head = nn.Linear(16 if options.get("bidirectional") else 8, 4, bias=options.get("bias", True))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x)[0])


def frames(count: int = 6) -> list[Tensor]:
    return [torch.randn(7, 5, 3) for _ in range(count)]


def apart(a: nn.Module, b: nn.Module, x: Tensor) -> float:
    with torch.no_grad():
        return float((a.eval()(x) - b.eval()(x)).square().mean())


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"bidirectional": True, "batch_first": True}], ids=str)
def test_it_loses_less_than_a_cut(cell, options):
    model, x = Net(cell, **options), torch.randn(7, 9, 3)
    groups, budget = discover(model, x), Budget(mult_adds="60%")
    small = refit(model, groups, frames(), budget=budget)
    assert apart(model, small, x) < 0.5 * apart(model, shrink(model, groups, budget=budget), x)
    least = discover(small, x).costs.mult_adds
    assert least.at(discover(small, x).widths) <= 0.6 * groups.costs.mult_adds.at(groups.widths)


def test_components_that_say_the_same_as_others_leave_without_a_trace():
    model = Net(nn.LSTM).double()
    with torch.no_grad():  # the second half of the last layer is what the first half is
        for name, p in model.rnn.named_parameters():
            if name.endswith("l1"):
                for gate in p.chunk(4):
                    gate[4:] = gate[:4]
    x = [each.double() for each in frames()]
    small = refit(model, discover(model, x[0]), x, keep_widths={"rnn.l1": 4})
    assert [p.shape[1] for n, p in small.named_parameters() if "weight_hh" in n] == [8, 4]
    scale = float(model(x[0]).detach().square().mean())
    assert apart(model, small, torch.randn(7, 9, 3).double()) < 1e-4 * scale


def test_the_model_itself_stays_as_it_is(tmp_path):
    model = Net(dropout=0.5)
    model.head.bias.requires_grad_(False)
    before = {name: p.clone() for name, p in model.state_dict().items()}
    small = refit(model.train(), discover(model, frames()[0]), frames(), keep_widths={"rnn.l0": 5})
    for name, p in model.state_dict().items():
        torch.testing.assert_close(p, before[name], rtol=0, atol=0)
    assert model.training and small.training and small.get_submodule("rnn").training
    assert all(p.grad is None for p in model.parameters())
    assert [name for name, p in small.named_parameters() if not p.requires_grad] == ["head.bias"]
    leanrnn.save(small, tmp_path / "small.safetensors")
    again = leanrnn.load(tmp_path / "small.safetensors", lambda: Net(dropout=0.5))
    x = frames()[0]
    torch.testing.assert_close(again.eval()(x), small.eval()(x), rtol=0, atol=0)


@pytest.mark.parametrize("batch_first", [False, True])
def test_products_are_seen_with_what_is_added_to_them(batch_first):
    rnn, x = nn.LSTM(3, 4, batch_first=batch_first), torch.randn(5, 2, 3)
    with torch.no_grad(), opaque_kernels_off(), Products(rnn, {"weight_ih_l0": 1, "weight_hh_l0": 1}) as products:
        hidden = rnn(x)[0]
    products.finish()
    steps = hidden if batch_first else hidden.transpose(0, 1)
    states = torch.cat((torch.zeros(len(steps), 1, 4), steps[:, :-1]), 1).flatten(0, 1).double()
    for name, rows, bias in (
        ("weight_ih_l0", x.flatten(0, 1).double(), "bias_ih_l0"),
        ("weight_hh_l0", states, "bias_hh_l0"),
    ):
        reading = products.readings[name]
        rows = torch.cat((rows, torch.ones(len(rows), 1)), 1)
        torch.testing.assert_close(reading.moments, rows.T @ rows)
        assert reading.bias == bias and not reading.elsewhere


@pytest.mark.parametrize(
    "product",
    [
        lambda x, w, b: x @ w.T + b,
        lambda x, w, b: torch.einsum("ti,oi->to", x, w) + b,
        lambda x, w, b: torch.addmm(b, x, w.T),
        lambda x, w, b: torch.bmm(x[None], w.T[None])[0].add_(b),
        lambda x, w, b: torch.cat([x @ half.T for half in w.chunk(2)], -1),
        lambda x, w, b: (w @ x.T).T,
    ],
)
def test_products_written_in_any_way_are_seen(product):
    head, x = nn.Linear(3, 4), torch.randn(5, 3)
    with torch.no_grad(), Products(head, {"weight": 1}) as products:
        product(x, head.weight, head.bias)
    products.finish()
    reading, rows = products.readings["weight"], torch.cat((x, torch.ones(5, 1)), 1).double()
    times = reading.moments[-1, -1] / 5  # halves of it are seen one by one
    torch.testing.assert_close(reading.moments / times, rows.T @ rows)
    assert not reading.elsewhere


def test_a_matrix_that_is_looked_up_too_is_left_as_it_is():
    model, tokens = Tied(), [torch.randint(7, (6, 3)) for _ in range(5)]
    with pytest.warns(LeanRNNWarning, match=r"refit leaves .*weight.* as they are"):
        small = refit(model, discover(model, tokens[0]), tokens, keep_widths={"rnn.l0": 4})
    assert torch.equal(small.embedding.weight, model.embedding.weight)


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.first, self.second = nn.GRU(3, 8), nn.Linear(8, 2), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.rnn(x)[0]
        return self.first(hidden), self.second(hidden)


def test_what_counts_as_the_result_can_be_said():
    model, x = TwoHeads(), torch.randn(7, 20, 3)
    with torch.no_grad():  # the heads read one half of the units each, and these do not read each other
        model.first.weight[:, :4] = model.second.weight[:, 4:] = model.rnn.weight_hh_l0[:] = 0
    groups = discover(model, x)
    first = refit(model, groups, frames(), keep_widths={"rnn.l0": 4})
    second = refit(model, groups, frames(), keep_widths={"rnn.l0": 4}, output=lambda model, x: model(x)[1])
    torch.testing.assert_close(first(x)[0], model(x)[0])
    torch.testing.assert_close(second(x)[1], model(x)[1])


class Scaled(nn.Module):
    """The state is read by itself, and by a vector of factors."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.scale = nn.GRU(3, 4), nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.rnn(x)[0]
        return (hidden * self.scale).sum(-1)


def test_what_it_cannot_do_is_said():
    model, x = Net(), frames()
    groups = discover(model, x[0])
    with pytest.raises(GroupsError, match="budget= or keep_widths="):
        refit(model, groups, x)
    with pytest.raises(GroupsError, match="budget= or keep_widths="):
        refit(model, groups, x, budget=Budget(mult_adds="50%"), keep_widths={"rnn.l0": 4})
    with pytest.raises(GroupsError, match="no batches"):
        refit(model, groups, [], budget=Budget(mult_adds="50%"))
    with pytest.raises(GroupsError, match=r"the model's forward raised .*"):
        refit(model, groups, [torch.randn(7, 5, 2)], budget=Budget(mult_adds="50%"))
    with pytest.raises(GroupsError, match="from 1 to 8"):
        refit(model, groups, x, keep_widths={"rnn.l0": 9})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refit(model, groups, x, keep_widths={"rnn.l0": 8})


def test_what_is_read_in_another_way_is_named():
    model = Scaled()
    with pytest.warns(LeanRNNWarning, match="refit leaves scale as they are"):
        refit(model, discover(model, frames()[0]), frames(), keep_widths={"rnn.l0": 2})


def test_a_layer_that_nothing_is_known_of_is_judged_by_its_norms():
    build = FAMILIES["weight_normed"]()
    groups = discover(build.model, build.example)
    with pytest.warns(LeanRNNWarning, match="as they are"):
        small = refit(build.model, groups, [build.example], keep_widths=dict.fromkeys(groups.names, 4))
    cut = shrink(build.model, groups, keep_widths=dict.fromkeys(groups.names, 4))
    torch.testing.assert_close(small(build.example), cut(build.example), rtol=0, atol=0)
