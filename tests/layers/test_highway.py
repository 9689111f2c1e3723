"""The recurrent highway layer: its numbers, its gradients, its groups, its file."""

import math

import pytest
import torch
from torch import Tensor, nn

import leanrnn
from leanrnn.errors import LayerError
from leanrnn.layers import RecurrentHighway
from leanrnn.layers.highway_steps import plain_steps, quick_steps


class Model(nn.Module):
    """An embedding that is the output matrix too."""

    def __init__(self, words: int = 20, width: int = 8, depth: int = 3) -> None:
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(words, width), RecurrentHighway(width, width, depth)
        self.head = nn.Linear(width, words)
        self.head.weight = self.embedding.weight

    def forward(self, words, state=None):
        hidden, state = self.rnn(self.embedding(words), state)
        return self.head(hidden), state


def words(*shape: int) -> Tensor:
    return torch.randint(20, shape)


def inputs(mask: bool, depth: int = 3, width: int = 4) -> tuple[Tensor, ...]:
    """What the input adds, a state, a mask, weights and biases, of double precision."""
    torch.manual_seed(0)
    made = [torch.randn(5, 2, 2 * width), torch.randn(2, width), *(torch.randn(2 * width, width) for _ in range(depth))]
    made += [torch.randn(2 * width) for _ in range(depth - 1)]
    masks = (torch.rand(2, width) < 0.5).double() * 2 if mask else None
    x, s, *rest = (each.double().requires_grad_() for each in made)
    return x, s, masks, rest[:depth], rest[depth:]


def naive(rnn: RecurrentHighway, x: Tensor, s: Tensor) -> Tensor:
    """As in the paper: one unit of the network after the other."""
    found = torch.zeros(*x.shape[:2], rnn.hidden_size, dtype=x.dtype)
    width, s = rnn.hidden_size, s.clone()
    for time in range(len(x)):
        for b in range(x.size(1)):
            for depth in range(rnn.depth):
                before = s[b].clone()
                for k in range(width):
                    total = []
                    for row in (k, width + k):
                        z = getattr(rnn, f"bias_l{depth}")[row] + getattr(rnn, f"weight_hh_l{depth}")[row] @ before
                        total.append(float(z + rnn.weight_ih_l0[row] @ x[time, b] if depth == 0 else z))
                    gate = 1 / (1 + math.exp(-total[1]))
                    s[b, k] = gate * math.tanh(total[0]) + (1 - gate) * before[k]
            found[time, b] = s[b]
    return found


@torch.no_grad()
def test_it_computes_what_the_paper_says():
    rnn = RecurrentHighway(3, 4, depth=3).double()
    x, state = torch.randn(5, 2, 3).double(), torch.randn(1, 2, 4).double()
    output, last = rnn(x, state)
    wanted = naive(rnn, x, state[0])
    torch.testing.assert_close(output, wanted, rtol=0, atol=1e-12)
    torch.testing.assert_close(last, wanted[-1:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("depth", [1, 3])
def test_the_quick_way_changes_no_number(mask, depth):
    given = inputs(mask, depth)
    leaves = [*given[:2], *given[3], *given[4]]
    found = []
    for steps in (plain_steps, quick_steps):
        y = steps(*given)
        found.append([y, *torch.autograd.grad((y * torch.arange(y.numel()).view_as(y)).sum(), leaves)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mask", [False, True])
def test_gradients(mask):
    x, s, masks, weights, biases = inputs(mask, depth=2, width=3)
    run = lambda x, s, *rest: quick_steps(x, s, masks, rest[:2], rest[2:])  # noqa: E731
    assert torch.autograd.gradcheck(run, (x, s, *weights, *biases))


def test_pieces_are_the_whole():
    rnn, x = RecurrentHighway(3, 4, depth=2).double(), torch.randn(9, 2, 3).double()
    whole, last = rnn(x)
    first, state = rnn(x[:4])
    rest, end = rnn(x[4:], state)
    torch.testing.assert_close(torch.cat([first, rest]), whole, rtol=0, atol=1e-12)
    assert torch.equal(end, last) or (end - last).abs().max() < 1e-12


def test_masks_are_one_for_all_steps():
    rnn = RecurrentHighway(6, 5, input_dropout=0.5, gate_bias=50.0)  # open gates: the state is the candidate
    with torch.no_grad():
        for name, parameter in rnn.named_parameters():
            if "bias" not in name:
                parameter.zero_()
        rnn.weight_ih_l0[:5].fill_(0.1)
    torch.manual_seed(1)
    steps, _ = rnn(torch.ones(4, 3, 6))
    assert torch.equal(steps, steps[:1].expand_as(steps)) and len(steps[0, :, 0].unique()) > 1
    rnn = RecurrentHighway(6, 5, hidden_dropout=0.5)
    assert not torch.equal(rnn(torch.ones(4, 3, 6))[0], rnn(torch.ones(4, 3, 6))[0])
    rnn.eval()
    assert torch.equal(rnn(torch.ones(4, 3, 6))[0], rnn(torch.ones(4, 3, 6))[0])


def test_the_gates_start_nearly_closed():
    rnn = RecurrentHighway(3, 4, depth=2)
    assert all((getattr(rnn, f"bias_l{i}")[4:] == -2).all() for i in range(2))
    assert not (rnn.bias_l0[:4] == -2).any()


def test_the_papers_group_is_found():
    with torch.device("meta"):
        (layer,) = leanrnn.discover(Model(10_000, 830, 10), words(3, 2))
    assert (layer.name, layer.width, layer.group_size, layer.distinct_size) == ("rnn.l0", 830, 46_520, 46_498)


@pytest.mark.parametrize("state", [None, torch.zeros(1, 2, 8)])
def test_it_shrinks_and_takes_states_of_the_old_width(state):
    model = Model().double()
    example = words(4, 2) if state is None else (words(4, 2), state.double())
    groups = leanrnn.discover(model, example)
    assert groups.widths == {"rnn.l0": 8}
    small = leanrnn.shrink(model, groups, ratio=0.5)
    assert small.rnn.hidden_size == 4 and small.embedding.embedding_dim == 4
    if state is None:  # then nobody hands one in
        assert small.rnn.former is None
        return
    given, text, kept = torch.randn(1, 2, 8).double(), words(3, 2), small.rnn.former[8]
    torch.testing.assert_close(small(text, given)[0], small(text, given[..., kept])[0], rtol=0, atol=0)


def test_it_is_trained_and_cut_under_way():
    torch.manual_seed(0)
    model = Model().double()
    groups = leanrnn.discover(model, words(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sparsifier = leanrnn.Sparsifier(groups, strength=0.8, threshold=0.05, mode="proximal").attach(optimizer)
    text = words(4, 2)
    for _ in range(60):
        nn.functional.cross_entropy(model(text)[0].flatten(0, 1), text.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        sparsifier.compact()
    assert model.rnn.hidden_size < 8 and model(text)[0].shape == (4, 2, 20)


@pytest.mark.parametrize("state", [None, torch.ones(1, 2, 4)])
def test_autocast_leaves_the_steps_whole(state):
    """Only the product with the input has fewer bits; what it gives is the same as computed by hand."""
    rnn, x = RecurrentHighway(3, 4, depth=2), torch.randn(5, 2, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, _ = rnn(x, state)
    output.sum().backward()
    read = nn.functional.linear(x.bfloat16(), rnn.weight_ih_l0.bfloat16(), rnn.bias_l0.bfloat16()).float()
    first = torch.zeros(2, 4) if state is None else state[0]
    expected = plain_steps(read, first, None, [rnn.weight_hh_l0, rnn.weight_hh_l1], [rnn.bias_l1])
    torch.testing.assert_close(output, expected)
    assert output.dtype == torch.float32 and rnn.weight_ih_l0.grad is not None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RecurrentHighway(3, 4, depth=0), "depth is 0. Give at least 1"),
        (lambda: RecurrentHighway(3, 0), "hidden_size is 0"),
        (lambda: RecurrentHighway(3, 4)(torch.zeros(2, 3)), "Give three axes: time, batch and 3 numbers"),
        (lambda: RecurrentHighway(3, 4)(torch.zeros(5, 2, 4)), "the input is 4 wide and the layer reads 3"),
        (lambda: RecurrentHighway(3, 4)(torch.zeros(0, 2, 3)), "has no step"),
        (lambda: RecurrentHighway(3, 4)(torch.zeros(5, 2, 3), torch.zeros(1, 2, 5)), r"shape \(1, 2, 5\) and not"),
        (lambda: RecurrentHighway(3, 4)(torch.zeros(5, 2, 3), torch.zeros(2, 4)), r"and not \(1, 2, 4\)"),
    ],
)  # fmt: skip
def test_mistakes_are_told(make, message):
    with pytest.raises(LayerError, match=message):
        make()


def test_it_is_one_node_of_onnx_at_any_length(tmp_path):
    onnx = pytest.importorskip("onnx")
    model = Model().eval()
    small = leanrnn.shrink(model, leanrnn.discover(model, words(4, 2)), keep_widths={"rnn.l0": 5})
    example = words(4, 2), torch.zeros(1, 2, 5)
    written = leanrnn.export(small, example, tmp_path / "m.onnx", outputs=["scores", "h"])
    assert written.inputs == {"words": ("time", "batch"), "state": (1, "batch", 5)} and written.nodes < 10
    kinds = [node.op_type for node in onnx.load(written.path).graph.node]
    assert kinds.count("Scan") == 1 and "LSTM" not in kinds
    said = {each.key: each.value for each in onnx.load(written.path).metadata_props}["leanrnn"]
    assert '"widths": {"rnn": [5]}' in said
    found = leanrnn.quantize(written.path)
    assert found.difference < 0.1
    (scan,) = [node for node in onnx.load(found.path).graph.node if node.op_type == "Scan"]
    assert "MatMulInteger" in [node.op_type for node in scan.attribute[0].g.node]
