"""The steps of a loop in a traced graph, one by one, and whether they do the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from torch import fx
from torch.utils import _pytree as pytree

__all__ = ["Loop", "NoLoop"]

Taken: TypeAlias = dict[tuple[fx.Node, int], dict[int, fx.Node]]
"""Sequences and axes that are taken apart, with the node of every step."""
Place: TypeAlias = tuple[str, Any]
"""What an argument is: ("now", position in the step), ("before", the same in the step before), ("slice", which
sequence), ("fixed", a node or a number that is the same in all steps)."""


class NoLoop(Exception):
    """The graph has no loop, or none that is understood."""


class Loop:
    """Where the steps of a loop are in a graph, checked to be alike."""

    def __init__(self, graph: fx.Graph, nodes: set[fx.Node], taken: Taken, count: int, backwards: bool) -> None:
        """``nodes`` are those of the loop, besides the steps of the sequences themselves."""
        read = {each for node in nodes for each in node.all_input_nodes}
        self.sources = [key for key, steps in taken.items() if read.intersection(steps.values())]
        self.backwards = backwards
        self.slices: dict[fx.Node, tuple[int, int]] = {}
        for k, key in enumerate(self.sources):
            for i, node in taken[key].items():
                self.slices[node] = (count - 1 - i if backwards else i, k)
        self.times: dict[fx.Node, int] = {}
        self.steps: list[list[fx.Node]] = [[] for _ in range(count)]
        for node in graph.nodes:
            if node in self.slices:
                self.times[node] = self.slices[node][0]
            elif node in nodes:
                self.times[node] = max((self.times.get(each, -1) for each in node.all_input_nodes), default=-1)
                if self.times[node] >= 0:
                    self.steps[self.times[node]].append(node)
        *whole, end = self.steps
        if not whole[1] or {len(step) for step in whole} != {len(whole[1])}:
            raise NoLoop
        self.at = {node: i for step in whole for i, node in enumerate(step)}
        self.first: dict[int, fx.Node] = {}
        self.places = [list(self._places(node, 1)) for node in whole[1]]
        for time, step in enumerate(whole):
            if not all(self._alike(node, time, position) for position, node in enumerate(step)):
                raise NoLoop
        # The last step lacks what is only for a next one, and goes on into what follows the loop.
        self.last: dict[int, fx.Node] = {}
        for position in range(len(self.places)):
            candidate = end[len(self.last)] if len(self.last) < len(end) else None
            if candidate is not None and self._alike(candidate, count - 1, position):
                self.last[position], self.at[candidate] = candidate, position

    def results(self, position: int) -> list[fx.Node | None]:
        """What stands at a position of every step."""
        return [*(step[position] for step in self.steps[:-1]), self.last.get(position)]

    def _places(self, node: fx.Node, time: int) -> Iterator[Place]:
        for leaf in pytree.tree_leaves((node.args, node.kwargs)):
            if not isinstance(leaf, fx.Node) or self.times.get(leaf, -1) < 0:
                yield "fixed", leaf
            elif leaf in self.slices and self.times[leaf] == time:
                yield "slice", self.slices[leaf][1]
            elif leaf in self.at and time - self.times[leaf] in (0, 1):
                yield "before" if self.times[leaf] < time else "now", self.at[leaf]
            else:
                raise NoLoop

    def _alike(self, node: fx.Node, time: int, position: int) -> bool:
        """Whether a node does what its like in the second step does; in the first one it says what a state is first."""
        wanted = self.places[position]
        try:
            found = list(self._places(node, time))
        except NoLoop:
            return False
        if node.target != self.steps[1][position].target or len(found) != len(wanted):
            return False
        for i, there in enumerate(wanted):
            here = found[i]
            if time == 0 and there[0] == "before" and here[0] == "fixed" and isinstance(here[1], fx.Node):
                found[i] = there if self.first.setdefault(there[1], here[1]) is here[1] else here
        return found == wanted
