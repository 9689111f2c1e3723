"""Every rule against the truth found by running the operator, and the list of operators that have none."""

import pytest
import torch

from tests.support.brute import kinds_of, wrong
from tests.support.careful import careful, justified
from tests.support.rule_cases import CASES
from tests.support.samples import operators, samples
from tests.support.trial import Case
from tools.operators import LIST, listing

SHARDS = 4


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "_"))
def test_what_a_rule_says_is_so(case):
    assert [text for kinds in kinds_of(case) for text in wrong(case, kinds)] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "_"))
def test_a_rule_holds_no_more_than_it_has_to(case):
    assert [text for text in careful(case) if justified(text) is None] == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch warns of its own operators
@pytest.mark.parametrize("shard", range(SHARDS))
def test_torchs_own_samples(shard):
    """A sample of every operator that torch has samples of; ``python -m tools.samples`` takes many."""
    found = []
    for info in operators()[shard::SHARDS]:
        torch.manual_seed(0)
        for case in samples(info, 1):
            found += [text for kinds in list(kinds_of(case))[:3] for text in wrong(case, kinds, most=4)]
    assert found == []


def test_a_rule_that_claims_too_much_is_found(monkeypatch):
    """A test of the test: softmax taken for an element-wise operator, a sum for one of zeros."""
    from leanrnn.discovery.rules import base

    case = Case("softmax", lambda x: x.softmax(-1), (torch.randn(2, 3, dtype=torch.float64),))
    assert wrong(case, "0") == []
    monkeypatch.setitem(base._RULES, "aten._softmax", base._RULES["aten.clone"])
    texts = wrong(case, "0") + wrong(case, "2")
    assert any("differs" in t for t in texts) and any("changed where it stays" in t for t in texts)
    assert any("zero, result 0 is not" in t for t in texts)


def test_list_of_operators_without_a_rule_is_up_to_date():
    text = LIST.read_text(encoding="utf-8")
    if not text.startswith(f"# torch {torch.__version__.partition('+')[0]}:"):
        pytest.skip("the list was made with another version of torch")
    assert text == listing(), "run: python -m tools.operators --write"
