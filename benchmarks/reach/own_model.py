"""What docs/your-own-model.md shows of three published models.

make zoo MODELS="pyannote_pyannet fastai_awdlstm espnet_seqrnnlm"   # installs their packages, checks them
.venv-zoo/bin/python -m benchmarks reach own-model speech           # prints what the page shows of one of them
.venv-zoo/bin/python -m benchmarks reach own-model --page           # writes all of it into the page again
"""

from __future__ import annotations

import re
import sysconfig
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO

import torch
from torch import Tensor, nn

import leanrnn
from benchmarks.common import DOCS
from benchmarks.zoo import ZOO
from benchmarks.zoo.packages import libraries

PAGE = DOCS / "your-own-model.md"
COMMAND = "python -m benchmarks reach own-model"


def speech() -> None:
    """pyannote.audio's segmentation model."""
    model, example = ZOO["pyannote_pyannet"].build()
    print(leanrnn.discover(model, example))


def explained() -> None:
    """Why a weight is in a group of it."""
    model, example = ZOO["pyannote_pyannet"].build()
    print(leanrnn.discover(model, example).explain("lstm.l1"))


def pinned() -> None:
    """fastai's language model, which gives its last layer's outputs to a callback of fastai's."""
    model, example = ZOO["fastai_awdlstm"].build()
    print(leanrnn.discover(model, example))


class ScoresOnly(nn.Module):
    """A language model that returns its scores and nothing else."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, words: Tensor) -> Tensor:
        """The first of the results."""
        scores: Tensor = self.model(words)[0]
        return scores


def unpinned() -> None:
    """The same without the further results."""
    model, example = ZOO["fastai_awdlstm"].build()
    print(leanrnn.discover(ScoresOnly(model), example))


def states() -> None:
    """espnet's language model, one word after the other."""
    model, (words, _) = ZOO["espnet_seqrnnlm"].build()
    groups = leanrnn.discover(model, (words, None))
    print(groups)
    small = leanrnn.shrink(model, groups, keep_widths={"rnn.l0": 5, "rnn.l1": 3})
    whole, state = small(words, None)
    print("h and c by layer:", [[tuple(layer.shape) for layer in part] for part in state])
    scores, state = [], None
    for word in words.split(1, dim=1):
        score, state = small(word, state)
        scores.append(score)
    apart = float((torch.cat(scores, 1) - whole).abs().max().detach())
    print(f"word by word, at most {apart:.0e} from all at once")
    wide = tuple(torch.zeros(2, 2, 8) for _ in range(2))  # what a caller makes who knows the old width
    print("states of the old width are taken:", torch.equal(small(words, wide)[0], whole))


TASKS: dict[str, Callable[[], None]] = {
    "speech": speech,
    "explained": explained,
    "pinned": pinned,
    "unpinned": unpinned,
    "states": states,
}


def output(name: str) -> str:
    """What a task prints, without the folder its packages are in."""
    torch.manual_seed(0)
    with redirect_stdout(StringIO()) as printed:
        TASKS[name]()
    return printed.getvalue().replace(sysconfig.get_paths()["purelib"] + "/", "")


def main(parser: ArgumentParser, words: list[str]) -> None:
    """Print one, or write the page."""
    parser.add_argument("name", nargs="?", choices=sorted(TASKS))
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args(words)
    libraries()
    if not options.page:
        print(output(options.name or "speech"), end="")
        return
    block = re.compile(rf"(?<=^\$ {COMMAND} )(\w+)\n.*?(?=^```$)", re.MULTILINE | re.DOTALL)
    PAGE.write_text(block.sub(lambda match: f"{match[1]}\n{output(match[1])}", PAGE.read_text()))
