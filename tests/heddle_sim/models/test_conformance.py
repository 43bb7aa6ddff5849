"""Published node cases of ONNX: each integer and recurrent one that fits runs on the device."""

from dataclasses import replace

import numpy as np
import pytest
from heddle_sim import Device
from heddle_sim.onnx.conformance import OPERATORS, cases, main, run_case

ON_DEVICE = {"MatMulInteger", "QLinearMatMul", "ConvInteger", "QLinearConv", "LSTM", "GRU", "RNN"}


def few(chosen):
    """All cases of operators of the device, the first of each other one."""
    seen = set()
    for case in chosen:
        op = case.model.graph.node[0].op_type
        if op in ON_DEVICE or op not in seen or case.name.endswith("maxpool_2d_uint8"):
            yield case
        seen.add(op)


@pytest.mark.parametrize("choose, backend", [(few, "golden"), pytest.param(list, "golden", marks=pytest.mark.nightly),
                                               pytest.param(list, "verilator", marks=pytest.mark.nightly)])
def test_cases(choose, backend, record_property):
    with Device("base", backend, memory_bytes=1 << 20) as device:
        found = [run_case(case, device) for case in choose(cases())]
    assert {one.op for one in found} == set(OPERATORS)
    assert [one for one in found if one.result not in ("passed", "host")] == []
    for one in found:
        fits = one.op in ON_DEVICE or one.case.endswith("maxpool_2d_uint8")
        assert one.result == ("passed" if fits else "host"), one
        assert one.result == "passed" or one.why.endswith(".")
    record_property("ran", f"{sum(one.result == 'passed' for one in found)} of {len(found)} cases on the device")


@pytest.mark.parametrize("name, change, says", [
    ("test_convinteger_without_padding", lambda y: [y + 1], "Differs by more than 0."),
    ("test_add", lambda y: [np.where(np.arange(y.size).reshape(y.shape) == 1, np.float32(np.nan), y)], "Differs by more than 0.0001."),
    ("test_add", lambda y: [y.astype(np.float64)], "Results must be float64 (3, 4, 5), not float32 (3, 4, 5)."),
    ("test_add", lambda y: [y[None]], "Results must be float32 (1, 3, 4, 5), not float32 (3, 4, 5)."),
    ("test_add", lambda y: [y, y], "Results must be float32 (3, 4, 5), float32 (3, 4, 5), not float32 (3, 4, 5)."),
])
def test_other_results_are_wrong(name, change, says):
    """Other values, no numbers, other types, shapes and numbers of results."""
    (case,) = (case for case in cases(("Add", "ConvInteger")) if case.name == name)
    arrays, (wanted,) = case.data_sets[0]
    with Device("base", "golden", memory_bytes=1 << 20) as device:
        found = run_case(replace(case, data_sets=[(arrays, change(np.asarray(wanted)))]), device)
    assert (found.result, found.why) == ("wrong", says)


def test_wrong_use_is_2(capsys):
    assert main(["--config", "nope"]) == 2
    assert "configuration must be one of base, " in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--simulator", "nothing"])
