"""Optional imports in one place: a missing package becomes a sentence that says what to install."""

from importlib import import_module
from types import ModuleType

from leanrnn.errors import MissingExtraError

__all__ = ["optional"]


def optional(module: str, extra: str) -> ModuleType:
    """Import ``module``, or say which extra of leanrnn brings it.

    >>> onnx = optional("onnx", extra="onnx")
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # Something else missing inside an installed package is that package's fault: the user needs to see it.
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtraError(
            f"{module} is not installed. Install it with: pip install 'leanrnn[{extra}]'"
        ) from error
