"""Latency as a function of the widths: fits that are known, corrections, and what a budget makes of them."""

import numpy as np
import pytest
import torch

import leanrnn
from leanrnn.deploy.latency import Latency, fitted
from leanrnn.errors import BudgetError
from leanrnn.groups import Cost
from tests.discovery.test_known_answers import LanguageModel

WORDS = torch.zeros(3, 2, dtype=torch.long)


@pytest.fixture(scope="module")
def language():
    torch.manual_seed(0)
    model = LanguageModel(24)
    return model, leanrnn.discover(model, WORDS)


def test_a_fit_finds_what_made_the_times(language):
    _, groups = language
    rng = np.random.default_rng(0)
    a, b = groups.names
    truth = {(): 0.3, (a,): 2e-4 + 96 * 6 * 1e-6, (b,): 2e-4 + 60_000 * 2e-6}
    truth |= {(a, a): 24e-6, (a, b): 48e-6, (b, b): 48e-6}
    assert groups.costs.mult_adds.terms.keys() == truth.keys() - {()}
    widths = [{a: int(rng.integers(1, 25)), b: int(rng.integers(1, 25))} for _ in range(12)]
    found = fitted(groups.costs.mult_adds, [(each, Cost(truth).at(each)) for each in widths])
    for each in widths:
        assert found.at(each) == pytest.approx(Cost(truth).at(each), rel=1e-6)
    assert min(found.terms.values()) >= 0


class Machine(Latency):
    """A machine whose clock is a formula, and other than what was fitted."""

    def correct(self, model, widths, seconds=0.0):
        assert widths == {"rnn.l0": model.rnn.weight_hh_l0.shape[1], "rnn.l1": model.rnn.weight_hh_l1.shape[1]}
        found = 0.2 + 0.02 * sum(widths.values()) + 0.001 * widths["rnn.l1"] ** 2
        self.timed.append((dict(widths), found))
        self.factor = found / self.cost.at(widths)
        return found


def machine(per=0.01):
    return Machine(Cost({("rnn.l0",): per, ("rnn.l1",): per}), "torch", 1, WORDS, 0.0)


@pytest.mark.parametrize("per", [0.001, 0.05, 1.0])
def test_a_budget_of_milliseconds_is_met_as_measured(language, per):
    model, groups = language
    latency = machine(per)
    full = latency.correct(model, groups.widths)
    small = leanrnn.shrink(model, groups, budget=leanrnn.Budget(milliseconds="50%", latency=latency))
    widths = {f"rnn.l{i}": getattr(small.rnn, f"weight_hh_l{i}").shape[1] for i in (0, 1)}
    assert 0.9 * full / 2 <= latency.correct(small, widths) <= full / 2
    assert latency.timed_at(widths) == latency.timed[-1][1] and latency.timed_at({"rnn.l0": 1, "rnn.l1": 7}) > 0


def test_a_budget_that_cannot_be_met_as_measured_is_refused(language):
    model, groups = language

    class Stubborn(Machine):
        def correct(self, model, widths, seconds=0.0):
            return 0.3

    latency = Stubborn(Cost({("rnn.l0",): 0.01, ("rnn.l1",): 0.01}), "torch", 1, WORDS, 0.0)
    with pytest.raises(BudgetError, match=r"takes 1\.20 times the milliseconds"):
        leanrnn.shrink(model, groups, budget=leanrnn.Budget(milliseconds=0.25, latency=latency))
    with pytest.raises(BudgetError, match=r"0\.01 milliseconds are not possible"):
        leanrnn.shrink(model, groups, budget=leanrnn.Budget(milliseconds=0.01, latency=latency))


def test_latency_of_this_machine(language):
    model, groups = language
    latency = leanrnn.fit_latency(model, groups, samples=6, seconds=0.1)
    assert len(latency.timed) == 6 and latency.timed[0][0] == groups.widths
    assert all(spent > 0 for _, spent in latency.timed) and 0 < latency.error < np.inf
    assert latency.at(groups.widths) >= latency.at(dict.fromkeys(groups.names, 1)) > 0
    found = latency.correct(model, groups.widths, seconds=0.01)
    assert latency.at(groups.widths) == pytest.approx(found)


def test_latency_in_onnxruntime(language):
    model, groups = language
    latency = Latency(groups.costs.mult_adds, "onnxruntime", 1, torch.zeros(7, 3, dtype=torch.long), 0.0)
    assert latency.correct(model, groups.widths, seconds=0.01) > 0


def test_an_unknown_runtime_is_refused(language):
    with pytest.raises(BudgetError, match="not in 'abacus'"):
        leanrnn.fit_latency(*language, runtime="abacus")
