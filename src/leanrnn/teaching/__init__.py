"""Distillation: a small model learns from what a larger one says, not from the labels alone."""

from leanrnn.teaching.loss import distil
from leanrnn.teaching.similar import similar_words
from leanrnn.teaching.soft_targets import SoftTargets
from leanrnn.teaching.stored import StoredTargets, record_targets
from leanrnn.teaching.teacher import Teacher

__all__ = ["SoftTargets", "StoredTargets", "Teacher", "distil", "record_targets", "similar_words"]
