"""leanrnn inside other people's training loops: a module for each framework, loaded when it is imported.

>>> from leanrnn.integrations.lightning import LeanCallback
>>> trainer = lightning.Trainer(callbacks=[LeanCallback(example, budget=leanrnn.Budget(mult_adds="25%"))])

``lightning`` (and ``pytorch_lightning``, the same under its older name), ``transformers`` and ``accelerate`` need the
framework they are called by; ``hub`` needs nothing. docs/frameworks.md shows each, and frameworks that need no module.
"""
