"""Cutting components out of a model in place, and showing that nothing else changed."""
