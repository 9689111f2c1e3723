"""BiDAF as the paper's source builds it: six LSTMs whose widths are learned, with attention before and between them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["CHARACTERS", "FAR", "BiDAF", "BiLSTM", "Dropout", "initialise"]

CHARACTERS = 16
"""Of a word that are looked at."""

FAR = -1e30
"""Score of what is no token: its probability is exactly zero."""


class Dropout(nn.Dropout):
    """``nn.Dropout`` with masks of sixteen random bits a number, which a CPU draws four of at once: with torch's own it
    is a tenth of a training step."""

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        if not self.training or not self.p or x.device.type != "cpu":
            return super().forward(x)
        bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
        stays = bits[: x.numel()].view(x.shape) >= round(self.p * 2**16) - 2**15
        # A plain number would make 32 bits of sixteen, and copies of both for the LSTM behind it.
        return x * (stays * torch.tensor(1 / (1 - self.p), dtype=x.dtype))


class Words(nn.Module):
    """A vector for every word: rows of its own for the first ``own`` numbers, which are learned, and fixed ones behind
    them. 0 is no word, 1 an unknown one."""

    glove: Tensor

    def __init__(self, own: int, fixed: int, width: int) -> None:
        super().__init__()
        self.own = nn.Embedding(own, width)
        self.glove = nn.Parameter(torch.zeros(fixed, width), requires_grad=False)

    def forward(self, words: Tensor) -> Tensor:
        """Vectors of any shape of words."""
        own = self.own.num_embeddings
        learned = self.own(words.clamp(max=own - 1))
        fixed = F.embedding((words - own).clamp(min=0), self.glove)
        return torch.where((words < own).unsqueeze(-1), learned, fixed)


class Characters(nn.Module):
    """A vector for every word, from its first characters: a convolution over them, and its maximum."""

    def __init__(self, characters: int, width: int, filters: int, keep: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, width)
        self.convolution = nn.Conv1d(width, filters, 5)
        self.dropout = Dropout(1 - keep)

    def forward(self, characters: Tensor) -> Tensor:
        """(..., characters of a word) to (..., filters)."""
        x = self.dropout(self.embedding(characters.reshape(-1, CHARACTERS)))
        # The maximum first: ReLU keeps the order, and there is a twelfth to do of it.
        found: Tensor = self.convolution(x.transpose(1, 2)).amax(-1).relu()
        return found.view(*characters.shape[:-1], -1)


class Highway(nn.Module):
    """A layer that can let its input pass."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.transform, self.gate = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        new, gate = (made.to(x.dtype) for made in (self.transform(x).relu(), self.gate(x).sigmoid()))
        return torch.lerp(x, new, gate)


class BiLSTM(nn.Module):
    """Two LSTMs, one from each end of every text, time first; what is behind the end of a text reaches neither. ::

    hidden = BiLSTM(800, 100)(x, turn)  # turn: see turned

    They are modules of their own since both may have any width. Padded texts, sorted by length, run in oneDNN's fused
    kernels, about twice as fast as packed ones, which have none.
    """

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.fwd, self.bwd = nn.LSTM(inputs, width), nn.LSTM(inputs, width)

    def forward(self, x: Tensor, turn: Tensor) -> Tensor:
        """(time, batch, inputs) to (time, batch, width of both together)."""
        there = self.fwd(x)[0]
        back = _turned(self.bwd(_turned(x, turn))[0], turn)
        return torch.cat([there, back], -1)


class Attention(nn.Module):
    """What of the question matters for every token of the text, and what of the text for the question."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.similarity = nn.Linear(3 * width, 1)

    def forward(self, h: Tensor, u: Tensor, text: Tensor, question: Tensor) -> Tensor:
        """``h`` (time, batch, width) and ``u``; ``text`` and ``question`` (batch, time) say what is a token. Nothing of
        the size of text x question x width is ever held."""
        of_h, of_u, of_both = self.similarity.weight.squeeze(0).chunk(3)
        rows, columns = h.transpose(0, 1), u.transpose(0, 1)
        score = (rows * of_both) @ columns.transpose(1, 2)
        score = score + (rows @ of_h).unsqueeze(2) + (columns @ of_u).unsqueeze(1) + self.similarity.bias
        score = score.masked_fill(~question.unsqueeze(1), FAR)
        attended = (score.softmax(-1) @ columns).transpose(0, 1)
        weight = score.amax(-1).masked_fill(~text, FAR).softmax(-1)
        summary = (weight.unsqueeze(1) @ rows).transpose(0, 1)
        return torch.cat([h, attended, h * attended, h * summary], -1)


class BiDAF(nn.Module):
    """Scores of every token of a text to begin and to end the answer to a question. ::

    model = BiDAF(own=1200, fixed=90_000, characters=250)
    start, end = model(text, text_characters, question, question_characters)

    Texts are padded with word 0, which no token is; the scores of an example do not depend on the others beside it.
    """

    def __init__(
        self, own: int, fixed: int, characters: int, width: int = 100, character_width: int = 8, words_width: int = 100,
        keep: float = 0.8, keep_characters: float = 0.8,
    ) -> None:  # fmt: skip
        super().__init__()
        d, both = width, width + words_width
        self.words = Words(own, fixed, words_width)
        self.characters = Characters(characters, character_width, width, keep_characters)
        self.highway = nn.Sequential(Highway(both), Highway(both))
        self.contextual = BiLSTM(both, d)
        self.attention = Attention(2 * d)
        self.modelling1, self.modelling2 = BiLSTM(8 * d, d), BiLSTM(2 * d, d)
        self.start = nn.Linear(10 * d, 1)
        self.output = BiLSTM(14 * d, d)
        self.end = nn.Linear(10 * d, 1)
        self.dropout = Dropout(1 - keep)

    def forward(
        self, context: Tensor, context_characters: Tensor, question: Tensor, question_characters: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Words (batch, tokens) and their characters (batch, tokens, 16), of the text and of the question."""
        text, asked = context != 0, question != 0
        turn = _turn(text)
        h = self.contextual(self._embedded(context, context_characters), turn)
        # As in the source: the question is read with dropout, the text without.
        u = self.contextual(self.dropout(self._embedded(question, question_characters)), _turn(asked))
        p0 = self.attention(h, u, text, asked)
        g0 = self.modelling1(self.dropout(p0), turn)
        g1 = self.modelling2(self.dropout(g0), turn)
        start = self.start(self.dropout(torch.cat([g1, p0], -1))).squeeze(-1).t().masked_fill(~text, FAR)
        # The summary of g1 where the answer is likely to begin: the path that the paper's list of groups leaves out.
        a1i = (start.softmax(-1).unsqueeze(1) @ g1.transpose(0, 1)).transpose(0, 1)
        g2 = self.output(self.dropout(torch.cat([p0, g1, a1i.expand_as(g1), g1 * a1i], -1)), turn)
        end = self.end(self.dropout(torch.cat([g2, p0], -1))).squeeze(-1).t().masked_fill(~text, FAR)
        return start, end

    def _embedded(self, words: Tensor, characters: Tensor) -> Tensor:
        """Time first."""
        words, characters = words.t(), characters.transpose(0, 1)
        found: Tensor = self.highway(torch.cat([self.characters(characters), self.words(words)], -1))
        return found

    def recurrent(self) -> Iterator[tuple[str, nn.LSTM]]:
        """Every LSTM by the name of its width in the groups, the contextual ones first."""
        for name, module in self.named_modules():
            if isinstance(module, nn.LSTM):
                yield f"{name}.l0", module

    @property
    def widths(self) -> dict[str, int]:
        """Units of every LSTM as they are now."""
        return {name: module.get_parameter("weight_hh_l0").size(1) for name, module in self.recurrent()}

    @property
    def weights_without_embeddings(self) -> int:
        """What is trained besides the vectors of words and characters: 2 570 703 at the paper's size."""
        embeddings = (self.words, self.characters.embedding)
        left_out = {p for module in embeddings for p in module.parameters()}
        return sum(p.numel() for p in self.parameters() if p.requires_grad and p not in left_out)


def initialise(model: BiDAF, glove: Tensor | None, seed: int) -> None:
    """First weights as in the source: uniform by fan-in and fan-out (Glorot), vectors of own words normal, biases zero.

    TensorFlow's LSTM has one bias a gate and adds 1 to that of the forget gate when it runs. Here the second bias of
    ``nn.LSTM`` is that constant, and stays as it is.
    """
    generator = torch.Generator().manual_seed(seed)

    def glorot(parameter: Tensor, sizes: int) -> None:
        bound = math.sqrt(6 / sizes)
        nn.init.uniform_(parameter, -bound, bound, generator=generator)

    for module in model.modules():
        if isinstance(module, nn.LSTM):
            inputs, width = module.input_size, module.hidden_size
            for name, parameter in module.named_parameters():
                if name.startswith("weight"):
                    glorot(parameter, inputs + width + 4 * width)
                else:
                    nn.init.zeros_(parameter)
            constant = module.get_parameter("bias_hh_l0").requires_grad_(False)
            constant[width : 2 * width] = 1
        elif isinstance(module, nn.Linear):
            glorot(module.weight, module.in_features + module.out_features)
            nn.init.zeros_(module.bias)
    convolution, characters = model.characters.convolution, model.characters.embedding
    glorot(convolution.weight, 5 * (convolution.in_channels + convolution.out_channels))
    if convolution.bias is not None:
        glorot(convolution.bias, 2 * convolution.out_channels)
    glorot(characters.weight, sum(characters.weight.shape))
    nn.init.normal_(model.words.own.weight, generator=generator)
    if glove is not None:
        model.words.glove.data.copy_(glove)


def _turn(tokens: Tensor) -> Tensor:
    """Where every row of (time x batch) comes from when every text is read backwards; its own inverse."""
    time, batch = tokens.size(1), tokens.size(0)
    step = torch.arange(time, device=tokens.device).unsqueeze(1)
    last = tokens.sum(1) - 1
    return (torch.where(step > last, step, last - step) * batch + torch.arange(batch, device=tokens.device)).flatten()


def _turned(x: Tensor, turn: Tensor) -> Tensor:
    return x.flatten(0, 1).index_select(0, turn).view_as(x)
