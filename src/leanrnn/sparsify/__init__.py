"""Training with a penalty, thresholds and compaction, from inside the optimizer's own step."""

from leanrnn.sparsify.course import Course
from leanrnn.sparsify.resume import resumable
from leanrnn.sparsify.saliency import Saliency
from leanrnn.sparsify.sparsifier import Sparsifier
from leanrnn.sparsify.strength import Strength, constant, linear_ramp, off_from
from leanrnn.sparsify.thresholds import ElementThreshold, GroupThreshold, choose_threshold

__all__ = [
    "Course",
    "ElementThreshold",
    "GroupThreshold",
    "Saliency",
    "Sparsifier",
    "Strength",
    "choose_threshold",
    "constant",
    "linear_ramp",
    "off_from",
    "resumable",
]
