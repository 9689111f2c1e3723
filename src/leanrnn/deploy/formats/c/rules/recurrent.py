"""A step of an LSTM, GRU or RNN."""

from __future__ import annotations

from torch import Tensor

from leanrnn.deploy.formats.c.lowering import Call, Lowering, rule
from leanrnn.deploy.formats.c.rules.product import begin, name_of

__all__: list[str] = []


@rule("leanrnn.lstm")
def _lstm(low: Lowering, call: Call) -> None:
    _layer(low, call, "hc", (call["h"], call["c"]), (0, 1, 2))


@rule("leanrnn.gru", "leanrnn.rnn")
def _gru(low: Lowering, call: Call) -> None:
    _layer(low, call, "h", (call["h"],), (0, 1))


@rule("lstm_cell")
def _lstm_cell(low: Lowering, call: Call) -> None:
    _step(low, call, call["input"], [_begun(low, call, *each) for each in zip("hc", call["hx"], strict=True)], (0, 1))


@rule("gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def _cell(low: Lowering, call: Call) -> None:
    _step(low, call, call["input"], [_begun(low, call, "h", call["hx"])], ())


def _layer(low: Lowering, call: Call, parts: str, given: tuple[Tensor | None, ...], results: tuple[int, ...]) -> None:
    """A layer of any number of steps, of which this is one."""
    if call["reverse"]:
        raise low.refused(
            call, "reads backwards: it needs the whole sequence, and a file of C gets one step at a time."
        )
    if call["lengths"] is not None:
        raise low.refused(call, "reads packed sequences, and a file of C one sequence. Give the model plain tensors.")
    if call["x"].shape[0] * call["x"].shape[1] != 1:
        raise low.refused(
            call, "reads several steps or sequences a call. Let it read one step, with the state as an input."
        )
    if low.time and not low.pairs and any(state is not None and low.computed(state) for state in given):
        raise low.refused(
            call, "begins with an input that no output is in the next call. Return every state of the model, or let "
            "all begin with zeros.",
        )  # fmt: skip
    states = []
    for part, state in zip(parts, given, strict=True):
        if low.time and (state is None or not low.computed(state)):
            name = f"{low.module_of(call.node) or 'rnn'}_{part}"
            states.append(low.code.state(call["w_hh"].shape[1], name, start=state))
        else:
            states.append(_begun(low, call, part, state))
    _step(low, call, call["x"], states, results)


def _begun(low: Lowering, call: Call, part: str, state: Tensor | None) -> str:
    """A copy of a state to be changed."""
    width = call.given["w_hh"].shape[1]
    place = low.code.buffer(width, f"{low.module_of(call.node) or 'rnn'}_{part}")
    begin_at = "" if state is None else low.read(state, f"{call.node.name}_{part}")
    low.code.copy(place, begin_at, width)
    return place


def _step(low: Lowering, call: Call, x: Tensor, states: list[str], results: tuple[int, ...]) -> None:
    """The products, and what becomes of them. ``results``: which of several are which states, the first the output."""
    kind = str(call.node.target).removeprefix("leanrnn.").removeprefix("aten.").partition(".")[0].partition("_")[0]
    module, rows = low.module_of(call.node) or kind, call["w_hh"].shape[0]
    w_ih, w_hh, b_ih, b_hh = (call[name] for name in ("w_ih", "w_hh", "b_ih", "b_hh"))
    names = {name: name_of(call, name) for name in ("w_ih", "w_hh", "b_ih", "b_hh")}
    source, gates = low.read(x, f"{module}_in"), low.code.buffer(rows, f"{module}_gates")
    both = kind != "gru"  # whose reset gate stands between what the input adds and what the state does
    bias = b_ih + b_hh if both and b_ih is not None else b_ih
    low.kept.append(bias)
    begin(low, gates, bias, f"{module}_bias" if both else names["b_ih"], rows)
    low.code.add_product(gates, source, w_ih, names["w_ih"])
    if both:
        low.code.add_product(gates, states[0], w_hh, names["w_hh"])
    else:
        of_h = low.code.buffer(rows, f"{module}_of_h")
        begin(low, of_h, b_hh, names["b_hh"], rows)
        low.code.add_product(of_h, states[0], w_hh, names["w_hh"])
    width = w_hh.shape[1]
    if kind == "lstm":
        low.code.call("lstm_step", *states, gates, width)
    elif kind == "gru":
        low.code.call("gru_step", *states, gates, of_h, width)
    else:
        relu = call.given.get("activation") == "relu" or "relu" in str(call.node.target)
        formula = "{0} < 0.0f ? 0.0f : {0}" if relu else "hyperbolic_tangent({0})"
        low.code.formula(states[0], formula, gates, width)
    found = call.result if results else [call.result]
    for tensor, place in zip(found, [states[0], *states] if len(results) > len(states) else states, strict=True):
        low.bind(tensor, place)
