"""What discovery offers, what it pins and why, what it prints, and that it leaves no trace."""

import copy
import inspect
import threading

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import leanrnn
from leanrnn.errors import DiscoveryError, GroupsError, UnsupportedModelError
from tests.support.families import H, Run, _x


def reader(use, **parts: nn.Module) -> Run:
    """An LSTM whose output goes through ``use`` before a linear head."""
    return Run(lambda m, x: m.head(use(m, m.rnn(x)[0])), rnn=nn.LSTM(5, H), head=nn.Linear(H, 3), **parts)


SEEN = {
    "softmax": lambda m, y: y.softmax(-1),
    "sort": lambda m, y: y.sort(-1).values,
    "mean": lambda m, y: y - y.mean(-1, keepdim=True),
    "layer_norm": lambda m, y: F.layer_norm(y, y.shape[-1:]),
    "roll": lambda m, y: y.roll(1, -1),
    "cumprod": lambda m, y: y.cumprod(-1),
    "index": lambda m, y: y[..., torch.randperm(y.size(-1))],
    "fft": lambda m, y: torch.fft.fft(y).real,
}


@pytest.mark.parametrize("name", SEEN)
def test_seen_whole_is_pinned_with_operator_and_line(name):
    use = SEEN[name]
    groups = leanrnn.discover(reader(use), _x())
    assert not groups.layers
    ((width, reason),) = groups.pinned
    assert width == "rnn.l0"
    assert f"{__file__}:{inspect.getsourcelines(use)[1]}" in reason


def test_operator_without_a_rule_pins_and_says_so():
    @torch.library.custom_op("leanrnn_test::twist", mutates_args=())
    def twist(x: Tensor) -> Tensor:
        return x.flip(-1) * 2

    groups = leanrnn.discover(reader(lambda m, y: twist(y)), _x())
    assert "twist, an operator without a rule" in groups.pinned[0][1]
    assert "test_discover.py" in groups.pinned[0][1]


def test_dot_product_needs_zero_biases_and_a_matrix_does_not():
    own = leanrnn.discover(reader(lambda m, y: y), _x())
    dot = leanrnn.discover(reader(lambda m, y: (y @ y.transpose(1, 2)).softmax(-1) @ y), _x())
    assert not own[0].needs_zero_bias
    assert dot[0].needs_zero_bias


def test_value_that_does_not_vanish_is_pinned():
    use = lambda m, y: torch.sigmoid(y) @ torch.sigmoid(y).transpose(1, 2) @ y  # noqa: E731
    groups = leanrnn.discover(reader(use), _x())
    assert groups.pinned and "not zero when the component is" in groups.pinned[0][1]


def test_residual_from_the_input_is_pinned():
    model = Run(lambda m, x: m.head(x + m.rnn(x)[0]), rnn=nn.GRU(5, 5), head=nn.Linear(5, 3))
    groups = leanrnn.discover(model, _x())
    [(name, reason)] = groups.pinned
    assert name == "rnn.l0" and reason.startswith("is an axis of input 0, which it meets in aten.add at ")
    assert "test_discover.py:" in reason


def outputs(*pick: str) -> Run:
    """A model that returns the named values, in that order."""

    def forward(m, x: Tensor):
        out, (h, c) = m.rnn(x)
        values = {"y": m.head(out), "out": out, "h": h, "c": c, "last": out[-1], "state": (h, c), "mean": out.mean(0)}
        return tuple(values[name] for name in pick)

    return Run(forward, rnn=nn.LSTM(5, H), head=nn.Linear(H, 3))


@pytest.mark.parametrize(
    ("returned", "free"),
    [
        (("y", "state"), True),
        (("y", "h"), True),
        (("y", "last"), True),
        (("y", "c", "h"), True),
        (("h", "y"), False),  # the first returned tensor is always a result
        (("y", "out"), False),  # a sequence of outputs is a result
        (("y", "mean"), False),  # so is what is made over time
        (("y", "out", "h"), False),
    ],
)
def test_results_and_returned_states_are_told_apart(returned, free):
    groups = leanrnn.discover(outputs(*returned), _x())
    assert bool(groups.layers) == free
    assert bool(groups.pinned) != free


def test_the_user_can_decide_what_is_a_state():
    assert not leanrnn.discover(outputs("y", "h"), _x(), states=()).layers
    assert leanrnn.discover(outputs("h", "y"), _x(), states=[0]).layers
    assert leanrnn.discover(outputs("y", "out"), _x(), states=[1]).layers


def test_an_input_as_wide_as_the_state_is_kept_by_a_home_made_cell():
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w, self.u, self.head = nn.Linear(5, H), nn.Linear(H, H), nn.Linear(H, 3)

        def forward(self, x: Tensor, h: Tensor) -> Tensor:
            for step in x:
                h = torch.tanh(self.w(step) + self.u(h))
            return self.head(h)

    groups = leanrnn.discover(Net(), (_x(), torch.zeros(2, H)))
    assert groups.pinned == [("u", "is as wide as input 1, which the caller hands in at full width")]


def stack() -> nn.Module:
    return Run(
        lambda m, x: m.head(torch.relu(m.mlp(m.rnn(x)[0]))),
        rnn=nn.LSTM(5, H, 2),
        mlp=nn.Linear(H, 4),
        head=nn.Linear(4, 3),
    )


def test_scope_include_exclude():
    assert leanrnn.discover(stack(), _x(), scope="all").names == ["rnn.l0", "rnn.l1", "mlp"]
    assert leanrnn.discover(stack(), _x(), include="*.l0").names == ["rnn.l0"]
    assert leanrnn.discover(stack(), _x(), exclude=["*weight_hh_l1", "nothing"]).names == ["rnn.l0"]
    with pytest.raises(DiscoveryError, match="include and exclude leave none"):
        leanrnn.discover(stack(), _x(), exclude="rnn.*")
    assert leanrnn.discover(stack(), _x(), scope="all", include=["mlp.*"], exclude="rnn.l1").names == ["mlp"]
    with pytest.raises(DiscoveryError, match="scope"):
        leanrnn.discover(stack(), _x(), scope="everything")


def test_table_and_explanation():
    groups = leanrnn.discover(reader(lambda m, y: y.softmax(-1)), _x())
    assert str(groups).splitlines()[0].split() == ["layer", "width", "group", "readers"]
    assert str(groups).splitlines()[-1].startswith("pinned rnn.l0: is seen whole by softmax at ")
    groups = leanrnn.discover(stack(), _x())
    text = groups.explain("rnn.l0")
    assert "rnn.weight_ih_l1 axis 1" in text and f"{__file__}:" in text and "aten.addmm" in text
    with pytest.raises(GroupsError, match=r"rnn\.l9.*rnn\.l0, rnn\.l1"):
        groups.explain("rnn.l9")


def test_groups_go_to_json_and_back():
    model = stack()
    groups = leanrnn.discover(model, _x())
    again = leanrnn.Groups.from_json(groups.to_json(), model)
    assert str(again) == str(groups) and again.explain("rnn.l1") == groups.explain("rnn.l1")
    assert [la.slices(3) for la in again] == [la.slices(3) for la in groups]
    with pytest.raises(GroupsError, match="discover again"):
        leanrnn.Groups.from_json(groups.to_json(), nn.LSTM(3, 3))
    with pytest.raises(GroupsError, match="not the JSON"):
        leanrnn.Groups.from_json('{"format": 1}')
    with pytest.raises(GroupsError, match="newer"):
        leanrnn.Groups.from_json('{"format": 99}')


def test_tensor_tuple_and_dict_examples():
    model = Run(lambda m, x, scale=1.0: m.head(m.rnn(x)[0] * scale), rnn=nn.LSTM(5, H), head=nn.Linear(H, 3))
    for example in (_x(), (_x(),), (_x(), 2.0), {"x": _x()}, {"x": _x(), "scale": torch.ones(())}):
        assert leanrnn.discover(model, example).widths == {"rnn.l0": H}


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_as_it_was(training):
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(5, H, 2, dropout=0.5)
            self.norm = nn.BatchNorm1d(H)
            self.head = nn.utils.parametrizations.weight_norm(nn.Linear(H, 3))
            self.calls, self.hidden = 0, None

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            out, self.hidden = self.rnn(x)
            return self.head(F.dropout(self.norm(out.permute(1, 2, 0)), training=self.training).transpose(1, 2))

    model = Net().train(training)
    model.norm.eval()
    fired = []
    model.rnn.register_forward_hook(lambda *_: fired.append(1))
    model(_x()).sum().backward()
    grads = {n: p.grad.clone() for n, p in model.named_parameters()}
    before, random, calls = copy.deepcopy(model.state_dict()), torch.get_rng_state(), model.calls
    hooks, hidden = len(model.rnn._forward_hooks), model.hidden
    parameters = {n: id(p) for n, p in model.named_parameters()}
    leanrnn.discover(model, _x_like())
    assert torch.equal(torch.get_rng_state(), random) and model.calls == calls and model.hidden is hidden
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert all(torch.equal(p.grad, grads[n]) for n, p in model.named_parameters())
    assert parameters == {n: id(p) for n, p in model.named_parameters()} and len(model.rnn._forward_hooks) == hooks
    assert model.training == training and not model.norm.training and fired


def _x_like() -> Tensor:
    return torch.ones(4, 2, 5)


def test_an_unused_state_does_not_tie_layers():
    def forward(m, x: Tensor) -> Tensor:
        out, h = m.rnn(x)
        h.sum(0)  # seen as one block, but leads nowhere
        return m.head(out)

    model = Run(forward, rnn=nn.GRU(5, H, 2), head=nn.Linear(H, 3))
    assert leanrnn.discover(model, _x(), prove=False).names == ["rnn.l0", "rnn.l1"]
    # But it runs, and a sum over layers wants them equally wide.
    assert leanrnn.discover(model, _x()).widths == {"rnn.l0": H}


def test_state_used_as_one_block_ties_layers():
    model = Run(lambda m, x: m.head(m.rnn(x)[1].sum(0)), rnn=nn.GRU(5, H, 2), head=nn.Linear(H, 3))
    (layer,) = leanrnn.discover(model, _x())
    assert {"rnn.weight_hh_l0", "rnn.weight_hh_l1"} <= {s.tensor for s in layer.strips}


def test_errors_say_what_and_what_to_do():
    mlp = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    with pytest.raises(DiscoveryError, match=r"no recurrent width.*scope='all'"):
        leanrnn.discover(mlp, _x())
    with pytest.raises(DiscoveryError, match=r"raised RuntimeError at .*Call the model") as caught:
        leanrnn.discover(stack(), torch.zeros(2, 2, 7))
    assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(DiscoveryError, match="example is on meta and the model on cpu"):
        leanrnn.discover(stack(), torch.zeros(4, 2, 5, device="meta"))
    with pytest.raises(UnsupportedModelError, match="no shape yet"):
        leanrnn.discover(nn.Sequential(nn.LazyLinear(3)), _x())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_is_refused():
    with pytest.raises(UnsupportedModelError, match=r"TorchScript.*Python module"):
        leanrnn.discover(torch.jit.script(nn.LSTM(5, H)), _x())


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_quantised_and_sharded_models_are_refused():
    model = stack()
    model.register_buffer("q", torch._make_per_tensor_quantized_tensor(torch.zeros(2, dtype=torch.int8), 1.0, 0))
    with pytest.raises(UnsupportedModelError, match=r"quantised.*Shrink the float model first"):
        leanrnn.discover(model, _x())

    class DTensor(nn.Parameter):
        pass

    model = stack()
    model.head.weight = DTensor(model.head.weight.detach())
    with pytest.raises(UnsupportedModelError, match=r"DTensor.*DistributedDataParallel, shrink it"):
        leanrnn.discover(model, _x())


def test_one_step_with_the_state_handed_in_is_recurrent():
    model = Run(lambda m, x, h: m.head(m.cell(x, h)), cell=nn.GRUCell(5, H), head=nn.Linear(H, 3))
    assert leanrnn.discover(model, (torch.randn(2, 5), torch.randn(2, H))).widths == {"cell": H}


def test_one_step_of_an_lstm_with_its_state_handed_on_is_one_width():
    def forward(m, x, h, c):
        h, c = m.cell(x, (h, c))
        return m.head(h), h, c

    model = Run(forward, cell=nn.LSTMCell(5, H), head=nn.Linear(H, 3))
    (layer,) = leanrnn.discover(model, (torch.randn(2, 5), torch.randn(2, H), torch.randn(2, H)))
    assert {s.axis for s in layer.strips if s.tensor == "cell.weight_hh"} == {0, 1}


def test_single_component_is_listed():
    model = Run(lambda m, x: m.head(m.rnn(x)[0]), rnn=nn.LSTM(5, 1), head=nn.Linear(1, 3))
    assert leanrnn.discover(model, _x()).pinned == [("rnn.l0", "has a single component")]


def test_attributes_that_cannot_be_copied_are_shared():
    model = stack()
    model.rnn.lock = threading.Lock()
    assert leanrnn.discover(model, _x()).names == ["rnn.l0", "rnn.l1"]


def test_a_width_tied_to_another_in_a_single_component_is_listed():
    def forward(m, x: Tensor) -> Tensor:
        joined = torch.cat([m.a(x)[0], m.b(x)[0]], -1)
        return m.head(joined.unflatten(-1, (2, -1)).sum(-2))

    groups = leanrnn.discover(Run(forward, a=nn.GRU(5, 5), b=nn.GRU(5, 1), head=nn.Linear(3, 2)), _x())
    assert groups.widths == {"a.l0": 2}
    assert ("b.l0", "has a single component") in groups.pinned
