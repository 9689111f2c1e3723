"""Cutting a trained model at once: what reads a component is fitted again, so that the others stand in for it."""
