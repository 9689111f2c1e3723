"""Words that a language model goes on with."""

from __future__ import annotations

import torch

from leanrnn.lab.language.model import LanguageModel
from leanrnn.lab.language.text import UNKNOWN

__all__ = ["generate"]


@torch.no_grad()
def generate(
    model: LanguageModel, words: list[str], prompt: list[str], count: int = 20, seed: int = 0, temperature: float = 0.8
) -> list[str]:
    """``count`` words that follow the prompt, drawn by chance from the likeliest; never the word for unknown ones. ::

    generate(model, leanrnn.about(path)["words"], ["the", "list", "of"])

    At temperature 0 the likeliest word follows each time.
    """
    numbers, generator = {word: i for i, word in enumerate(words)}, torch.Generator().manual_seed(seed)
    training, state, found = model.training, None, list[str]()
    model.eval()
    given = torch.tensor([[numbers.get(word, numbers.get(UNKNOWN, 0))] for word in prompt])
    for _ in range(count):
        scores, state = model(given, state)
        last = scores[-1, 0].clone()
        if UNKNOWN in numbers:
            last[numbers[UNKNOWN]] = -torch.inf
        likeliest = last.topk(min(20, len(words)) if temperature else 1)
        drawn = torch.multinomial((likeliest.values / (temperature or 1)).softmax(0), 1, generator=generator)
        given = likeliest.indices[drawn][None]
        found.append(words[int(given)])
    model.train(training)
    return found
