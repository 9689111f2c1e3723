"""A file of C with a byte for each weight of its matrices and tables.

A scale for every row. What a matrix is multiplied with is rounded to 16 bits, with a scale for the step, so that whole
numbers are multiplied and added, and nearly nothing is lost but in the weights. Biases and norms stay as they are.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from leanrnn.deploy.formats.c.source import Source

__all__ = ["in_bytes"]


def in_bytes(source: Source) -> Source:
    """The same model in eight bits."""
    arrays, body, widest = dict[str, NDArray[np.float32 | np.int8]](), source.body, 0
    for name, values in source.arrays.items():
        if name in source.matrices:
            rows, columns = source.matrices[name]
            weights = values.reshape(columns, rows).T
            body = re.sub(
                rf"add_product\((.+), {name}, (\d+), (\d+)\);",
                rf"add_product_of_bytes(\1, {name}, {name}_scales, rounded, \2, \3);",
                body,
            )
            widest = max(widest, columns)
        elif name in source.tables:
            weights = values.reshape(source.tables[name], -1)
            body = re.sub(
                rf"= {name}\[(\d+) \* (.+) \+ i\];", rf"= {name}_scales[\2] * (float){name}[\1 * \2 + i];", body
            )
        else:
            arrays[name] = values
            continue
        scales = np.abs(weights).max(1) / 127
        rounded = np.round(weights / np.where(scales > 0, scales, 1)[:, None]).astype(np.int8)
        arrays |= {name: rounded.reshape(-1), f"{name}_scales": scales.astype(np.float32)}
    kernels = dict.fromkeys("add_product_of_bytes" if name == "add_product" else name for name in source.kernels)
    return replace(source, arrays=arrays, body=body, kernels=tuple(kernels), rounded=widest, matrices={}, tables={})
