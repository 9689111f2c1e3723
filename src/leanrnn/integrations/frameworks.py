"""The frameworks that leanrnn has a module for, and the extra that brings each."""

from __future__ import annotations

from leanrnn.deploy.libraries import Extra
from leanrnn.errors import IntegrationError

__all__ = ["ACCELERATE", "LIGHTNING", "PYTORCH_LIGHTNING", "TRANSFORMERS"]

LIGHTNING = Extra("lightning", ("lightning",), IntegrationError)
PYTORCH_LIGHTNING = Extra("lightning", ("pytorch_lightning",), IntegrationError)
TRANSFORMERS = Extra("transformers", ("transformers", "accelerate"), IntegrationError)
ACCELERATE = Extra("accelerate", ("accelerate",), IntegrationError)
