"""Recurrent models that other people published: how to build each of them, small and with random weights.

A field has a file, a model has a function with a ``@entry`` that says what it is. Nothing here imports a model's
package before that model is built, so the list can be read without any of them::

    from benchmarks.zoo import ZOO
    model, inputs = ZOO["medaka_gru"].build()
"""

from benchmarks.zoo import audio, control, forecasting, genomics, graphs, language, newer, parsing, reading, speech
from benchmarks.zoo.entry import Entry, Hold, entered

__all__ = ["ZOO", "Entry", "Hold"]

FIELDS = (speech, audio, reading, language, parsing, forecasting, control, graphs, genomics, newer)
ZOO = {each.name: each for field in FIELDS for each in entered if each.build.__module__ == field.__name__}
"""All entries by name, in the order of the fields."""
