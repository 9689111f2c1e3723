"""The list of all programs: what each answers, and how long it runs. ``python -m benchmarks`` prints it, and
benchmarks/README.md has it as a table."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

README = Path(__file__).parent / "README.md"


class Program(NamedTuple):
    """What a command runs: its words, the module with its ``main``, the question it answers, how long it takes."""

    words: str
    module: str
    answers: str
    takes: str

    @property
    def command(self) -> str:
        """As a reader types it."""
        return f"python -m benchmarks {self.words}"


PROGRAMS = tuple(
    Program(words, f"benchmarks.{module}", answers, takes)
    for words, module, answers, takes in (
        ("ptb train", "ptb.train", "Penn Treebank: how good and how small are the paper's models and ours?",
         "hours for a run"),
        ("ptb time", "ptb.time", "What part of the dense model's training time did each of these runs take?",
         "half an hour"),
        ("ptb latency", "ptb.latency", "How long do 300 words take in onnxruntime, at the widths of each run?",
         "minutes"),
        ("ptb deploy", "ptb.deploy", "What are the runs worth exported, in eight bits, in every runtime?",
         "minutes"),
        ("ptb forecast", "ptb.forecast", "How long would a size train that nobody waits for here?", "minutes"),
        ("squad train", "squad.train", "Question answering: how good and how small are the paper's BiDAF and ours?",
         "an hour for 3000 steps of a run"),
        ("squad latency", "squad.latency", "How long does one question take, and how much of it is in LSTMs?",
         "a minute for a run"),
        ("squad deploy", "squad.deploy", "What are these runs worth as files, in eight bits too?",
         "minutes for a run"),
        ("squad lists", "squad.lists", "What does the published list of BiDAF's groups leave out?", "minutes"),
        ("published speech", "published.speech", "Fetches recorded speech for the program below.", "minutes"),
        ("published train", "published.train", "How well does a published model with its real weights shrink?",
         "an hour"),
        ("pays", "pays.page", "Which way to a smaller model is best at equal cost? The scoreboard, from its runs.",
         "seconds"),
        ("pays run", "pays.run", "Does the runs of the scoreboard that are missing.",
         "minutes for a run, days for all"),
        ("pays trials", "pays.trials", "What if the course to a budget were another one?", "minutes for a run"),
        ("classify", "classify.run", "Which way to a smaller classifier of messages is best at equal cost?",
         "an hour, after a package of 8 MB"),
        ("front weights", "front.weights", "Draws what a cut leaves of the weights, for the README.", "seconds"),
        ("front", "front.results", "The table of results in the README, from what the others measured.", "seconds"),
        ("reach", "reach.models", "What can be cut out of models that other people published?",
         "minutes, after some 4 GB of packages"),
        ("reach setup", "zoo.setup", "Installs the packages of these models.", "minutes"),
        ("reach own-model", "reach.own_model", "What docs/your-own-model.md shows of three of them.", "seconds"),
        ("frameworks", "frameworks.prove", "In which frameworks does a killed training go on to the same bits?",
         "a minute for each, in its own environment"),
        ("peers", "peers.compare", "Which tool that removes hidden units gives back the same function?", "minutes"),
        ("cost step", "cost.step", "What does the sparsifier add to a training step?", "minutes"),
        ("cost discover", "cost.discover", "What do discover and shrink cost, and how does it grow?", "minutes"),
        ("speed paper", "speed.paper", "How much faster are the paper's models at the widths it found?",
         "ten minutes"),
        ("speed fig1", "speed.fig1", "What are zeros worth that lie anywhere, and what removed rows and columns?",
         "two minutes"),
        ("speed bits", "speed.bits", "Which way to have a GRU in eight bits changes least, and what does each take?",
         "ten minutes"),
        ("speed scaling", "speed.scaling", "What does a second process give in training, and what would eight give?",
         "three minutes"),
        ("speed c", "speed.c", "How long does a frame take in a file of C, and how long in onnxruntime?", "a minute"),
        ("speed highway", "speed.highway", "How long do the steps of a recurrent highway layer take?",
         "minutes, more with --compile"),
        ("speed recurrent", "speed.recurrent", "How much faster do LSTM, GRU and RNN train with our steps?", "minutes"),
    )
)  # fmt: skip


def find(words: Sequence[str]) -> tuple[Program, list[str]] | None:
    """The program that these words start with, and the words that are left for it; ``reach own-model`` is one of its
    own, ``reach all`` is ``reach``. ::

    find(["ptb", "time", "small"])  # its module is benchmarks.ptb.time; left is ["small"]
    """
    for length in (2, 1):
        for program in PROGRAMS:
            if program.words.split() == list(words[:length]):
                return program, list(words[length:])
    return None


def listing(first: str = "") -> str:
    """The programs as text for a terminal; only those of the first word, if one is given."""
    lines = []
    for program in PROGRAMS:
        if first in ("", program.words.partition(" ")[0]):
            text = textwrap.wrap(f"{program.answers} ({program.takes})", 90)
            lines += [f"  {program.words:<18}{text[0]}", *(f"  {'':<18}{line}" for line in text[1:])]
    return "\n".join(lines)


def rows() -> list[list[str]]:
    """The programs as rows of a table in Markdown."""
    return [[f"`{program.command}`", program.answers, program.takes] for program in PROGRAMS]
