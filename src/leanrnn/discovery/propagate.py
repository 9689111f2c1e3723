"""Read a tape from front to back and collect what its operators say about labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from leanrnn.discovery.first_step import first_step
from leanrnn.discovery.functions import Opaque
from leanrnn.discovery.labels import Factor, Labels, Value
from leanrnn.discovery.reach import idle_nodes, live_nodes, unread_tiles, weights_of
from leanrnn.discovery.readings import PLAIN, Reading
from leanrnn.discovery.recurrence import Recurrence
from leanrnn.discovery.rules import Call, Kind
from leanrnn.discovery.rules.base import whole, without_rule
from leanrnn.discovery.rules.join import scatter
from leanrnn.discovery.rules.step import tie_pieces
from leanrnn.discovery.sums import sums_of
from leanrnn.discovery.tape import Node, Ref, Source, Tape
from leanrnn.discovery.ties import Ties, harden
from leanrnn.discovery.unify import unify

__all__ = ["Owner", "Propagation", "propagate"]


@dataclass(frozen=True)
class Owner:
    """Labels ``start .. start + size`` are the indices of one axis of a named tensor or input."""

    start: int
    size: int
    kind: str
    name: str
    axis: int
    shape: tuple[int, ...]


@dataclass
class Propagation:
    """The outcome of one pass: ties, who owns which labels, and the values for those who look further."""

    tape: Tape
    ties: Ties
    values: dict[int, Value] = field(default_factory=dict)
    owners: list[Owner] = field(default_factory=list)
    masks: set[int] = field(default_factory=set)
    """Parameters that nobody trains beside those they are multiplied by."""
    states: frozenset[str] = frozenset()
    """Names of inputs that count as zero where a component is, as states that the model returned."""

    sums: frozenset[int] = frozenset()
    """Positions of sums that are products in effect."""

    def __post_init__(self) -> None:
        self.recurrence = Recurrence(self.tape, self.ties, self.values)


class _Reader:
    def __init__(self, tape: Tape, weights: set[int], how: Reading, states: Mapping[int, int]) -> None:
        self.tape, self.weights, self.how, self.states = tape, weights, how, states
        self.result = Propagation(tape, Ties(heads=how.heads))
        self.sums = sums_of(tape)
        self._idle: set[int] = set()
        self._rows: dict[str, Labels] = {}
        self.result.masks, self.result.sums = self.sums.masks, frozenset(self.sums.reads)

    def source(self, i: int, source: Source) -> None:
        shape, ties = self.tape.shapes[i], self.result.ties
        factors: list[Factor] = []
        zero = False
        if source.kind in ("parameter", "buffer") and self.tape.floating(i):
            unzeroed = source.kind == "buffer" or i in self.sums.masks - self.weights
            flag = 0 if unzeroed else 2 if i in self.weights else 1
            for axis, size in enumerate(shape):
                factors.append(Factor.on(axis, self._own(ties.fresh(size), source, axis, shape), flag))
            if source.kind == "parameter":
                self.result.recurrence.made_of[i] = self.result.recurrence.bit(i)
                if factors:
                    self._rows[source.name] = factors[0].labels
        elif self._may_be_state(i, source):
            labels = self._own(ties.fresh(int(np.prod(shape))), source, len(shape) - 1, shape)
            axes = tuple(range(len(shape)))
            zeros = np.full(shape, self.states.get(i, 0), np.int8)
            factors = [Factor(axes, labels.reshape(shape), zeros, frozenset((len(shape) - 1,)))]
            what = f"is an axis of input {source.name}" if source.kind == "input" else "is an axis of a tensor"
            factors += [Factor.on(a, ties.fresh(n, what)) for a, n in enumerate(shape[:-1])]
        elif source.kind == "constant" and source.uniform:
            zero = source.starts_with_zero
        else:
            what = (
                f"is an axis of input {source.name}"
                if source.kind == "input"
                else "is an axis of a tensor that is no parameter"
            )
            factors = [Factor.on(a, ties.fresh(n, what)) for a, n in enumerate(shape)]
        dtype = source.tensor.dtype if source.tensor is not None else None
        self.result.values[i] = Value(shape, tuple(factors), zero, dtype, source.positions)

    def _may_be_state(self, i: int, source: Source) -> bool:
        """Whether a tensor that is no weight may lose indices of its last axis: any input but the first, with a batch
        axis before, and whatever else the model holds on to."""
        if not self.tape.floating(i):
            return False
        return source.kind == "held" or (source.kind == "input" and source.name != "0" and len(self.tape.shapes[i]) > 1)

    def _own(self, labels: Labels, source: Source, axis: int, shape: tuple[int, ...]) -> Labels:
        start = int(labels[0]) if labels.size else self.result.ties.count
        self.result.owners.append(Owner(start, labels.size, source.kind, source.name, axis, shape))
        return labels

    def node(self, index: int, node: Node) -> None:
        self.result.ties.here = index
        self.result.ties.reads.clear()
        values = self.result.values
        known = node.known
        call = self._call(node, known is not None and known.soft)
        if node.scatter is not None:
            part = values[node.args[1].id]
            outs: Sequence[Value | None] = [scatter(call, harden(self.result.ties, part), node.scatter)]
        elif known is None:
            outs = _hidden(call) if isinstance(node.op, Opaque) else without_rule(call)
        else:
            outs_or_one = known.rule(call)
            outs = [outs_or_one] if isinstance(outs_or_one, Value) else list(outs_or_one)
        for i, out in zip(node.outs, outs, strict=False):
            if i >= 0 and out is not None:
                # Rules keep what they do not change; of positions, only a copy has all, in their order.
                numbers = values[node.inputs()[-1]].numbers if Kind.COPY in node.kind else None
                same = numbers is not None and numbers.shape == self.tape.shapes[i]
                values[i] = replace(
                    out, shape=self.tape.shapes[i], dtype=self.tape.dtypes[i], numbers=numbers if same else None
                )
                if self.how.constants and not out.factors:
                    values[i] = self._labelled(values[i], node.inputs())
        for parameter, axis in self.sums.reads.get(index, ()):
            for factor in values[parameter].on(axis):
                self.result.ties.readers.append(factor.labels.reshape(-1))
                self.result.ties.reads.append(factor.labels.reshape(-1))
        self.result.recurrence.note(node, call)
        self._first_step(node, call)

    def _first_step(self, node: Node, call: Call) -> None:
        """What belongs together in a recurrent layer although its first step does not show it."""
        own = first_step(node, call, self.result.recurrence.parameters, self._rows)
        if own is not None:
            columns, makers, rows = own
            self.result.ties.tie(columns, makers)
            self.result.recurrence.named += [columns, rows]

    def idle(self, index: int, node: Node) -> None:
        """A node that counts for nothing but its cost."""
        ties, recurrence = self.result.ties, self.result.recurrence
        said = [*ties.said(), recurrence.sure, recurrence.named, recurrence.meetings]
        before = [len(each) for each in said]
        self.node(index, node)
        for each, length in zip(said, before, strict=True):
            del each[length:]
        self._idle.update(node.outs)

    def forget_idle(self) -> None:
        """Leave no values of such nodes to those who look further."""
        for value in self._idle:
            self.result.values.pop(value, None)

    def _labelled(self, constant: Value, like: Sequence[int]) -> Value:
        fresh = self.result.ties.fresh
        flag = 2 if constant.zero else 0
        factors = [Factor.on(a, fresh(n), flag) for a, n in enumerate(constant.shape)] if not like else []
        if len(like) == 1 and self.result.values[like[0]].shape == constant.shape:
            models = self.result.values[like[0]].factors
            factors = [replace(f, zero=np.full_like(f.zero, flag)) for f in models]
        return replace(constant, factors=tuple(factors))

    def _call(self, node: Node, soft: bool) -> Call:
        weights: set[int] = set()

        def resolve(ref: Ref) -> Value:
            value = self.result.values[ref.id] if soft else harden(self.result.ties, self.result.values[ref.id])
            if ref.id in self.result.recurrence.made_of:
                weights.add(id(value))
            return value

        shapes = [self.tape.shapes[o] for o in node.outs if o >= 0] or [()]
        call = Call(self.result.ties, node.op, node.arguments(resolve), shapes)
        if any(o < 0 for o in node.outs):
            call.shapes = self._all_shapes(node, call)
        call.weights, call.fused = weights, node.fused
        return call

    def _all_shapes(self, node: Node, call: Call) -> list[tuple[int, ...]]:
        """A replayed multi-output view knows the shape of one result only; run it on an empty tensor for the others."""
        base = torch.empty(call["self"].shape, device="meta")
        arguments = [call[a.name] if a.name != "self" else base for a in node.op._schema.arguments]
        return [tuple(t.shape) for t in node.op(*arguments)]


def _hidden(call: Call) -> list[Value]:
    return whole(call, f"meets {call.op.words}", f"comes out of {call.op.words}")


def propagate(tape: Tape, how: Reading = PLAIN, states: Mapping[int, int] | None = None) -> Propagation:
    """All ties of the operators that lead to an output; ``states`` says of inputs how surely they are zero where a
    component is (the zero flags of ``labels``)."""
    reader = _Reader(tape, weights_of(tape), how, states or {})
    reader.result.states = frozenset(tape.sources[i].name for i in states or ())
    for i, source in tape.sources.items():
        reader.source(i, source)
    live = live_nodes(tape)
    idle = idle_nodes(tape, live)
    for index, node in enumerate(tape.nodes):
        if live[index] or how.everything:
            reader.node(index, node)
        elif idle[index]:
            reader.idle(index, node)
    reader.forget_idle()
    for base, dim, count in unread_tiles(tape, live):
        if base in reader.result.values:
            tie_pieces(reader.result.ties, reader.result.values[base], dim, count)
    _tie_written(reader.result)
    return reader.result


def _tie_written(found: Propagation) -> None:
    """A buffer that is written in place, such as the vectors of a spectral norm, is as wide as what it takes."""
    found.ties.here = -1
    for before, after in found.tape.written:
        if before in found.values and after in found.values and found.tape.shapes[before] == found.tape.shapes[after]:
            pair = [harden(found.ties, found.values[i]) for i in (before, after)]
            unify(found.ties, pair, found.tape.shapes[after], lambda flags: flags[0])
