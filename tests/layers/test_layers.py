"""Modules of unequal width answer like torch's own, with every option and either CPU backend."""

import copy
import itertools

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence
from torch.utils import _pytree as pytree

from leanrnn import layers
from leanrnn.layers import Recurrent, States

KINDS = ("LSTM", "GRU", "RNN_TANH", "RNN_RELU", "PROJECTED")
LENGTHS = torch.tensor([3, 6, 1, 5])


@pytest.fixture(params=[True, False], ids=["onednn", "native"], autouse=True)
def backend(request):
    # torch.backends.mkldnn.flags warns about Intel GPUs on every machine without one.
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(request.param)
    torch.manual_seed(0)
    yield
    torch._C._set_mkldnn_enabled(before)


def make(kind: str, inputs: int = 3, width: int = 5, **options) -> nn.RNNBase:
    options.setdefault("dtype", torch.float64)
    if kind == "PROJECTED":
        return nn.LSTM(inputs, width, proj_size=2, **options)
    if kind.startswith("RNN"):
        return nn.RNN(inputs, width, nonlinearity=kind[4:].lower(), **options)
    return getattr(nn, kind)(inputs, width, **options)


def ours_of(plain: nn.RNNBase) -> Recurrent:
    """A module of ours with the weights of torch's."""
    ours = copy.deepcopy(plain)
    ours.__class__ = layers.RECURRENT[plain.mode]
    return ours


def leaves(value) -> list[Tensor]:
    if isinstance(value, PackedSequence):
        return [value.data, value.batch_sizes]
    return [t for item in value for t in leaves(item)] if isinstance(value, tuple | States) else [value]


def assert_same(actual, expected) -> None:
    pairs = zip(leaves(actual), leaves(expected), strict=True)
    for a, b in pairs:
        tolerance = 1e-5 if a.dtype == torch.float32 else 1e-12
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def state_of(module: nn.RNNBase, batch: int | None = 4):
    """A dense random initial state."""
    slots = module.num_layers * (2 if module.bidirectional else 1)
    shape = (slots,) if batch is None else (slots, batch)
    h = torch.randn(*shape, module.proj_size or module.hidden_size, dtype=torch.float64)
    return (h, torch.randn(*shape, module.hidden_size, dtype=torch.float64)) if module.mode == "LSTM" else h


def inputs_of(form: str, batch_first: bool):
    if form == "unbatched":
        return torch.randn(6, 3, dtype=torch.float64)
    x = torch.randn(4, 6, 3, dtype=torch.float64) if batch_first else torch.randn(6, 4, 3, dtype=torch.float64)
    if form == "batched":
        return x
    lengths = LENGTHS if form == "unsorted" else LENGTHS.sort(descending=True).values
    return pack_padded_sequence(x, lengths, batch_first=batch_first, enforce_sorted=form == "sorted")


@pytest.mark.parametrize("form", ["batched", "unbatched", "sorted", "unsorted"])
@pytest.mark.parametrize("kind", KINDS)
def test_equal_widths_answer_like_torch(kind, form):
    for bidirectional, batch_first, bias in itertools.product([False, True], repeat=3):
        plain = make(kind, num_layers=2, bidirectional=bidirectional, batch_first=batch_first, bias=bias)
        ours, x = ours_of(plain), inputs_of(form, batch_first)
        hx = state_of(plain, None if form == "unbatched" else 4)
        assert isinstance(ours, type(plain)) and ours.hidden_size == 5
        assert_same(ours(x), plain(x))
        assert_same(ours(x, hx), plain(x, hx))
        assert list(ours.state_dict()) == list(plain.state_dict())


def stack_of_singles(
    kind: str, bidirectional: bool, dtype: torch.dtype = torch.float64
) -> tuple[Recurrent, list[list[nn.RNNBase]]]:
    """A stack of widths that differ everywhere, and the single modules it should equal."""
    ours = ours_of(make(kind, num_layers=3, bidirectional=bidirectional, dtype=dtype))
    rows, inputs = [], 3
    for layer in range(3):
        row = []
        for direction in range(2 if bidirectional else 1):
            single = make(kind, inputs, 4 + layer + 3 * direction, dtype=dtype)
            for name, parameter in single.named_parameters():
                setattr(ours, name.replace("_l0", f"_l{layer}" + "_reverse" * direction), parameter)
            row.append(single)
        inputs = sum(single.proj_size or single.hidden_size for single in row)
        rows.append(row)
    ours.refit_()
    return ours, rows


def run_singles(rows, x: Tensor) -> tuple[Tensor, list]:
    states = []
    for row in rows:
        outputs = []
        for direction, single in enumerate(row):
            output, state = single(x.flip(0) if direction else x)
            outputs.append(output.flip(0) if direction else output)
            states.append(state if isinstance(state, tuple) else (state,))
        x = torch.cat(outputs, -1)
    return x, [part.squeeze(0) for parts in zip(*states, strict=True) for part in parts]


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])  # oneDNN takes float32 only
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_unequal_widths_equal_a_stack_of_single_modules(kind, bidirectional, dtype):
    ours, rows = stack_of_singles(kind, bidirectional, dtype)
    x = torch.randn(6, 4, 3, dtype=dtype)
    output, state = ours(x)
    expected, states = run_singles(rows, x)
    assert_same(output, expected)
    dense = kind == "PROJECTED"  # every projection has the same width, so h is one tensor
    assert_same(
        tuple(leaves(state)[1:] if dense else leaves(state)), tuple(states[len(states) // 2 :] if dense else states)
    )
    wanted = torch.autograd.grad(expected.sum(), [p for row in rows for s in row for p in s.parameters()])
    found = torch.autograd.grad(output.sum(), [p for row in rows for s in row for p in s.parameters()])
    assert_same(found, wanted)
    again, _ = ours(x, state)
    assert again.shape == output.shape and not torch.equal(again, output)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_packed_input_of_unequal_widths_equals_each_sequence_alone(kind):
    ours, _ = stack_of_singles(kind, True)
    x = torch.randn(6, 4, 3, dtype=torch.float64)
    packed, state = ours(pack_padded_sequence(x, LENGTHS, enforce_sorted=False))
    padded, _ = nn.utils.rnn.pad_packed_sequence(packed)
    for b, length in enumerate(LENGTHS.tolist()):
        output, last = ours(x[:length, b])
        assert_same(padded[:length, b], output)
        assert_same(tuple(s[b] for s in leaves(state)), tuple(leaves(last)))


def test_hidden_size_and_friends():
    ours, _ = stack_of_singles("LSTM", True)
    assert (ours.hidden_size, ours.input_size, ours.proj_size) == ((4, 7, 5, 8, 6, 9), 3, 0)
    assert [len(weights) for weights in ours.all_weights] == [4] * 6
    assert not ours.equal and "(4, 7, 5, 8, 6, 9)" in repr(ours)
    ours.flatten_parameters()


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_between_layers_draws_the_masks_of_torch(kind):
    plain = make(kind, num_layers=3, dropout=0.5, batch_first=True, bidirectional=True)
    ours, x = ours_of(plain), inputs_of("batched", True)
    for training in (True, False):
        plain.train(training), ours.train(training)
        torch.manual_seed(1)
        expected = plain(x)
        torch.manual_seed(1)
        assert_same(ours(x), expected)
    plain.train(), ours.train()
    assert not torch.equal(ours(x)[0], ours(x)[0])


def test_wrong_shapes_raise_as_in_torch():
    for module in (plain := make("LSTM"), ours_of(plain)):
        with pytest.raises(RuntimeError, match="input_size"):
            module(torch.zeros(2, 2, 9, dtype=torch.float64))
        with pytest.raises(ValueError, match="2D or 3D"):
            module(torch.zeros(2, dtype=torch.float64))
        for state in (torch.zeros(1, 2, 6), torch.zeros(1, 3, 5), torch.zeros(2, 2, 5), torch.zeros(2, 5)):
            with pytest.raises(RuntimeError, match=r"hidden|hx"):
                module(torch.zeros(2, 2, 3, dtype=torch.float64), (state.double(), state.double()))


def cut_by_hand(ours: Recurrent, slot: int, kept: list[int], layers_read: dict[str, list[int]]) -> None:
    """Keep the units ``kept`` of one slot of a GRU."""
    suffix, width = ours.slots[slot], ours.widths(0)[slot]
    rows = [gate * width + k for gate in range(3) for k in kept]
    for name in [n for n in ours.state_dict() if n.endswith(suffix)]:
        weight = getattr(ours, name)[rows]
        setattr(ours, name, nn.Parameter(weight[:, kept] if "hh" in name and weight.dim() == 2 else weight))
    for name, columns in layers_read.items():
        setattr(ours, name, nn.Parameter(getattr(ours, name)[:, columns]))
    ours.accept(0, slot, width, kept)
    ours.refit_()


def test_states_of_former_widths_are_narrowed():
    ours = ours_of(make("GRU", num_layers=2))
    x, h = torch.randn(6, 4, 3, dtype=torch.float64), torch.randn(2, 4, 5, dtype=torch.float64)
    cut_by_hand(ours, 0, [0, 2, 4], {"weight_ih_l1": [0, 2, 4]})
    expected = ours(x, (h[0][:, [0, 2, 4]], h[1]))
    assert_same(ours(x, h), expected)
    middle = States([h[0][:, [0, 2, 4]], h[1]])
    assert_same(ours(x, middle), expected)
    cut_by_hand(ours, 0, [1, 2], {"weight_ih_l1": [1, 2]})
    cut_by_hand(ours, 1, [0, 4], {})
    expected = ours(x, (h[0][:, [2, 4]], h[1][:, [0, 4]]))
    assert_same(ours(x, h), expected)
    assert_same(ours(x, middle), expected)
    assert_same(copy.deepcopy(ours)(x, list(h)), expected)
    assert isinstance(expected[1], Tensor), "both layers are 2 wide again"
    with pytest.raises(RuntimeError, match="hidden"):
        ours(x, h[..., :4])


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells_accept_former_widths(kind):
    cell = getattr(layers, kind)(3, 4, dtype=torch.float64)
    cell.accept(6, [0, 1, 3, 5])
    cell.refit_()
    x, h = torch.randn(2, 3, dtype=torch.float64), torch.randn(2, 6, dtype=torch.float64)
    pair = (lambda s: (s, s)) if kind == "LSTMCell" else (lambda s: s)
    assert_same(cell(x, pair(h)), cell(x, pair(h[:, [0, 1, 3, 5]])))
    assert_same(cell(x), cell(x, pair(h.new_zeros(2, 4))))
    assert isinstance(cell, getattr(nn, kind))


def test_states_behave_like_a_stacked_tensor():
    h = States([torch.ones(4, 2), torch.zeros(4, 3)])
    assert h[-1].shape == (4, 3) and isinstance(h[-2:], States) and len(h) == 2
    assert h[0, :2].shape == (2, 2) and h[:, :2].size(1) == 2
    assert (h.size(0), h.size(1), h.dim()) == (2, 4, 3)
    assert h.detach().to(torch.float64).clone().contiguous().dtype == torch.float64
    assert h.index_select(1, torch.tensor([0])).size(1) == 1 and len(h.unbind(0)) == 2
    assert repr(h) == "States((4, 2), (4, 3))" and h.device.type == "cpu"
    by_layer = States([*h, *h]).view(2, -1, 4, 5)
    assert (
        by_layer[-1, 0].shape == (4, 2)
        and by_layer[:, 1][0].shape == (4, 3)
        and "States(States((4, 2)" in repr(by_layer)
    )
    back = pytree.tree_map(lambda t: t + 1, h)
    assert isinstance(back, States) and torch.equal(back[0], h[0] + 1)
    for misuse in (
        lambda: h.size(2),
        lambda: h.unbind(1),
        lambda: h.view(3, 1, 4, 5),
        lambda: h[..., 0],
        lambda: h.index_select(0, torch.tensor(0)),
    ):
        with pytest.raises(IndexError):
            misuse()


def norm_case(name: str, dtype: torch.dtype):
    """A norm over 12 channels, our norm over the kept ones, and an input whose other channels are zero."""
    kept = [0, 1, 2, 6, 7, 9] if name != "vanished" else [0, 2, 8]
    full = {
        "layer": lambda: nn.LayerNorm(12),
        "rms": lambda: nn.RMSNorm(12),
        "instance": lambda: nn.GroupNorm(12, 12),
        "group": lambda: nn.GroupNorm(3, 12),
        "vanished": lambda: nn.GroupNorm(3, 12),
    }[name]().to(dtype)
    x = torch.zeros(4, 12, 5, dtype=dtype)
    x[:, kept] = torch.randn(4, len(kept), 5, dtype=dtype) + 1
    x = x.transpose(1, 2) if name in ("layer", "rms") else x
    for parameter in full.parameters():
        nn.init.normal_(parameter)
    small = copy.deepcopy(full)
    for key, parameter in full.named_parameters():
        setattr(small, key, nn.Parameter(parameter[kept]))
    small.__class__ = getattr(layers, type(full).__name__)
    if name in ("layer", "rms"):
        small.normalized_shape, small.full_width = (len(kept),), 12
    else:
        groups = torch.tensor(kept) // (12 // full.num_groups)
        small.counts, small.full_count = groups.unique(return_counts=True)[1].tolist(), 12 // full.num_groups
    return full, small, x, kept, -1 if name in ("layer", "rms") else 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["layer", "rms", "instance", "group", "vanished"])
def test_norms_divide_by_the_original_width(name, dtype):
    full, small, x, kept, axis = norm_case(name, dtype)
    index = torch.tensor(kept)
    expected, found = full(x).index_select(axis, index), small(x.index_select(axis, index))
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 5e-2}[dtype]
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
