"""What all integrations do: find groups, cut a fresh model to a checkpoint, attach to the optimizers, end."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from leanrnn.discovery.discover import discover
from leanrnn.errors import GroupsError, IntegrationError, LeanRNNWarning
from leanrnn.groups.groups import Groups, named_tensors
from leanrnn.integrations.replicas import wrap_again_
from leanrnn.sparsify import Sparsifier
from leanrnn.sparsify.resume import cut_to_
from leanrnn.surgery.plan import plan_of

__all__ = ["Attached", "averages"]

CUTS = 20
"""How often a penalty's dead components are cut out in the course of a training, if nothing else is said."""
NAMES = {call: set(signature(call).parameters) for call in (discover, Sparsifier)}


class Attached:
    """A sparsifier of a framework's training, and all that has to happen around it. ::

        attached = Attached(example, budget=leanrnn.Budget(mult_adds="25%"))
        attached.watch(model)                        # from now on it takes checkpoints of cut models
        attached.begin(model, [optimizer], steps=1000)
        ...                                          # the framework trains
        attached.end()

    Arguments:
        example: an input of the model, as ``leanrnn.discover`` takes it.
        module: the name of the part of the model that the example is for, if that is not the whole.
        steps: how many optimizer steps the training has, where the framework cannot tell.
        compact_every: with a strength, after how many steps dead components are cut out: a twentieth of all if nothing
            is said. A budget cuts by itself.
        copies: models with the same tensors, such as averages, that are cut along.
        options: what else ``leanrnn.discover`` and ``leanrnn.Sparsifier`` take, by name.
    """

    def __init__(
        self,
        example: Any = None,
        *,
        module: str = "",
        steps: int | None = None,
        compact_every: int | None = None,
        copies: Sequence[nn.Module] = (),
        **options: Any,
    ) -> None:
        self.example, self.module, self.steps, self.compact_every = example, module, steps, compact_every
        self.copies = list(copies)
        self._finding = {name: value for name, value in options.items() if name in NAMES[discover]}
        self._settings = {name: value for name, value in options.items() if name not in self._finding}
        if unknown := self._settings.keys() - NAMES[Sparsifier]:
            raise GroupsError(
                f"{', '.join(sorted(unknown))}: neither leanrnn.discover nor leanrnn.Sparsifier takes that. "
                f"They take {', '.join(sorted((NAMES[discover] | NAMES[Sparsifier]) - {'model', 'groups'}))}."
            )
        self.groups: Groups | None = None
        self.sparsifier: Sparsifier | None = None
        self._state: Mapping[str, Any] | None = None
        self._replica: Callable[[], object] = lambda: None

    def part(self, model: nn.Module) -> nn.Module:
        """The part of ``model``, or of a copy of it, that shrinks."""
        try:
            return model.get_submodule(self.module)
        except AttributeError as error:
            raise IntegrationError(
                f"there is no module {self.module!r} in {type(model).__name__}. Name one of its own: "
                f"{', '.join(name for name, _ in model.named_children())}."
            ) from error

    def watch(
        self,
        model: nn.Module,
        copies: Callable[[], Sequence[nn.Module]] = tuple,
        optimizers: Callable[[], Sequence[Optimizer]] = tuple,
    ) -> RemovableHandle:
        """Let ``load_state_dict`` of ``model`` take checkpoints that were written after components were cut out.

        Copies and optimizers are asked for when it happens.
        """

        def before(loaded: nn.Module, state: Mapping[str, Any], prefix: str, *rest: Any) -> None:
            start = prefix + self.module + "." * bool(self.module)
            own = {name.removeprefix(start): value for name, value in state.items() if name.startswith(start)}
            here = named_tensors(self.part(model))
            if any(name in here and here[name].shape != value.shape for name, value in own.items()):
                along = [self.part(copy) for copy in (*copies(), *self.copies)]
                cut_to_(self.found(model), own, optimizers(), along)
                wrap_again_(self._replica())
                self.load_state_dict({})

        handle: RemovableHandle = model.register_load_state_dict_pre_hook(_Own(before))  # type: ignore[no-untyped-call]
        return handle

    def found(self, model: nn.Module) -> Groups:
        """The groups, discovered when they are first asked for."""
        part = self.part(model)
        if self.groups is None or self.groups.model is not part:
            if self.example is None:
                raise IntegrationError("an example is missing. Give an input of the model, as leanrnn.discover takes.")
            self.groups = discover(part, self.example, **self._finding)
        return self.groups

    def begin(
        self,
        model: nn.Module,
        optimizers: Sequence[Optimizer],
        *,
        steps: float | None = None,
        copies: Sequence[nn.Module] = (),
        replica: Callable[[], object] = lambda: None,
        after: Callable[[], object] = lambda: None,
        log: Callable[[dict[str, float]], object] | None = None,
    ) -> Sparsifier:
        """Attach to the optimizers of a training of so many steps, new or resumed.

        ``replica`` gives what the framework has wrapped the model in, which is wrapped again after a cut; ``after`` is
        called then.
        """
        groups, settings = self.found(model), dict(self._settings)
        steps = self.steps if self.steps is not None else steps
        known = steps is not None and 0 < steps < float("inf")
        if settings.get("budget") is not None:
            if not known:
                raise IntegrationError(
                    "nothing says how long the training is. Give steps=, the number of optimizer steps in all."
                )
            settings["steps"] = int(steps or 0)
        self.sparsifier, self._replica = Sparsifier(groups, **settings), replica
        along = [self.part(copy) for copy in (*copies, *self.copies)]

        def cut(_: object) -> None:
            wrap_again_(replica())
            after()

        self.sparsifier.attach(optimizers, copies=along, after=cut, log=log)
        if settings.get("budget") is None:
            every = self.compact_every or max(1, int(steps or 0) // CUTS if known else 1000)
            self.sparsifier.compact(every=every, after=cut)
        self._settle()
        return self.sparsifier

    def end(self) -> None:
        """Cut out what is dead, let go of the optimizers, and warn if nothing was removed or the budget is not met."""
        if self._running is None or self.sparsifier is None or self.groups is None:
            return
        self._settle()
        unmet = self.groups.unmet is not None and self.groups.unmet()
        if self._settings.get("budget") is None:
            self.sparsifier.compact()
        self.sparsifier.detach()
        if not unmet and plan_of(self.groups.model) is None:
            warnings.warn(
                f"nothing was removed in {self.sparsifier.steps} steps. Give a smaller budget, or a larger strength.",
                LeanRNNWarning,
                stacklevel=2,
            )

    def leave(self) -> None:
        """Let go of the optimizers without a word: the training broke off."""
        if (running := self._running) is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LeanRNNWarning)
                running.detach()

    def state_dict(self) -> dict[str, Any]:
        """That of the sparsifier; empty if there is none yet."""
        self._settle()
        return {} if self.sparsifier is None else self.sparsifier.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state: at once, or when the training begins or weights of its widths are loaded."""
        if state:
            self._state = dict(state)
        if self._running is not None and self._state and self._state["widths"] == self._running.groups.widths:
            self._settle()

    @property
    def _running(self) -> Sparsifier | None:
        return self.sparsifier if self.sparsifier is not None and self.sparsifier.optimizers else None

    def _settle(self) -> None:
        """Load the state that waits for weights of its widths; an error if they never came."""
        if self._running is not None and self._state is not None:
            state, self._state = self._state, None
            self._running.load_state_dict(state)


class _Own:
    """A hook of one module: its copies do not have it, be they copied or pickled, as frameworks do with modules."""

    __slots__ = ("_act",)

    def __init__(self, act: Callable[..., None] | None = None) -> None:
        self._act = act

    def __call__(self, *args: Any) -> None:
        if self._act is not None:
            self._act(*args)

    def __reduce__(self) -> tuple[type[_Own], tuple[()]]:
        return _Own, ()


def averages(holders: Iterable[object], model: nn.Module) -> list[nn.Module]:
    """Copies of ``model`` that the parts of a framework hold, such as averages of its weights. ::

    averages(trainer.callbacks, module)
    """
    found: dict[int, nn.Module] = {}
    for holder in holders:
        for value in vars(holder).values():
            inner = getattr(value, "module", None) if isinstance(value, nn.Module) else None
            for copy in (value, inner):
                if isinstance(copy, nn.Module) and copy is not model and type(copy) is type(model):
                    found[id(copy)] = copy
    return list(found.values())
