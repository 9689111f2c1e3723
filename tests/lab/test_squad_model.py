"""BiDAF: its size, its groups, its masks, and the path that the published list of groups leaves out."""

import copy

import pytest
import torch
from torch import Tensor, nn

import leanrnn
from leanrnn.lab.squad.metric import best_span
from leanrnn.lab.squad.model import BiDAF, Dropout, initialise

SIX = ["modelling1.fwd.l0", "modelling1.bwd.l0", "modelling2.fwd.l0", "modelling2.bwd.l0", "output.fwd.l0",
       "output.bwd.l0"]  # fmt: skip
Inputs = tuple[Tensor, Tensor, Tensor, Tensor]


def bidaf(width: int = 100, seed: int = 1) -> BiDAF:
    model = BiDAF(own=20, fixed=30, characters=40, width=width)
    initialise(model, torch.randn(30, 100), seed)
    return model.eval()


def inputs(batch: int = 2, text: int = 5, question: int = 3) -> Inputs:
    def words(length: int) -> tuple[Tensor, Tensor]:
        return torch.randint(1, 50, (batch, length)), torch.randint(40, (batch, length, 16))

    return *words(text), *words(question)


def padded(given: Inputs, text: int, question: int) -> Inputs:
    """The same with so many places more that are no word."""
    found = []
    for each, more in zip(given, (text, text, question, question), strict=True):
        found.append(torch.cat([each, each.new_zeros(len(each), more, *each.shape[2:])], 1))
    return found[0], found[1], found[2], found[3]


def test_as_many_weights_as_the_paper_s_source_has():
    model = bidaf()
    assert model.weights_without_embeddings == 2_570_703
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == 2_570_703 + 20 * 100 + 40 * 8


def test_groups_are_those_of_the_paper_and_the_path_it_left_out():
    model = bidaf()
    groups = leanrnn.discover(model, inputs(), exclude="contextual.*")
    assert groups.names == SIX and not groups.pinned and all(layer.width == 100 for layer in groups)
    assert [layer.group_size for layer in groups] == [4800, 4800, 4001, 4001, 6401, 6401]
    assert [layer.distinct_size for layer in groups] == [4796, 4796, 3997, 3997, 6397, 6397]
    told = groups.explain("modelling2.fwd.l0")
    for column in (800, 1000, 1200):  # g1, its summary a1i, their product
        assert f"output.fwd.weight_ih_l0 axis 1 index {column}\n" in told
    assert not any(layer.needs_zero_bias for layer in groups)


def test_contextual_and_highway_widths_are_found_too():
    found = leanrnn.discover(bidaf(6), inputs(), scope="all")
    assert {"contextual.fwd.l0", "contextual.bwd.l0", *SIX} < set(found.names) and not found.pinned
    (words, filters) = (layer for layer in found if "highway.1.gate.weight" in layer.readers)
    assert {words.width, filters.width} == {100, 6}
    assert any(strip.tensor == "words.glove" for layer in (words, filters) for strip in layer.strips)


def test_an_answer_does_not_depend_on_what_stands_beside_it():
    model = bidaf(10).double()
    model.words.double()
    alone = [inputs(1, text, question) for text, question in ((9, 4), (3, 1), (1, 6), (9, 6))]
    parts = [padded(each, 9 - each[0].size(1), 6 - each[2].size(1)) for each in alone]
    start, end = model(*(torch.cat(each) for each in zip(*parts, strict=True)))
    for i, each in enumerate(alone):
        length = each[0].size(1)
        for together, single in zip((start, end), model(*each), strict=True):
            torch.testing.assert_close(together[i : i + 1, :length], single, rtol=0, atol=1e-12)
            assert bool((together[i, length:] < -1e29).all())
    more = padded(alone[0], 5, 7)
    torch.testing.assert_close(model(*more)[1][:, :9], model(*alone[0])[1], rtol=0, atol=1e-12)
    assert best_span(*model(*more))[1].item() < 9


def published(model: BiDAF, k: int) -> None:
    """Set to zero what the paper's source lists for component k of the second modelling LSTM, forwards."""
    d = 100
    fwd, output = model.modelling2.fwd, (model.output.fwd, model.output.bwd)
    for weight in (fwd.weight_ih_l0, fwd.weight_hh_l0):
        weight[k::d] = 0
    fwd.weight_hh_l0[:, k] = 0
    model.start.weight[:, k] = 0
    for reader in output:
        reader.weight_ih_l0[:, [8 * d + k, 12 * d + k]] = 0  # g1 and g1 * a1i, but not a1i


@torch.no_grad()
def test_dropping_by_the_published_list_changes_answers_and_ours_does_not():
    model, given = bidaf(), inputs(200, 30, 8)
    for module in model.modules():  # trained biases are not zero, and trained weights larger than the first ones
        if isinstance(module, nn.LSTM):
            module.bias_ih_l0.normal_()
            module.weight_ih_l0.mul_(4)
    groups = leanrnn.discover(model, inputs(), include="modelling2.fwd.l0", exclude="modelling1.*", prove=False)
    layer, gone = groups["modelling2.fwd.l0"], range(0, 100, 2)
    kept = [k for k in range(100) if k not in gone]

    listed, ours = copy.deepcopy(model), copy.deepcopy(model)
    for k in gone:
        published(listed, k)
        for tensor, axis, index in layer.slices(k):
            if "weight" in tensor:
                ours.get_parameter(tensor).select(axis, index).zero_()
    assert all(not listed.modelling2.fwd.weight_hh_l0[k::100].any() for k in gone)
    for zeroed, changes in ((listed, True), (ours, False)):
        small = leanrnn.shrink(zeroed, groups, keep={layer.name: kept}, verify=False)
        before, after = zeroed(*given), small(*given)
        apart = max(float((a - b).abs().max()) for a, b in zip(before, after, strict=True))
        spans = [torch.stack(best_span(*each)[:2]) for each in (before, after)]
        answers = int((spans[0] != spans[1]).any(0).sum())
        print(f"scores change by {apart:.1e}, {answers} of 200 answers are others")
        assert (apart > 0.1 and answers > 20) if changes else (apart < 1e-5 and answers == 0)
    assert leanrnn.shrink(ours, groups, example=inputs()).widths["modelling2.fwd.l0"] == 50


def test_dropout_keeps_as_much_as_it_should():
    drop, x = Dropout(0.3), torch.ones(1001, 77, requires_grad=True)
    y = drop(x)
    assert y.unique().tolist() == pytest.approx([0, 1 / 0.7]) and abs((y == 0).float().mean() - 0.3) < 0.01
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    assert drop(x.detach().bfloat16()).dtype == torch.bfloat16  # 32 bits would be copied twice more on the way
    assert drop.eval()(x) is x and torch.equal(Dropout(0.0)(x), x)


def test_first_weights_are_those_of_the_source():
    model = bidaf(seed=3)
    lstm = model.modelling1.fwd
    bound = (6 / (800 + 100 + 400)) ** 0.5
    assert 0.99 * bound < float(lstm.weight_ih_l0.detach().abs().max()) <= bound
    assert not lstm.bias_ih_l0.any() and lstm.bias_ih_l0.requires_grad and not lstm.bias_hh_l0.requires_grad
    assert lstm.bias_hh_l0.view(4, 100).sum(1).tolist() == [0, 100, 0, 0]  # TensorFlow's constant of the forget gate
    assert 0.9 < float(model.words.own.weight.detach().std()) < 1.1 and not model.words.glove.requires_grad
    assert torch.equal(bidaf(seed=3).start.weight, model.start.weight)
