"""All commands by what one wants, each with its line in ``leanrnn --help`` and examples for its own help."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import getdoc
from textwrap import fill
from typing import Any

from leanrnn import __version__
from leanrnn.cli.answer import Ask
from leanrnn.cli.demo import Demo
from leanrnn.cli.discover import Discover
from leanrnn.cli.listing import Env, Ls
from leanrnn.cli.measure import Measure
from leanrnn.cli.models import Export, Quantize
from leanrnn.cli.report import Report
from leanrnn.cli.shrink import Shrink
from leanrnn.cli.sweep import Sweeps
from leanrnn.cli.train import Train
from leanrnn.errors import ConfigError

__all__ = ["GROUPS", "Command", "command", "overview"]


@dataclass(frozen=True)
class Command:
    """A command: its class, one line about it, and what may stand behind its name."""

    kind: Any
    line: str
    examples: tuple[str, ...]

    def about(self, name: str) -> str:
        """The text over its options."""
        # Tyro joins lines that begin with a letter, so all are indented.
        parts = (
            fill(part, 80, initial_indent=" ", subsequent_indent=" ", break_on_hyphens=False)
            for part in _paragraphs(self.kind)
        )
        examples = "\n".join(f"   leanrnn {name} {example}".rstrip() for example in self.examples)
        return "\n\n".join([*parts, f"Examples:\n{examples}"])


GROUPS: Mapping[str, Mapping[str, Command]] = {
    "See what it does": {
        "demo": Command(
            Demo, "train a small language model dense and lean, and compare (6 minutes)",
            ("", "--out my-demo --threads 2"),
        ),
        "ls": Command(Ls, "list the recipes to train, with their results", ("", "--json")),
    },
    "Look at a model of your own": {
        "discover": Command(
            Discover, "print which widths can shrink, and which cannot and why",
            ("my.py:tagger", 'my.py:Tagger --example "35,1:int64"', "my.py:tagger --explain lstm.l0"),
        ),
    },
    "Train": {
        "train": Command(
            Train, "train a recipe; the same command resumes a run",
            ("text --data book.txt", "text --data book.txt --epochs 5 --out runs/mine",
             "ptb-lstm-small-lean --data ptb"),
        ),
        "sweep": Command(
            Sweeps, "try settings of a recipe or of a function, under several budgets",
            ("text --data book.txt --trials 10 --budgets mult_adds=25%",
             'my.py:train --search rate=1e-4..1e-2:log "width=64|128"',
             "ptb-lstm-small --data ptb --storage postgresql://host/db"),
        ),
        "report": Command(
            Report, "write one page about one or several runs",
            ("runs/text", "runs/dense runs/lean --out compared.html --markdown"),
        ),
    },
    "Use a trained model": {
        "shrink": Command(
            Shrink, "cut hidden units out of a model; train one of your own to a budget",
            ("runs/text --out small.safetensors", "runs/text --out small.safetensors --budget mult_adds=25%",
             "my:net --data my:data --budget weights=50% --out x.safetensors"),
        ),
        "export": Command(
            Export, "write a model as ONNX, as a program of torch, or as C",
            ("runs/text --out small.onnx", "tagger.safetensors --factory my.py:tagger --out tagger.onnx",
             "runs/text --out small.c"),
        ),
        "quantize": Command(
            Quantize, "write an exported file with weights of eight bits",
            ("small.onnx", "small.onnx --out tiny.onnx --data book.txt"),
        ),
        "measure": Command(
            Measure, "show weights, mult-adds, latency and memory of one or two models",
            ("runs/text", "small.onnx --against dense.onnx --threads 1", "tagger.safetensors --factory my.py:tagger"),
        ),
        "answer": Command(
            Ask, "answer a question about a text, with a model trained on SQuAD",
            ('runs/squad-bidaf --context page.txt --question "Who wrote it?"',),
        ),
    },
    "Report a bug": {"env": Command(Env, "print versions, threads and the processor", ("", "--json"))},
}  # fmt: skip


def command(name: str) -> Command:
    """The command of a name; an error that suggests one if there is none. ::

    command("train").kind
    """
    every = {name: each for group in GROUPS.values() for name, each in group.items()}
    if name not in every:
        near = difflib.get_close_matches(name, every, 1)
        hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(every)}."
        raise ConfigError(f"there is no command {name!r}. {hint}")
    return every[name]


def _paragraphs(kind: Any) -> list[str]:
    return (getdoc(kind) or "").split("\n\n")


def overview() -> str:
    """What ``leanrnn --help`` prints: no wider than 80 columns, and one screen long."""
    lines = [
        "usage: leanrnn COMMAND [OPTIONS]",
        "",
        "Find the hidden units that a recurrent model does not need, and remove them.",
    ]
    for title, commands in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {name:<10}{each.line}" for name, each in commands.items())]
    return "\n".join(
        [
            *lines,
            "",
            "  leanrnn COMMAND --help         explain a command, with examples",
            "  leanrnn COMMAND --traceback    show where an error came from",
            f"  leanrnn --version              print the version ({__version__})",
        ]
    )
