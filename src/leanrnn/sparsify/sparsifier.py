"""Ties groups, penalty and threshold to an optimizer, and cuts dead components out while training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from leanrnn.errors import GroupsError
from leanrnn.groups.budget import Budget
from leanrnn.groups.data import Masks
from leanrnn.groups.groups import Groups
from leanrnn.groups.keep import choose
from leanrnn.groups.numbers import check_numbers
from leanrnn.penalties import Penalty
from leanrnn.penalties.base import select
from leanrnn.sparsify.compaction import Compaction, PastCuts, copy_root, cut_everywhere_
from leanrnn.sparsify.course import Course
from leanrnn.sparsify.optimizers import check_parameters, closure_then, unwrapped
from leanrnn.sparsify.penalised import Mode
from leanrnn.sparsify.ranks import ProcessGroup, check_every, check_ranks_agree, refuse_replicas
from leanrnn.sparsify.state import FORMAT, check_alike, upgraded
from leanrnn.sparsify.status import Status, figures, layer_status
from leanrnn.sparsify.strength import Strength
from leanrnn.sparsify.thresholds import Threshold
from leanrnn.sparsify.told import warn, warn_of_collapse
from leanrnn.sparsify.ways import way_for

__all__ = ["Sparsifier"]

LOGGED = 100
"""Steps from one call of a log to the next, if nothing happens."""


class Sparsifier:
    """Trains groups to zero from inside the optimizer's own step; the training loop stays as it is.

    .. code-block:: diff

        + groups = leanrnn.discover(model, example)
        + budget = leanrnn.Budget(mult_adds="25%")
        + sparsifier = leanrnn.Sparsifier(groups, budget=budget, steps=len(loader)).attach(optimizer)
          for batch in loader:
              loss = loss_fn(model(batch.x), batch.y)
              loss.backward(); optimizer.step(); optimizer.zero_grad()
        + small = leanrnn.shrink(model, groups)

    There are two ways. With a ``budget`` the components that are worth least for what they cost are faded to zero and
    cut out in the course of the training, until the model costs what it may; nothing has to be tuned. With a
    ``strength`` a penalty pulls on all groups, as in the paper, and what dies is cut out by :meth:`compact`.

    Args:
        groups: what ``discover`` found; it shrinks along with the model.
        budget: what the model may cost in the end, a :class:`~leanrnn.Budget`.
        steps: to a budget, how many optimizer steps the whole training has.
        course: to a budget, when components go and what they are judged by, a :class:`~leanrnn.Course`.
        strength: weight of the penalty, a number, a function of the step (``linear_ramp(2e-3, 1000)``) or a
            :class:`~leanrnn.Strength` of your own, relative to the loss as the loop computes it: for a mean over time
            steps divide the strength for a sum over them by their number.
        threshold: a number is the paper's element-wise tau (1e-4 is its choice for language models); or an
            ``ElementThreshold``, a ``GroupThreshold``, several of them, None for none.
        penalty: "group_lasso" (the default with a strength), "l1", or a :class:`~leanrnn.Penalty`. With a budget it
            pulls while the model shrinks, what goes is chosen by norm, and the strength is found on the way.
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
        strength: float | Callable[[int], float] | Strength | None = None,
        budget: Budget | None = None,
        steps: int | None = None,
        course: Course | None = None,
        threshold: float | Threshold | Sequence[Threshold] | None = 1e-4,
        penalty: str | Penalty | None = None,
        mode: Mode = "gradient",
    ) -> None:
        check_numbers(groups.model, GroupsError, fake=False)  # steps of a fake model tell what memory they take
        self.groups = groups
        self._way = way_for(groups, strength, budget, steps, course, threshold, penalty, mode)
        self.steps = 0
        """Optimizer steps seen so far."""
        self.optimizers: list[Optimizer] = []
        self.copies: list[nn.Module] = []
        self._handles: list[RemovableHandle] = []
        self._every = 0
        self._before_compaction: Callable[[], object] | None = None
        self._after_compaction: Callable[[Compaction], object] | None = None
        self._log: Callable[[dict[str, float]], object] | None = None
        self._past_cuts = PastCuts(groups)
        self._ranks: ProcessGroup | None = None

    @property
    def strength(self) -> float:
        """The strength of the next step."""
        return self._way.strength(self.steps)

    @property
    def penalty(self) -> Penalty | None:
        """The penalty, if there is one."""
        return self._way.penalty

    @property
    def touches(self) -> list[str]:
        """Names of the parameters the thresholds may set to zero."""
        return self._way.touches()

    def attach(
        self,
        optimizer: Optimizer | Sequence[Optimizer],
        copies: Sequence[nn.Module] = (),
        after: Callable[[Compaction], object] | None = None,
        before: Callable[[], object] | None = None,
        log: Callable[[dict[str, float]], object] | None = None,
        ranks: ProcessGroup | None = None,
    ) -> Sparsifier:
        """Act in every step of ``optimizer`` (or of several, if they share the parameters out among them).

        ``copies`` are modules with the same tensors, such as ``torch.optim.swa_utils.AveragedModel``, that are cut
        along with the model. ``before`` is called when a step is about to cut: what goes is zero then. ``after`` is
        called with the record when it has cut something out. ``log`` is called with :meth:`figures` after the first
        step, after every cut and every 100 steps. ``ranks`` are the processes that train replicas of this model: all
        there are, or a group of them. Returns ``self``.
        """
        if self.optimizers:
            raise GroupsError("this sparsifier is attached already. Call detach() first, or build another.")
        optimizers = [unwrapped(each) for each in ([optimizer] if isinstance(optimizer, Optimizer) else optimizer)]
        check_parameters(optimizers, select(self.groups))
        for copy in copies:
            copy_root(copy, self.groups)
        if self._way.cuts_by_itself and after is None:
            refuse_replicas("attach(optimizer, after=...)", ranks)
        self.optimizers, self.copies, self._ranks = optimizers, list(copies), ranks
        self._before_compaction, self._after_compaction, self._log = before, after, log
        self.groups.unmet, self.groups.cutter = lambda: self._way.unmet(self.steps), self._cut
        for item in optimizers:
            self._handles += [item.register_step_pre_hook(self._before_step)]
            self._handles += [item.register_step_post_hook(self._after_step)]
        return self

    def detach(self) -> None:
        """Let go of the optimizer: its steps are its own again. Warns if the work is not done."""
        if self.optimizers and (message := self._way.unmet(self.steps) or self._way.left_over()):
            warn(message)
        self.groups.unmet = self.groups.cutter = None
        for handle in self._handles:
            handle.remove()
        self._handles, self.optimizers, self.copies = [], [], []

    def loss(self) -> Tensor:
        """The penalty at today's strength, to be added to the loss; only in mode "loss", so that it acts once."""
        if (loss := self._way.loss(self.steps)) is None:
            raise GroupsError('the sparsifier acts by itself. Build it with mode="loss" to add the penalty here.')
        return loss

    def figures(self) -> dict[str, float]:
        """Step, strength, widths and how much of the budget is used, as a logger wants them. Waits for no device."""
        return figures(self.steps, self.strength, self.groups.widths, self._way.progress(self.steps))

    def status(self) -> Status:
        """Widths, living components and norms per layer, and the penalty. Reads numbers back: not for every step."""
        with torch.no_grad():
            penalty = self.strength * float(self.penalty.value()) if self.penalty else 0.0
            return Status(self.steps, self.strength, penalty, layer_status(self.groups), self._way.progress(self.steps))

    def compact(self, every: int | None = None, after: Callable[[Compaction], object] | None = None) -> Compaction:
        """Cut dead components out of model, optimizer, gradients, copies and groups, in place, and train on.

        Dead is a component whose weights are all exactly zero (and biases, where its value itself is read). One per
        layer always stays. With ``every`` it happens again by itself after every so many steps (0 for never again),
        and ``after`` is then called with the record whenever something was removed.

        Parameters are replaced: what holds on to them besides model and optimizer has to be made anew, such as
        ``DistributedDataParallel``. Call this on every rank; if one removes others, ``RanksError`` says so. ::

            if sparsifier.compact():
                replica = DistributedDataParallel(model)

        Torch's recurrent modules take states of former widths afterwards; for home-made cells see :meth:`cut_state`.
        """
        if not self.optimizers:
            raise GroupsError("compact() needs the optimizer, to cut its state too. Call attach(optimizer) first.")
        if every is not None:
            check_every(every, after is not None, self._ranks)
            self._every, self._after_compaction = every, after
        return self._compact(choose(self.groups))

    def _compact(self, masks: Masks) -> Compaction:
        check_ranks_agree(masks, self.groups, self._ranks)
        removed = {name: (~mask).nonzero()[0] for name, mask in masks.items()}
        if any(len(gone) for gone in removed.values()):
            before = self.groups.widths
            self._cut(masks)
            warn_of_collapse(before, self.groups.widths)
        self._way.compacted(self.steps)
        return Compaction(self.steps, removed, self.groups.widths)

    def _cut(self, masks: Masks) -> None:
        cut_everywhere_(self.groups, masks, self.copies, self.optimizers)
        self._way.cut_(masks)
        self._past_cuts.record(masks)
        self.groups.layers = self.groups.cut(masks)

    def cut_state(self, state: Any, layer: str | None = None) -> Any:
        """A recurrent state, carried from before a compaction, at today's widths.

        ``state`` is a tensor or any nesting of tuples, lists and mappings; every floating-point tensor whose last axis
        has a former width is cut, everything else stays as it is, so it may be called in every iteration. Where the
        width leaves open which layer a tensor belongs to, name it::

            state = sparsifier.cut_state(state)
            h = sparsifier.cut_state(h, layer="cell")
        """
        return self._past_cuts.cut(state, layer)

    def state_dict(self) -> dict[str, Any]:
        """Steps, settings, widths, and what penalty and strength have to keep, as plain data."""
        own = {"format": FORMAT, "steps": self.steps, "way": self._way.kind}
        return own | self._way.state_dict() | {"every": self._every, "widths": self.groups.widths}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another sparsifier stopped: its count of steps, compaction by itself, penalty and strength.

        Strength and thresholds are those given at construction, so that a run can go on with others; a strength of the
        same kind goes on from its state. Penalty, mode and the widths of the model have to be those of the state.
        """
        state = upgraded(state)
        check_alike(state, self.state_dict())
        self._way.load_state_dict(state)
        self.steps, self._every = int(state["steps"]), int(state["every"])

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> Any:
        act = partial(self._way.before, self.steps, optimizer)
        return closure_then(args, kwargs, act) or act()

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """What is done after a step, and compaction when it is time for it."""
        self._way.after(self.steps, optimizer)
        if optimizer is not self.optimizers[-1]:
            return
        self.steps += 1
        masks = self._way.due(self.steps)
        if masks is None and self._every and self.steps % self._every == 0:
            masks = choose(self.groups)
        record = None if masks is None else self._compact_by_itself(masks)
        if self._log is not None and (record or self.steps == 1 or self.steps % LOGGED == 0):
            self._log(self.figures())

    def _compact_by_itself(self, masks: Masks) -> Compaction:
        if self._before_compaction is not None:
            self._before_compaction()
        if (record := self._compact(masks)) and self._after_compaction is not None:
            self._after_compaction(record)
        return record
