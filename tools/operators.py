"""Every operator of torch, and which of them discovery knows.

python -m tools.operators             # prints those without a rule, in groups
python -m tools.operators --write     # brings tests/support/without_rule.txt up to date, which a test compares
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from leanrnn.discovery.instead import instead_of
from leanrnn.discovery.rules import find

__all__ = ["LIST", "listing", "without_rule"]

LIST = Path(__file__).parents[1] / "tests" / "support" / "without_rule.txt"
GROUPS = {
    "backward passes, which no forward runs": r"backward|_grad$|_jvp$|grad_",
    "sparse tensors": r"sparse|_csr|_coo|_bsr|_csc|_bsc|coalesce|indices|nnz|hspmm|sspaddmm|spdiags|spsolve|values|"
    r"_dim[IV]|(dense|sparse)_dim|cslt|_to_dense",
    "quantised numbers": r"quant|^q_|qscheme|int_repr|_fq_|int4pack|int8pack|scaled_mm|grouped_mm|mixed_dtypes",
    "lists of tensors, as optimizers use them": r"_foreach_|_fused_(ada|sgd)|_amp_|_chunk_cat",
    "nested tensors": r"nested|jagged|to_padded",
    "kernels of one device, switched off while recording": r"cudnn|miopen|mkldnn|_mps|mps_|nnpack|flash|efficient_att|"
    r"_triton|scaled_dot_product|fused_sdp|_lstm|slow_conv|conv_depthwise|multi_head_attention|transformer_encoder|"
    r"transform_bias|batch_norm_(stats|elemt|gather|update)|thnn|overrideable",
    "memory, dispatch and checks": r"set_|^set|resize|record_stream|pin|_copy_from|storage|dispatch|primal|dual|"
    r"_assert|sym_constrain|_print|same_size|is_set|dep_token|_test_|foobar|from_file|philox|_functional|alias|mem_eff|"
    r"check_errors|like_meta|zeros_with|_use_|as_strided|reshape_alias|hash_tensor",
    "random numbers of rare kinds": r"dirichlet|binomial|poisson|dropout|rrelu",
}


def _overloads() -> Iterator[tuple[str, Any]]:
    """All operators with the name under which they are listed, without those that only write to ``out=``."""
    for full in sorted(torch._C._dispatch_get_all_op_names()):
        name, _, overload = full.removeprefix("aten::").partition(".")
        if full.startswith("aten::"):
            op = getattr(getattr(torch.ops.aten, name), overload or "default")
            if not any(a.is_out for a in op._schema.arguments):
                yield name, op


def without_rule() -> list[str]:
    """Operators that pin what they touch; with the overload where others of the same name are known."""
    known: dict[str, dict[str, bool]] = {}
    for name, op in _overloads():
        known.setdefault(name, {})[op._overloadname] = find(op) is not None or instead_of(op) is not None
    found: list[str] = []
    for name, overloads in known.items():
        missing = [o for o, is_known in overloads.items() if not is_known]
        found += [name] if len(missing) == len(overloads) else [f"{name}.{o}" for o in missing]
    return found


def group_of(name: str) -> str:
    """The first group whose pattern fits."""
    return next((title for title, pattern in GROUPS.items() if re.search(pattern, name)), "everything else")


def listing() -> str:
    """The list as text: a line per group, its operators below."""
    names = without_rule()
    lines = [f"# torch {torch.__version__.partition('+')[0]}: {len(names)} operators pin what they touch"]
    for title in (*GROUPS, "everything else"):
        mine = [n for n in names if group_of(n) == title]
        lines += [f"\n## {title}: {len(mine)}", *mine]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the list, and write it down if asked to."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m tools.operators", description=__doc__, formatter_class=form)
    parser.add_argument("--write", action="store_true", help="write the list into tests/support/without_rule.txt")
    if parser.parse_args().write:
        LIST.write_text(listing(), encoding="utf-8")
    print(listing(), end="")


if __name__ == "__main__":
    main()
