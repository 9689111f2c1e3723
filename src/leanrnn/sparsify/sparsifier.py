"""Ties groups, penalty and threshold to an optimizer, and cuts dead components out while training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from leanrnn.errors import GroupsError
from leanrnn.groups.groups import Groups
from leanrnn.groups.keep import choose
from leanrnn.penalties.group_lasso import GroupLasso, Penalty, select
from leanrnn.penalties.l1 import L1
from leanrnn.sparsify.compaction import Compaction, Memory, copy_root, cut_everywhere_, distributed
from leanrnn.sparsify.directions import Directions
from leanrnn.sparsify.optimizers import (
    check_held,
    closure_then,
    gradient_amounts,
    held,
    proximal_amounts,
    unwrapped,
)
from leanrnn.sparsify.status import Status, layer_status
from leanrnn.sparsify.strength import Schedule, as_schedule
from leanrnn.sparsify.thresholds import Threshold, as_thresholds

__all__ = ["Sparsifier"]

FORMAT = 1
Mode = Literal["gradient", "proximal", "loss"]
PENALTIES: Mapping[str, type[GroupLasso] | type[L1]] = {"group_lasso": GroupLasso, "l1": L1}


class Sparsifier:
    """Trains groups to zero from inside the optimizer's own step; the training loop stays as it is.

    .. code-block:: diff

        + groups = leanrnn.discover(model, example)
        + sparsifier = leanrnn.Sparsifier(groups, strength=2e-3).attach(optimizer)
          for batch in loader:
              loss = loss_fn(model(batch.x), batch.y)
              loss.backward(); optimizer.step(); optimizer.zero_grad()
        + small = leanrnn.shrink(model, groups)

    Args:
        groups: what ``discover`` found; it shrinks along with the model.
        strength: weight of the penalty, a number or a schedule (``linear_ramp(2e-3, 1000)``), relative to the loss as
            the loop computes it: for a mean over time steps divide the strength for a sum over them by their number.
        threshold: a number is the paper's element-wise tau (1e-4 is its choice for language models); or an
            ``ElementThreshold``, a ``GroupThreshold``, several of them, None for none.
        penalty: "group_lasso", "l1", or an object with the methods of :class:`leanrnn.penalties.group_lasso.Penalty`.
        mode: how the penalty acts. "gradient" adds its gradient when the optimizer steps, after any clipping.
            "proximal" shrinks the groups after the step, by the learning rate of each parameter times the strength
            (also under Adam, whose own scaling of the step is not applied to it). "loss" leaves it to the loop,
            before clipping, exactly as the paper: ``loss = loss + sparsifier.loss()``.

    Parameters with ``requires_grad=False`` count in the norms of their groups and are never changed, but for being cut.
    The directions under a weight normalisation are kept at unit length, or the penalty would act on nothing else.
    """

    def __init__(
        self,
        groups: Groups,
        *,
        strength: float | Schedule,
        threshold: float | Threshold | Sequence[Threshold] | None = 1e-4,
        penalty: str | Penalty = "group_lasso",
        mode: Mode = "gradient",
    ) -> None:
        if mode not in ("gradient", "proximal", "loss"):
            raise GroupsError(f"there is no mode {mode!r}. Choose gradient, proximal or loss.")
        if isinstance(penalty, str) and penalty not in PENALTIES:
            raise GroupsError(f"there is no penalty {penalty!r}. Choose {' or '.join(PENALTIES)}, or give an object.")
        self.groups, self.mode = groups, mode
        self.penalty: Penalty = PENALTIES[penalty](groups) if isinstance(penalty, str) else penalty
        self.schedule, self._number = as_schedule(strength), None if callable(strength) else float(strength)
        self.thresholds = as_thresholds(threshold)
        self.steps = 0
        """Optimizer steps seen so far."""
        self.optimizers: list[Optimizer] = []
        self.copies: list[nn.Module] = []
        self._handles: list[RemovableHandle] = []
        self._tell: Callable[[Compaction], object] | None = None
        self._every, self._memory, self._directions = 0, Memory(groups), Directions(groups)

    @property
    def strength(self) -> float:
        """The strength of the next step."""
        return self.schedule(self.steps)

    @property
    def touches(self) -> list[str]:
        """Names of the parameters the thresholds may set to zero."""
        return list(dict.fromkeys(name for threshold in self.thresholds for name in threshold.touches(self.groups)))

    def attach(self, optimizer: Optimizer | Sequence[Optimizer], copies: Sequence[nn.Module] = ()) -> Sparsifier:
        """Act in every step of ``optimizer`` (or of several, if they share the parameters out among them).

        ``copies`` are modules with the same tensors, such as ``torch.optim.swa_utils.AveragedModel``, that ``compact``
        is to cut along with the model. Returns ``self``.
        """
        if self.optimizers:
            raise GroupsError("this sparsifier is attached already. Call detach() first, or build another.")
        given = [optimizer] if isinstance(optimizer, Optimizer) else optimizer
        optimizers = [unwrapped(item) for item in given]
        check_held(optimizers, select(self.groups))
        for copy in copies:
            copy_root(copy, self.groups)
        self.optimizers, self.copies = optimizers, list(copies)
        for item in optimizers:
            self._handles.append(item.register_step_pre_hook(self._before))
            self._handles.append(item.register_step_post_hook(self._after))
        return self

    def detach(self) -> None:
        """Let go of the optimizer: its steps are its own again."""
        for handle in self._handles:
            handle.remove()
        self._handles, self.optimizers, self.copies = [], [], []

    def loss(self) -> Tensor:
        """The penalty at today's strength, to be added to the loss; only in mode "loss", so that it acts once."""
        if self.mode != "loss":
            raise GroupsError(f'the penalty already acts by mode {self.mode!r}. Build Sparsifier(..., mode="loss").')
        return self.penalty.value() * self.strength

    def status(self) -> Status:
        """Widths, living components and norms per layer, and the penalty. Reads numbers back: not for every step."""
        with torch.no_grad():
            penalty = self.strength * float(self.penalty.value())
            return Status(self.steps, self.strength, penalty, layer_status(self.groups))

    def compact(self, every: int | None = None, after: Callable[[Compaction], object] | None = None) -> Compaction:
        """Cut dead components out of model, optimizer, gradients, copies and groups, in place, and train on.

        Dead is a component whose weights are all exactly zero (and biases, where its value itself is read). One per
        layer always stays. With ``every`` it happens again by itself after every so many steps (0 for never again),
        and ``after`` is then called with the record whenever something was removed.

        Parameters are replaced, not resized: what holds on to parameters besides model and optimizer has to be made
        anew. ``DistributedDataParallel`` does; every replica removes the same components, so wrap again::

            if sparsifier.compact():
                replica = DistributedDataParallel(model)

        States of former widths are accepted by torch's recurrent modules after the cut; for home-made cells see
        :meth:`cut_state`.
        """
        if not self.optimizers:
            raise GroupsError("compact() needs the optimizer, to cut its state too. Call attach(optimizer) first.")
        if every is not None:
            if every < 0:
                raise GroupsError(f"compact(every={every}) is not possible. Give a number of steps, or 0 to stop.")
            if every and after is None and distributed():
                raise GroupsError(
                    "compaction by itself would leave DistributedDataParallel with the old parameters. "
                    "Give compact(every=..., after=...) a function that wraps the model again."
                )
            self._every, self._tell = every, after
        return self._compact()

    def _compact(self) -> Compaction:
        groups, masks = self.groups, choose(self.groups)
        removed = {name: (~mask).nonzero()[0] for name, mask in masks.items()}
        if any(len(gone) for gone in removed.values()):
            cut_everywhere_(groups, masks, self.copies, self.optimizers)
            self.penalty.cut_(masks)
            self._memory.record(masks)
            groups.layers = groups.cut(masks)
        return Compaction(self.steps, removed, groups.widths)

    def cut_state(self, state: Any, layer: str | None = None) -> Any:
        """A recurrent state, carried from before a compaction, at today's widths.

        ``state`` is a tensor or any nesting of tuples, lists and mappings; every floating-point tensor whose last axis
        has a former width is cut, everything else stays as it is, so it may be called in every iteration. Where the
        width leaves open which layer a tensor belongs to, name it::

            state = sparsifier.cut_state(state)
            h = sparsifier.cut_state(h, layer="cell")
        """
        return self._memory.cut(state, layer)

    def state_dict(self) -> dict[str, Any]:
        """Steps, settings and widths as plain data."""
        sizes = self.penalty.sizes if isinstance(self.penalty, GroupLasso) else {}
        return {
            "format": FORMAT,
            "steps": self.steps,
            "strength": self._number,
            "mode": self.mode,
            "penalty": type(self.penalty).__name__,
            "sizes": sizes,
            "threshold": [threshold.settings() for threshold in self.thresholds],
            "every": self._every,
            "widths": self.groups.widths,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another sparsifier stopped: its count of steps, and compaction by itself.

        Strength and thresholds stay those given at construction, so that a run can go on with others. Penalty, mode
        and the widths of the model have to be those of the state.
        """
        if self.state_dict().keys() - state.keys() or state["format"] > FORMAT:
            raise GroupsError("this is not the state of a sparsifier of this version. Use what state_dict() returned.")
        if state["widths"] != self.groups.widths:
            raise GroupsError(
                f"the state is of widths {state['widths']}, the model has {self.groups.widths}. "
                "Rebuild the model at the widths it was saved with (leanrnn.load), then load the state."
            )
        for key, own in (("mode", self.mode), ("penalty", type(self.penalty).__name__)):
            if state[key] != own:
                raise GroupsError(f"the state is of {key} {state[key]!r}, this one has {own!r}. Build it alike.")
        self.steps, self._every = int(state["steps"]), int(state["every"])
        if isinstance(self.penalty, GroupLasso):
            self.penalty.set_sizes(state["sizes"])

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> Any:
        """Before a step: the gradient of the penalty."""
        if self.mode == "gradient" and self.strength:
            act = partial(self._add_gradient, optimizer)
            return closure_then(args, kwargs, act) or act()
        return None

    def _add_gradient(self, optimizer: Optimizer) -> None:
        self.penalty.add_gradient_(gradient_amounts(optimizer, self.strength))

    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """After a step: the proximal step, the thresholds, and compaction when it is time for it."""
        if self.mode == "proximal" and self.strength:
            self.penalty.proximal_(proximal_amounts(optimizer, self.strength))
        mine = held(optimizer)
        self._directions.unit_(mine)
        for threshold in self.thresholds:
            threshold.apply_(self.groups, mine)
        if optimizer is not self.optimizers[-1]:
            return
        self.steps += 1
        if self._every and self.steps % self._every == 0:
            record = self._compact()
            if record and self._tell is not None:
                self._tell(record)
