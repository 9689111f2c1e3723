"""Tensors made of nothing: constants, random numbers, positions."""

from __future__ import annotations

from leanrnn.discovery.labels import Value
from leanrnn.discovery.rules.base import Call, fixed_axes, rule
from leanrnn.discovery.rules.pointwise import pointwise_values


@rule("aten.zeros", "aten.zeros_like", "aten.new_zeros", "aten.zero", "aten.empty", "aten.empty_like",
      "aten.new_empty", "aten.empty_strided", "aten.new_empty_strided", "aten.empty_permuted",
      "aten._efficientzerotensor")  # fmt: skip
def _zeros(call: Call) -> Value:
    """What is not written yet counts as zero: whatever is read of it later was written first."""
    return Value(call.shape, (), True)


@rule(
    "aten.ones", "aten.ones_like", "aten.new_ones", "aten.full", "aten.full_like", "aten.new_full", "aten.fill.Scalar",
    "aten.scalar_tensor", "aten.rand", "aten.randn", "aten.rand_like", "aten.randn_like", "aten.randint",
    "aten.randint_like", "aten.uniform", "aten.exponential", "aten.log_normal", "aten.cauchy", "aten.geometric",
    "aten.random", "aten.normal_functional",
)  # fmt: skip
def _constant(call: Call) -> Value:
    """The same at every index, or random at every index: nothing notices when one leaves."""
    fill = call.get("fill_value", call.get("value"))
    return Value(call.shape, (), isinstance(fill, (int, float)) and fill == 0)


@rule("aten.fill")
def _fill(call: Call) -> Value:
    """Filled with a number that was computed."""
    value: Value = call["value"]
    return Value(call.shape, (), value.zero)


@rule("aten.bernoulli", "aten.normal", "aten.poisson", "aten.binomial", "aten._standard_gamma")
def _random(call: Call) -> Value:
    """Random numbers whose mean or probability is a tensor follow its labels; a ``self`` written in place does not
    count."""
    shape_only = call.op._schema.name.endswith("_") or call.op._overloadname in ("p", "float", "float_float")
    values = [v for name, v in call.arguments.items() if isinstance(v, Value) and not (shape_only and name == "self")]
    return pointwise_values(call.ties, values, call.shape, []) if values else Value(call.shape)


@rule("aten.arange", "aten.linspace", "aten.logspace", "aten.eye", "aten.tril_indices", "aten.triu_indices",
      "aten.randperm", "aten.range", "aten.hann_window", "aten.hamming_window", "aten.bartlett_window",
      "aten.blackman_window", "aten.kaiser_window", "aten.fft_fftfreq", "aten.fft_rfftfreq")  # fmt: skip
def _positions(call: Call) -> Value:
    return Value(call.shape, fixed_axes(call.ties, call.shape, None, f"meets positions made by {call.name}"))
