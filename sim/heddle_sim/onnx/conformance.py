"""Conformance: the published node cases of ONNX on a device, one after the other.

python -m heddle_sim.onnx.conformance --config base --simulator golden

Of each case the first operand is the input of a network, with states and lengths of recurrent operators; the others are its constants.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from heddle.errors import HeddleError

from ..cli.common import CommandFailed, add_config, add_device, add_json, configuration, open_device, print_rows, progress_for
from ..device import Device
from ..models import load_model
from ..models.comparison import difference
from ..packages import needed

__all__ = ["OPERATORS", "CaseResult", "cases", "main", "run_case"]

OPERATORS = ("MatMulInteger", "QLinearMatMul", "Gemm", "MatMul", "ConvInteger", "QLinearConv", "Conv", "AveragePool", "GlobalAveragePool",
             "MaxPool", "Add", "LSTM", "GRU", "RNN")
_COMPUTED = {"LSTM": (0, 4, 5, 6), "GRU": (0, 4, 5), "RNN": (0, 4, 5), "Add": (0, 1), "MatMul": (0, 1), "Gemm": (0, 1, 2)}
# Greatest difference of a result on the device: steps of integers that are rounded, real numbers of recurrent layers, sums exactly.
TOLERANCES = {"QLinearMatMul": 1.0, "QLinearConv": 1.0, "LSTM": 0.02, "GRU": 0.02, "RNN": 0.02}
HOST_TOLERANCE = 1e-4


@dataclass(frozen=True)
class CaseResult:
    """A case: "passed" on the device, "host" (passed there, and why), "wrong" or "refused" (and why).

    ``difference``: the greatest one; None where the case was refused, and where results have other types or shapes than wanted.
    """

    op: str
    case: str
    result: str
    difference: float | None
    why: str

    def as_row(self) -> dict[str, Any]:
        """Fields by name."""
        return asdict(self)


def cases(operators: Sequence[str] = OPERATORS) -> Iterator[Any]:
    """Cases of one node with one of ``operators``, by name."""
    package = "onnx.backend.test.case.node"
    collected = needed(package, "the conformance table", "test")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")     # of their references: overflows, and floating-point flags that numpy's products leave
        for op in operators:                # a module adds its cases when it is imported
            needed(f"{package}.{op.lower()}", "the conformance table", "test")
        found = [case for case in collected._NodeTestCases
                 if case.model and len(case.model.graph.node) == 1 and case.model.graph.node[0].op_type in operators]
    yield from sorted(found, key=lambda case: (operators.index(case.model.graph.node[0].op_type), case.name))


def run_case(case: Any, device: Device) -> CaseResult:
    """``CaseResult`` of one of ``cases``."""
    node = case.model.graph.node[0]
    op, names = node.op_type, [value.name for value in case.model.graph.input]
    arrays, wanted = case.data_sets[0]
    operands = dict(zip(names, map(np.asarray, arrays)))
    computed = {node.input[place] for place in _COMPUTED.get(op, (0,)) if place < len(node.input)}
    constants = {name: array for name, array in operands.items() if name not in computed}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.onnx"
        path.write_bytes(case.model.SerializeToString())
        try:
            with load_model(path, device, constants=constants) as model:
                found = model.run({name: operands[name] for name in model.graph.inputs})
                (placed,) = model.placement
        except HeddleError as error:
            return CaseResult(op, case.name, "refused", None, str(error).replace(f"{path} ", ""))
    on_device = placed.where == "device"
    results, wanted = list(found.outputs.values()), [np.asarray(array) for array in wanted]
    forms, wanted_forms = (", ".join(f"{array.dtype} {array.shape}" for array in arrays) for arrays in (results, wanted))
    if forms != wanted_forms:
        return CaseResult(op, case.name, "wrong", None, f"Results must be {wanted_forms}, not {forms}.")
    differences = [float(difference(mine, other).most) for mine, other in zip(results, wanted)]
    tolerance = TOLERANCES.get(op, 0.0) if on_device else HOST_TOLERANCE
    greatest = float(np.max(differences))           # no number where one of them is none
    if not greatest <= tolerance:
        return CaseResult(op, case.name, "wrong", greatest, f"Differs by more than {tolerance:g}.")
    return CaseResult(op, case.name, "passed" if on_device else "host", greatest, placed.why)


def main(arguments: list[str] | None = None) -> int:
    """Print the table of all cases; returns 0 where none is wrong or refused, 1 where one is, 2 for wrong use."""
    parser = argparse.ArgumentParser(prog="python -m heddle_sim.onnx.conformance", description="Node cases of ONNX on the device.")
    add_config(parser)
    add_device(parser)
    add_json(parser)
    options = parser.parse_args(arguments)
    try:
        cfg = configuration(options)
        with progress_for(options) as progress, open_device(options, cfg, progress) as device:
            progress.close()
            rows = [run_case(case, device).as_row() for case in cases()]
        print_rows(options, "onnx conformance", cfg.name, rows, dict.fromkeys(("op", "case", "result", "difference", "why")))
        bad = [row["case"] for row in rows if row["result"] in ("wrong", "refused")]
        if bad:
            raise CommandFailed(f"all cases must pass, not {len(bad)} fail: {', '.join(bad)}")
    except HeddleError as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 2 if error.wrong_use else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
