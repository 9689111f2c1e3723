"""Products in effect: a parameter times data number by number, summed over an axis afterwards.

Cells of liquid time constants are written so: ``(w * sigmoid(sigma * (v.unsqueeze(-1) - mu))).sum(1)`` has a weight for
every pair of units, and no matrix product. There ``w`` is a weight that reads ``v``: where it is zero, nothing of ``v``
arrives. ``mu`` and ``sigma`` are not, as the sigmoid of a zero is not zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from leanrnn.discovery.labels import Factor, Value, broadcast
from leanrnn.discovery.rules import Call, Kind
from leanrnn.discovery.rules.base import axes_of
from leanrnn.discovery.rules.pointwise import zero_table
from leanrnn.discovery.tape import Node, Ref, Tape
from leanrnn.discovery.ties import Ties

__all__ = ["Sums", "sums_of"]


@dataclass
class Sums:
    """What :func:`sums_of` found."""

    reads: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """For the position of a sum on the tape: parameters and their axes along which it reads."""
    weights: set[int] = field(default_factory=set)
    """Parameters that are factors of such sums, and are trained."""
    masks: set[int] = field(default_factory=set)
    """Factors that stay as they are while others are trained: a mask of the synapses that there are."""


def sums_of(tape: Tape) -> Sums:
    """Every sum over the axis of a parameter that its numbers were multiplied by."""
    return _Walk(tape).run()


class _Walk:
    """Follows parameters as long as a zero in them makes a zero, by labels of their own: one per axis."""

    def __init__(self, tape: Tape) -> None:
        self.tape, self.found = tape, Sums()
        self.ties, self.axes = Ties(), list[tuple[int, int]]()
        self.laid: dict[int, Value] = {}
        self.alone: set[int] = set()
        for i, source in tape.sources.items():
            if source.kind == "parameter" and tape.floating(i):
                self.laid[i] = Value(tape.shapes[i], tuple(self._factors(i)), False, tape.dtypes[i])
                self.alone.add(i)
        self.frozen = any(map(self._trains, self.laid))
        """Whether a parameter without gradients is so for a reason, and not because the whole model is."""

    def _factors(self, i: int) -> Sequence[Factor]:
        factors = []
        for axis, size in enumerate(self.tape.shapes[i]):
            if size > 1:
                factors.append(Factor.on(axis, self.ties.fresh(size)))
                self.axes += [(i, axis)] * size
        return factors

    def run(self) -> Sums:
        for at, node in enumerate(self.tape.nodes):
            inputs = node.inputs()
            if node.scatter is not None or not any(i in self.laid for i in inputs):
                continue
            if all(i in self.alone for i in inputs):
                self.alone.update(node.outs)
            if Kind.SUM in node.kind:
                self._sum(at, node, inputs[0])
            elif Kind.POINTWISE in node.kind:
                self._meet(node, inputs)
            elif node.kind & (Kind.MOVE | Kind.COPY) and len(inputs) == 1 and len(node.outs) == 1:
                self.laid[node.outs[0]] = node.known.rule(self._call(node))  # type: ignore[union-attr, assignment]
        return self.found

    def _meet(self, node: Node, inputs: Sequence[int]) -> None:
        """What stays of parameters after arithmetic: those that, when zero, make the result zero."""
        out = node.outs[0] if len(node.outs) == 1 else -1
        if out < 0 or not self.tape.floating(out) or node.argument("out") is not None:
            return
        call = self._call(node)
        values = call.tensors()
        table = zero_table(call, values)
        terms = [v for k, v in enumerate(values) if v.factors and table[1 << k]]
        shape = self.tape.shapes[out]
        factors = tuple(f for v in terms for f in broadcast(v, shape).factors)
        if factors:
            self.laid[out] = Value(shape, factors, False, self.tape.dtypes[out])

    def _sum(self, at: int, node: Node, value: int) -> None:
        if value not in self.laid or value in self.alone:
            return
        laid = self.laid[value]
        axes = set(axes_of(laid, node.argument("dim")))
        read = list(dict.fromkeys(self.axes[int(f.labels.max())] for f in laid.factors if f.main & axes))
        trained = [(p, axis) for p, axis in read if not self.frozen or self._trains(p)]
        if trained:
            self.found.reads[at] = trained
        self.found.weights |= {p for p, _ in trained}
        self.found.masks |= {p for p, _ in read} - {p for p, _ in trained}

    def _trains(self, parameter: int) -> bool:
        return bool(getattr(self.tape.sources[parameter].tensor, "requires_grad", True))

    def _call(self, node: Node) -> Call:
        def resolve(ref: Ref) -> Value:
            return self.laid.get(ref.id) or Value(self.tape.shapes[ref.id], (), False, self.tape.dtypes[ref.id])

        return Call(self.ties, node.op, node.arguments(resolve), [self.tape.shapes[o] for o in node.outs])
