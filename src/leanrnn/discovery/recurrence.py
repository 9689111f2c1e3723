"""Which widths are recurrent: follow, while a tape is read, what depends on what.

A width is recurrent when a weight reads along it something that came from the same reading one step earlier. Cells
without a recurrent matrix (SRU, QRNN) show it another way: one step of a sequence meets what was made of another step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from leanrnn.discovery.labels import Labels, Value
from leanrnn.discovery.rules import Call, Kind
from leanrnn.discovery.tape import Node, Ref, Tape
from leanrnn.discovery.ties import Ties

__all__ = ["Recurrence"]

# Two signs are looked for, since a loop in Python is not on the tape, only its steps.
# 1. h = tanh(x + h @ W): W reads along h. What comes out depends on this reading, and W reads it again a step later.
#    In an MLP no weight reads what it made itself.
# 2. c = f * c + x[t]: no weight reads c. But what was made of x[0] meets x[1]: two steps of one sequence. A difference
#    of two steps does that too, so a meeting only counts if the older was made of the same class (see classes.py).
_ENOUGH = 4
"""Meetings of one width that are noted: the first steps of a loop show what all of them do."""


@dataclass
class Recurrence:
    """What the operators read so far say; sets of things a value depends on are bits of an integer."""

    tape: Tape
    ties: Ties
    values: dict[int, Value]
    sure: list[Labels] = field(default_factory=list)
    """Labels along which a weight reads what came from itself."""
    named: list[Labels] = field(default_factory=list)
    """Labels of the weight with which a recurrent layer reads its first state, whether or not it takes another step."""
    meetings: list[tuple[Labels, int]] = field(default_factory=list)
    """Labels of a result in which two steps met, and the labels the older step was made of."""
    made_of: dict[int, int] = field(default_factory=dict)
    """Values made of parameters alone, and of which."""
    _computed: set[int] = field(default_factory=set)
    """Those of them that arithmetic made, such as a vector times a learned initial state: more than a bias."""
    _used: dict[int, int] = field(default_factory=dict)
    _steps: dict[int, int] = field(default_factory=dict)
    _before: dict[int, int] = field(default_factory=dict)
    _bits: dict[Any, int] = field(default_factory=dict)
    _slices: dict[tuple[int, int], int] = field(default_factory=dict)
    _met: dict[int, int] = field(default_factory=dict)

    def bit(self, key: Any) -> int:
        """The bit that stands for ``key``."""
        return self._bits.setdefault(key, 1 << len(self._bits))

    def labels(self, bits: int) -> list[int]:
        """The labels among the things ``bits`` stands for."""
        return [
            key[1] for key, bit in self._bits.items() if bit & bits and isinstance(key, tuple) and key[0] == "label"
        ]

    def parameters(self, value: int) -> list[str]:
        """Names of the parameters a value is made of, if of nothing else."""
        bits = self.made_of.get(value, 0)
        return [self.tape.sources[key].name for key, bit in self._bits.items() if bit & bits and isinstance(key, int)]

    def note(self, node: Node, call: Call) -> None:
        """Take one operator into account."""
        inputs = node.inputs()
        data = [i for i in inputs if i not in self.made_of]
        # w.t(), or a mask times w, has met no data: it is a weight still. Taken for data, it would be a step that meets
        # another whenever it is used.
        if inputs and not data and any(self.tape.floating(i) for i in inputs):
            bits = 0
            for i in inputs:
                bits |= self.made_of[i]
            self.made_of.update({o: bits for o in node.outs})
            # A state that is learned makes the first step one of parameters alone, and that reading counts too.
            first = self._product(0) if Kind.PRODUCT in node.kind else 0
            self._used.update({o: first | self._used_by(inputs) for o in node.outs})
            # A bias or a transposed weight alone is no partner for a meeting; a first state of two parameters is.
            if len(inputs) > 1 or self._computed.intersection(inputs):
                self._computed.update(node.outs)
            return
        used = self._used_by(inputs)
        steps = before = 0
        for i in data:
            steps |= self._steps.get(i, 0)
            before |= self._before.get(i, 0)
        if Kind.PRODUCT in node.kind or self.ties.reads:
            used |= self._product(used)
            before |= self._labels_of(data)
        elif not node.kind & (Kind.MOVE | Kind.JOIN) and len(data) + len(self._computed.intersection(inputs)) > 1:
            self._meeting(node, data)
            before |= self._labels_of(data)
        if Kind.SCAN in node.kind:
            for value in call.tensors():
                self.sure += [f.labels.reshape(-1) for f in value.factors if self.ties.loose(f.labels)]
        for k, o in enumerate(node.outs):
            step = self._step(node, call, k) if node.scatter is None else 0
            if o >= 0 and self.tape.floating(o):  # a choice by number, such as argmax, starts anew
                self._used[o], self._before[o], self._steps[o] = used, before, steps | step

    def _used_by(self, inputs: Sequence[int]) -> int:
        used = 0
        for i in inputs:
            used |= self._used.get(i, 0)
        return used

    def _step(self, node: Node, call: Call, k: int) -> int:
        if Kind.STEP not in node.kind or not isinstance(node.args[0], Ref):
            return 0
        value = call["self"]
        dim = value.axis(int(call.get("dim", 0) or 0))
        # A piece of an axis that can shrink is a gate, not a step of time.
        if any(self.ties.loose(f.labels) for f in value.on(dim)):
            return 0
        # A place that data choose may be another one every time.
        chosen = len(call.tensors()) > 1
        where = (len(self._bits),) if chosen else (k, call.get("index"), call.get("start"))
        bit = self.bit(("slice", node.args[0].id, dim, where))
        self._slices[node.args[0].id, dim] = self._slices.get((node.args[0].id, dim), 0) | bit
        return bit

    def _product(self, used: int) -> int:
        """Note each weight that reads along an axis; if what it reads came from the same reading, that width is
        recurrent."""
        new = 0
        for labels in self.ties.reads:
            # The highest label stands for the whole axis: labels of one axis travel together.
            bit = self.bit(("product", int(labels.max())))
            new |= bit
            if used & bit:
                self.sure.append(labels)
        return new

    def _labels_of(self, data: Sequence[int]) -> int:
        bits = 0
        for i in data:
            for factor in self.values[i].factors:
                if self.ties.loose(factor.labels):
                    bits |= self.bit(("label", int(factor.labels.max())))
        return bits

    def _meeting(self, node: Node, data: Sequence[int]) -> None:
        """Where one step of a sequence meets what was made of another step, the labels of the result may be
        recurrent."""
        results = [
            f.labels for o in node.outs if o in self.values for f in self.values[o].factors if self.ties.loose(f.labels)
        ]
        new = [labels for labels in results if self._met.get(int(labels.max()), 0) < _ENOUGH]
        for i, j in ((i, j) for i in data for j in data if i != j):
            a, b = self._steps.get(i, 0), self._steps.get(j, 0)
            # Both come from one axis g of one tensor, and from different places in it.
            if new and a and b and a != b and any(a & g and b & g and a & g != b & g for g in self._slices.values()):
                for labels in new:
                    self._met[int(labels.max())] = self._met.get(int(labels.max()), 0) + 1
                    self.meetings.append((labels.reshape(-1), self._before.get(i, 0) | self._before.get(j, 0)))
                return
