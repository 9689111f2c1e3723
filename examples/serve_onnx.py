"""Let an exported language model write on, a token at a time. Needs onnxruntime and numpy; no torch, no leanrnn. ::

leanrnn export runs/mine --out small.onnx
python examples/serve_onnx.py small.onnx "this method returns" --count 40 --temperature 0.8 --seed 1
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

UNKNOWN, END = "<unk>", "<eos>"
LIKELIEST = 20
"""Tokens are drawn from these many; the tail of a distribution is long and mostly wrong."""


class Mistake(Exception):
    """Something the user can put right; the message says how."""


@dataclass(frozen=True)
class Model:
    """A language model, ready to run, and what its file says of itself."""

    session: Any
    words: list[str]
    """Tokens by number."""
    kind: str
    """What a token is: word, character, or a word of Penn Treebank, where spaces part all tokens."""

    def tokens(self, text: str) -> list[int]:
        """The numbers of a text; what the model does not know is one token for all."""
        if self.kind == "character":
            parts = list(text)
        elif self.kind == "ptb":
            parts = text.lower().replace("\n", f" {END} ").split()
        else:
            parts = re.findall(r"\w+|[^\w\s]", text.lower())
        numbers = {word: number for number, word in enumerate(self.words)}
        return [numbers.get(part, numbers.get(UNKNOWN, 0)) for part in parts]

    def write(self, prompt: str, count: int, temperature: float = 0.8, seed: int = 0) -> Iterator[str]:
        """Tokens that follow the prompt; temperature 0 takes the likeliest each time."""
        random = np.random.default_rng(seed)
        scores, state = None, self.start()
        for token in self.tokens(prompt):
            scores, state = self.step(token, state)
        if scores is None:
            raise Mistake("there is nothing to go on from. Give some words.")
        for _ in range(count):
            token = self._choose(scores, temperature, random)
            yield self.words[token]
            scores, state = self.step(token, state)

    def start(self) -> list[np.ndarray]:
        """The state before the first token."""
        return [np.zeros((1, 1, each.shape[-1]), np.float32) for each in self.session.get_inputs()[1:]]

    def step(self, token: int, state: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Scores of what may follow a token, and the state to go on with: all that was before is in it."""
        names = [each.name for each in self.session.get_inputs()]
        scores, *after = self.session.run(None, dict(zip(names, [np.array([[token]]), *state], strict=True)))
        return scores[0, 0], after

    def _choose(self, scores: np.ndarray, temperature: float, random: np.random.Generator) -> int:
        if UNKNOWN in self.words:
            scores[self.words.index(UNKNOWN)] = -np.inf  # it stands for a word, but is none
        if temperature == 0:
            return int(scores.argmax())
        best = np.argsort(scores)[::-1][:LIKELIEST]
        chances = np.exp((scores[best] - scores[best[0]]).astype(np.float64) / temperature)
        return int(random.choice(best, p=chances / chances.sum()))


def load(path: Path, threads: int = 1) -> Model:
    """The model in a file that ``leanrnn export RUN`` or ``leanrnn quantize`` has written."""
    if not path.is_file():
        raise Mistake(f"there is no file {path}. Write one with leanrnn export RUN --out {path}.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads  # a token is too little work for more
    options.log_severity_level = 4  # what goes wrong is told below, once
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        about = json.loads(session.get_modelmeta().custom_metadata_map["leanrnn"])["about"]
        config, words = about["config"], about["words"]
    except Exception as error:  # onnxruntime has a type for every kind of damage
        raise Mistake(f"{path} is not a language model that leanrnn has exported. Name one that is.") from error
    if len(session.get_inputs()) == 1:
        raise Mistake(f"{path} takes no state, so it cannot go on from one token. Write it with leanrnn export RUN.")
    return Model(session, words, "ptb" if config["corpus"] == "ptb" else config["tokens"])


def main() -> int:
    """Print the prompt, what the model makes of it, and how fast."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path, help="an exported language model, also one of eight bits")
    parser.add_argument("prompt", help="some words to go on from")
    parser.add_argument("--count", type=int, default=40, help="tokens to write")
    parser.add_argument("--temperature", type=float, default=0.8, help="0 takes the likeliest token each time")
    parser.add_argument("--seed", type=int, default=1, help="another one, another text")
    options = parser.parse_args()
    try:
        if options.temperature < 0 or options.count < 1:
            raise Mistake("temperature has to be 0 or more, and count at least 1. Give others.")
        model = load(options.model)
        print(options.prompt, end="", flush=True)
        began = time.perf_counter()
        for token in model.write(options.prompt, options.count, options.temperature, options.seed):
            print(token if model.kind == "character" else f" {token}", end="", flush=True)
        seconds = time.perf_counter() - began
    except Mistake as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"\n{options.count / seconds:,.0f} tokens a second ({seconds / options.count * 1e3:.2f} ms a token)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
