"""Published node cases of ONNX: each integer and recurrent one that fits runs on the device."""

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


def test_wrong_use_is_2(capsys):
    assert main(["--config", "nope"]) == 2
    assert "configuration must be one of base, " in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--simulator", "nothing"])
