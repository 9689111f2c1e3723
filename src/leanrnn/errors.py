"""The errors a user can cause, and the one warning. Each message says what was wrong, where, and what to do."""

__all__ = [
    "BudgetError",
    "CheckpointError",
    "ConfigError",
    "DataError",
    "DiscoveryError",
    "ExportError",
    "GroupsError",
    "IntegrationError",
    "LayerError",
    "LeanRNNError",
    "LeanRNNWarning",
    "OperatorError",
    "RanksError",
    "RunError",
    "ShrinkError",
    "UnsupportedModelError",
]


class LeanRNNError(Exception):
    """Base class of every error leanrnn raises on purpose."""


class LeanRNNWarning(UserWarning):
    """Something had no effect, or went further than it should: a cut that removed nothing, for example."""


class UnsupportedModelError(LeanRNNError):
    """The model is no module, or leanrnn cannot take its weights apart (TorchScript, quantised, sharded)."""


class DiscoveryError(LeanRNNError):
    """The model ran, but no recurrent width was found, or the example does not fit the model."""


class LayerError(LeanRNNError):
    """A layer of leanrnn was given a size it cannot have, or a tensor that does not fit it."""


class OperatorError(LeanRNNError):
    """A rule given to ``leanrnn.register`` makes no sense, or does not fit the operator."""


class GroupsError(LeanRNNError):
    """A name, an index or a setting does not fit the groups it was used with."""


class BudgetError(LeanRNNError):
    """A budget makes no sense, or no widths of this model hold it."""


class ShrinkError(LeanRNNError):
    """The smaller model could not be built, or does not compute what the zeroed one computes."""


class CheckpointError(LeanRNNError):
    """A file is not a leanrnn checkpoint, is damaged, is too new, or does not fit the factory."""


class ExportError(LeanRNNError):
    """The model has no counterpart in the format asked for, or the written file does not compute what it computes."""


class IntegrationError(LeanRNNError):
    """A framework is not installed, does not say what leanrnn has to know, or trains in a way that cannot shrink."""


class ConfigError(LeanRNNError):
    """A setting of a recipe is unknown, or has a value that makes no sense."""


class DataError(LeanRNNError):
    """Data is missing, empty, in the wrong encoding, or does not fit what is done with it."""


class RanksError(LeanRNNError):
    """Processes that train one model together do not agree, or one of them is gone."""


class RunError(LeanRNNError):
    """A run folder cannot be used, or a run cannot go on."""
