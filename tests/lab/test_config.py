"""Settings: every name and value is checked, and files say which one is wrong."""

import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leanrnn.cli.main import main
from leanrnn.cost import mult_adds
from leanrnn.errors import ConfigError
from leanrnn.lab import RECIPES, Config, named
from leanrnn.lab.language.model import LanguageModel, costs
from leanrnn.lab.settings import changed, from_toml


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_survive_json(name):
    config = RECIPES[name].config
    assert type(config).from_json(config.to_json()) == config
    assert RECIPES[name].start is None or RECIPES[name].start in RECIPES


@pytest.mark.parametrize("name", ["text", "squad-bidaf"])
def test_every_setting_is_explained(name, capsys):
    """Those that all tasks have too, with the default of the recipe."""
    with pytest.raises(SystemExit):
        main(["train", name, "--help"])
    words = " ".join(re.sub("[│╭╮╰╯─]", " ", capsys.readouterr().out).split()).partition("reading options")[2]
    config = RECIPES[name].config
    for field in fields(config):
        # An option, what it takes, a sentence about it.
        told = re.search(rf"--(?:no-)?{field.name.replace('_', '-')} (.*?)(?:\(default|$)", words)
        assert told and len(re.sub(r"\{.*?\}|\[.*?\]|INT|FLOAT", "", told[1]).strip()) > 0, field.name
    assert f"over which the strength rises from zero. (default: {config.ramp})" in words


def test_rates_of_the_paper():
    small, sparse = named("ptb-lstm-small").config, named("ptb-lstm-large-iss").config
    assert [small.rate_at(i) for i in range(7)] == [1, 1, 1, 1, 0.5, 0.25, 0.125]
    # epochs 1-18 at 1, 19-36 at 0.1, 37-54 at 0.01, the last at 0.001
    rates = [sparse.rate_at(i) for i in (0, 17, 18, 35, 36, 53, 54)]
    assert rates == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01, 0.001])
    large = named("ptb-lstm-large").config
    assert large.rate_at(13) == 1 and large.rate_at(15) == pytest.approx(1 / 1.15**2)


@given(
    schedule=st.sampled_from(["decay", "thirds", "line"]),
    epochs=st.integers(1, 60),
    constant=st.integers(0, 60),
    decay=st.floats(0.1, 1),
)
def test_rates_never_rise_and_stay_positive(schedule, epochs, constant, decay):
    config = Config(schedule=schedule, epochs=epochs, constant=constant, decay=decay)
    rates = [config.rate_at(i) for i in range(epochs)]
    assert rates == sorted(rates, reverse=True) and 0 < rates[-1] <= rates[0] <= config.rate
    if schedule != "thirds":
        assert rates[:constant] == [config.rate] * min(constant, epochs)


def test_a_line_ends_above_zero():
    config = Config(epochs=10, constant=4, schedule="line")
    rates = [config.rate_at(i) for i in range(10)]
    assert rates[:4] == [1] * 4 and rates == sorted(rates, reverse=True) and 0 < rates[-1] < 0.2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("strenght = 1e-3", "there is no setting 'strenght'. Did you mean 'strength'?"),
        ("zzz = 1", "there is no setting 'zzz'. There are afterwards, average, batch"),
        ("widths = 200", "widths is 200. Give a list of whole numbers."),
        ("widths = [0, 3]", "widths are (0, 3)"),
        ("keep_widths = [0, 3]", "keep_widths are (0, 3)"),
        ("keep = 0", "keep is 0.0. Give a probability above 0"),
        ("average = 1.0", "average is 1.0. Give a part below 1; 0 is no average."),
        ("keep = 'high'", "keep is 'high'. Give a number."),
        ("epochs = 2.5", "epochs is 2.5. Give a whole number."),
        ("follow = 1", "follow is 1. Give true or false."),
        ("schedule = 'cosine'", "schedule is 'cosine'. Choose decay or thirds or line."),
        ("strength = -1.0", "strength is -1.0. Give 0 or a positive number."),
        ("rate = nan", "rate is nan. Give a positive number."),
        ("held_out = 0.6", "held_out is 0.6"),
        ("epochs = ", "is not TOML"),
    ],
)
def test_mistakes_in_a_file_are_told(tmp_path: Path, text, message):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        from_toml(Config(), path)
    assert message in str(error.value)


def test_a_file_changes_what_it_names(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("strength = 1\nwidths = [30, 20, 10]\nfollow = true\n")
    assert from_toml(Config(), path) == replace(Config(), strength=1.0, widths=(30, 20, 10), follow=True)
    with pytest.raises(ConfigError, match=r"there is no file .*other.toml"):
        from_toml(Config(), tmp_path / "other.toml")


def test_unknown_recipes_are_told_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean ptb-lstm-medium-iss"):
        named("ptb-lstm-medum-iss")
    with pytest.raises(ConfigError, match="leanrnn ls lists them"):
        named("xyz")


def test_changed_says_where():
    with pytest.raises(ConfigError, match=r"^here: there is no setting"):
        changed(Config(), {"nothing": 1}, "here")


def test_what_a_component_costs():
    """The mult-adds that go when one component goes, twice those of its own crossing."""
    config, words = Config(embedding=7, widths=(6, 5)), 30
    example = torch.zeros(3, 2, dtype=torch.long)
    whole = mult_adds(LanguageModel(words, 7, (6, 5)).eval(), example)
    for name, sizes in {"embedding": (6, 6, 5), "layers.0.l0": (7, 5, 5), "layers.1.l0": (7, 6, 4)}.items():
        less = mult_adds(LanguageModel(words, sizes[0], sizes[1:]).eval(), example)
        crossing = 0 if name == "embedding" else 4  # of its recurrent row and column, which go once
        assert costs(config, words)[name] == (whole - less) // example.numel() + crossing
