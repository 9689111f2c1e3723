"""Cutting components out of a model, proving that nothing else changed, and files of what is left.

``leanrnn.shrink``, ``save``, ``load`` and ``about`` are public there; here is what reads a plan and writes tensors.
"""

from leanrnn.surgery.checkpoint import write_tensors
from leanrnn.surgery.plan import Plan, whole_plan

__all__ = ["Plan", "whole_plan", "write_tensors"]
