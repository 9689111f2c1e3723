"""GRU and RNN as loops of plain operators: onnxruntime multiplies bytes in a product of matrices, not in these nodes.

They are written as functions in ONNX's own text, called in place of the nodes, and put where they are called by ONNX's
inliner, which gives every call names of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from leanrnn.deploy.libraries import ONNX

__all__ = ["to_steps"]

DOMAIN = "leanrnn.steps"
LOOP = """
<domain: "leanrnn.steps", opset_import: ["": OPSET]>
NAME (x, W, R, A, B, initial, lengths) => (Y, Y_h) {
    zero = Constant <value_float = 0.0> ()
    first = Constant <value_ints = [0]> ()
    second = Constant <value_ints = [1]> ()
    parts = Constant <value_ints = [DOUBLE, WIDTH]> ()
    halves = Constant <value_ints = [WIDTH, WIDTH]> ()
    products = MatMul(x, W)
    inputs = Add(products, A)
    BEFORE
    last, ys = Scan <num_scan_inputs = COUNT, body = step (h, READ) => (next, y) { STEP },
        scan_input_directions = [DIRECTIONS], scan_output_directions = [BACKWARDS]> (state, SEQUENCES)
    Y = Unsqueeze(ys, second)
    Y_h = Unsqueeze(last, first)
}
"""
"""One product for the inputs of all steps, their biases A added, and a loop over the steps for the state's."""
STEP = {
    "GRU": """
        product = MatMul(h, R)
        recurrent = Add(product, B)
        h_gates, h_new = Split <axis = -1> (recurrent, parts)
        summed = Add(x_gates, h_gates)
        gates = Sigmoid(summed)
        update, reset = Split <axis = -1> (gates, halves)
        let_through = Mul(reset, h_new)
        inner = Add(x_new, let_through)
        new = Tanh(inner)
        apart = Sub(h, new)
        kept = Mul(update, apart)
        FRESH = Add(new, kept)
    """,
    "RNN": """
        product = MatMul(h, R)
        recurrent = Add(product, B)
        inner = Add(x_new, recurrent)
        FRESH = ACTIVATION(inner)
    """,
}
"""How the next state is made of the state h and what the input adds; ONNX has the update gate before the reset gate."""
ENDS = ("y = Identity(next)", "next = Where(runs, fresh, h)  y = Where(runs, fresh, zero)")
"""What follows where sequences have no lengths, and where they do: behind its end one keeps its state."""
GIVEN = "state = Squeeze(initial, first)"
ZEROS = """
    batch = Shape <start = 1, end = 2> (x)
    width = Constant <value_ints = [WIDTH]> ()
    size = Concat <axis = 0> (batch, width)
    state = ConstantOfShape(size)
"""
SPLIT = "of_gates, of_new = Split <axis = -1> (inputs, parts)"
RUNNING = """
    nought = Constant <value_int = 0> ()
    one = Constant <value_int = 1> ()
    steps = Shape <start = 0, end = 1> (x)
    count = Squeeze(steps, first)
    places = Range(nought, count, one)
    column = Unsqueeze(places, second)
    ends = Cast <to = 7> (lengths)
    before_end = Less(column, ends)
    third = Constant <value_ints = [2]> ()
    running = Unsqueeze(before_end, third)
"""
"""Which sequences have not ended, for every step: behind the end the state stays, and zeros come out."""


def to_steps(model: Any) -> None:
    """Replace every GRU and RNN of constant weights by such a loop."""
    onnx = ONNX.package("onnx")
    graph, functions = model.graph, dict[str, Any]()
    weights = {each.name: each for each in graph.initializer}
    opset = next(each.version for each in model.opset_import if not each.domain)
    replaced = [node for node in graph.node if node.op_type in STEP and weights.keys() >= {*node.input[1:3]}]
    for node in replaced:
        x, w, r, b, lengths, initial = (*node.input, "", "", "")[:6]
        name, text = _function(node, onnx, opset, bool(lengths), bool(initial))
        functions[name] = ONNX.package("onnx.parser").parse_function(text)
        constants = _constants(onnx, weights[w], weights[r], weights.get(b))
        known = {each.name for each in graph.initializer}
        graph.initializer.extend(each for each in constants if each.name not in known)
        inputs = [x, *(each.name for each in constants), initial, lengths]
        call = onnx.helper.make_node(name, inputs, [*node.output, ""][:2], domain=DOMAIN)
        graph.node.insert(list(graph.node).index(node), call)
        graph.node.remove(node)
    if not functions:
        return
    read = {name for node in graph.node for name in node.input}
    for name in {name for node in replaced for name in node.input[1:4]} - read - {""}:
        graph.initializer.remove(weights[name])
    model.functions.extend(functions.values())
    model.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    model.CopyFrom(ONNX.package("onnx.inliner").inline_local_functions(model))


def _function(node: Any, onnx: Any, opset: int, lengths: bool, initial: bool) -> tuple[str, str]:
    """What a node does, as ONNX's text, under a name of its own."""
    settings = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    backwards, width = int(settings["direction"] == b"reverse"), settings["hidden_size"]
    activation = settings.get("activations", [b""])[0].decode()
    name = "_".join(map(str, (node.op_type, activation, width, backwards, int(lengths), int(initial))))
    read = {"x_gates": "of_gates", "x_new": "of_new"} if node.op_type == "GRU" else {"x_new": "inputs"}
    read |= {"runs": "running"} if lengths else {}
    before = [SPLIT] * ("x_gates" in read) + [GIVEN if initial else ZEROS] + [RUNNING] * lengths
    words = {
        "NAME": name, "OPSET": opset, "BEFORE": "\n".join(before), "COUNT": len(read), "READ": ", ".join(read),
        "STEP": STEP[node.op_type] + ENDS[lengths], "FRESH": "fresh" if lengths else "next",
        "ACTIVATION": activation, "DIRECTIONS": ", ".join([str(backwards)] * len(read)), "BACKWARDS": backwards,
        "SEQUENCES": ", ".join(read.values()), "DOUBLE": 2 * width, "WIDTH": width,
    }  # fmt: skip
    text = LOOP
    for word, meant in words.items():
        text = text.replace(word, str(meant))
    return name, text


def _constants(onnx: Any, w: Any, r: Any, b: Any) -> list[Any]:
    """Weights of the input and of the state with a column for every gate and unit, and the biases of both."""
    of_input, of_state = (np.ascontiguousarray(onnx.numpy_helper.to_array(each)[0].T) for each in (w, r))
    columns = of_input.shape[1]
    biases = onnx.numpy_helper.to_array(b)[0] if b is not None else np.zeros(2 * columns, of_input.dtype)
    bias_name = f"{b.name if b is not None else w.name + '/none'}"
    values = {
        f"{w.name}/columns": of_input,
        f"{r.name}/columns": of_state,
        f"{bias_name}/input": biases[:columns],
        f"{bias_name}/state": biases[columns:],
    }
    return [onnx.numpy_helper.from_array(each, name) for name, each in values.items()]
