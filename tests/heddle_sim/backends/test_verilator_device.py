"""The C++ harness with its AXI memory, on a small stand-in for the device: data, errors, protocol checks, timing."""

import numpy as np
import pytest
from heddle import load_config
from heddle.emit import emit_verilog
from heddle.isa.error_codes import ErrorCode
from heddle.isa.register_map import COUNTER_WINDOW, DEVICE_ID, REGISTERS, UNIFORM_WINDOW
from heddle_sim.backends.verilator_build import device_library
from heddle_sim.backends.verilator_device import MemorySettings, RtlSimulation, SimulationError
from heddle_sim.toolchain.build_cache import BuildError
from heddle_sim.toolchain.programs import ToolError
from heddle_verif.duts.axi_dut import BEATS, TAGS, CopyTop

MEMORY = 1 << 20
DESTINATION = MEMORY // 2
GROUP_BEATS = TAGS * BEATS


def make(config, settings=None, faults=()):
    cfg = load_config(config)
    memory = np.zeros(MEMORY, np.uint8)
    return RtlSimulation(cfg, memory, settings, verilog=emit_verilog(CopyTop(cfg, faults), name="heddle"))


@pytest.fixture(scope="module", params=["tiny", pytest.param("large", marks=pytest.mark.nightly)])
def simulation(request):
    simulation = make(request.param)
    yield simulation
    simulation.close()


def start(simulation, groups, source=0, destination=DESTINATION):
    for number, value in enumerate((source, destination, groups)):
        simulation.write(UNIFORM_WINDOW + 4 * number, value)
    simulation.write(REGISTERS["interrupt"][0], 3)
    simulation.write(REGISTERS["control"][0], 1)


def copy(simulation, groups, seed=0):
    """Copies random bytes and compares the whole memory; returns the cycles that the stand-in counted."""
    size = groups * GROUP_BEATS * simulation.cfg.axi_bytes
    memory = simulation.memory
    memory[:] = np.random.default_rng(seed).integers(0, 256, MEMORY, np.uint8)
    expected = memory.copy()
    expected[DESTINATION : DESTINATION + size] = expected[:size]
    start(simulation, groups)
    assert simulation.run_until_interrupt(100_000)
    assert np.array_equal(memory, expected)
    return simulation.read(COUNTER_WINDOW)


@pytest.mark.parametrize(
    "settings",
    [
        MemorySettings(),
        MemorySettings(latency=1),
        MemorySettings(bandwidth=0.3),
        MemorySettings(jitter=80, seed=1),
        MemorySettings(jitter=80, interleave=True, stall=0.3, seed=2),
        MemorySettings(jitter=80, reorder=False, seed=3),
        MemorySettings(outstanding=TAGS, stall=0.5, seed=4),
    ],
    ids=["plain", "latency_1", "slow", "jitter", "interleaved", "in_order", "few_outstanding"],
)
def test_copies_are_exact_whatever_the_memory_does(simulation, settings):
    simulation.reset()
    simulation.configure(settings)
    before = simulation.traffic
    copy(simulation, groups=9, seed=settings.seed)
    after = simulation.traffic
    for kind in ("read", "write"):
        assert after[f"{kind}_beats"] - before[f"{kind}_beats"] == 9 * GROUP_BEATS
        assert after[f"{kind}_bursts"] - before[f"{kind}_bursts"] == 9 * TAGS


def test_registers_answer(simulation):
    assert simulation.read(REGISTERS["id"][0]) == DEVICE_ID
    assert simulation.read(REGISTERS["dot"][0]) == simulation.cfg.dot


def test_latency_is_what_was_asked_for(simulation):
    """A group waits for the latency twice: for the first beat and for the last response."""
    cycles = {}
    for latency in (10, 110):
        simulation.reset()
        simulation.configure(MemorySettings(latency=latency))
        cycles[latency] = copy(simulation, groups=4)
    assert cycles[110] - cycles[10] == 4 * 2 * 100


def test_bandwidth_is_what_was_asked_for(simulation):
    cycles = {}
    for bandwidth in (1.0, 0.25):
        simulation.reset()
        simulation.configure(MemorySettings(latency=1, bandwidth=bandwidth))
        cycles[bandwidth] = copy(simulation, groups=20)
    ideal = 2 * 20 * GROUP_BEATS
    assert ideal <= cycles[1.0] < 1.7 * ideal
    assert 4 * ideal * 0.9 <= cycles[0.25] < 4 * ideal * 1.3


def test_a_seed_repeats_a_run(simulation):
    cycles = []
    for seed in (7, 7, 8):
        simulation.reset()
        simulation.configure(MemorySettings(jitter=200, stall=0.2, interleave=True, seed=seed))
        cycles.append(copy(simulation, groups=12))
    assert cycles[0] == cycles[1] != cycles[2]


@pytest.mark.parametrize(
    "source, destination, settings, code",
    [
        (MEMORY, DESTINATION, MemorySettings(), ErrorCode.AXI_READ),
        (0, MEMORY + 4096, MemorySettings(), ErrorCode.AXI_WRITE),
        (0, DESTINATION, MemorySettings(error_range=(64, 1)), ErrorCode.AXI_READ),
        (0, DESTINATION, MemorySettings(error_range=(DESTINATION + 64, 1)), ErrorCode.AXI_WRITE),
    ],
    ids=["read_beyond", "write_beyond", "read_range", "write_range"],
)
def test_errors_are_answered_and_leave_the_memory_alone(simulation, source, destination, settings, code):
    simulation.reset()
    simulation.configure(settings)
    start(simulation, 1, source, destination)
    assert simulation.run_until_interrupt(10_000)
    assert simulation.read(REGISTERS["error_code"][0]) == code.value
    simulation.configure(MemorySettings())
    copy(simulation, groups=2)


def test_no_interrupt_is_noticed_and_a_reset_helps(simulation):
    simulation.reset()
    simulation.configure(MemorySettings(latency=1000))
    start(simulation, 1)
    assert not simulation.run_until_interrupt(500)
    simulation.reset()
    simulation.configure(MemorySettings())
    copy(simulation, groups=1)


@pytest.mark.parametrize(
    "faults, message",
    [
        pytest.param(("size",), "size must be the width of the bus", marks=pytest.mark.nightly),
        (("drop",), "valid and payload must stay until ready"),
    ],
)
def test_broken_protocol_is_reported(faults, message):
    simulation = make("tiny", MemorySettings(stall=0.5), faults)
    start(simulation, 4)
    with pytest.raises(SimulationError, match=message):
        simulation.run(2_000)


def test_a_burst_across_4_kib_is_reported():
    simulation = make("tiny")
    start(simulation, 1, source=4096 - simulation.cfg.axi_bytes)
    with pytest.raises(SimulationError, match="must not cross 4 KiB"):
        simulation.run(1_000)


def test_two_devices_live_in_one_process(simulation):
    other = make("tiny")
    simulation.reset()
    simulation.configure(MemorySettings())
    first = copy(simulation, groups=3)
    assert copy(other, groups=3) == first
    other.close()
    assert copy(simulation, groups=3) == first


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"latency": 0}, "latency must be an integer from 1, not 0"),
        ({"jitter": -1}, "jitter must be an integer from 0, not -1"),
        ({"bandwidth": 0}, r"bandwidth must be above 0 and at most 1 \(beats per cycle\), not 0"),
        ({"bandwidth": 1.5}, "bandwidth must be above 0"),
        ({"stall": 1.0}, "stall must be from 0 to below 1, not 1.0"),
        ({"outstanding": 0}, "outstanding must be an integer from 1, not 0"),
    ],
)
def test_memory_settings_are_checked(parameters, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        MemorySettings(**parameters)


def test_a_failed_build_says_what_the_tool_said(monkeypatch, tmp_path):
    monkeypatch.setenv("HEDDLE_BUILD", str(tmp_path))
    with pytest.raises(BuildError, match="verilator failed"):
        device_library("module heddle(input clk; endmodule", load_config("tiny"))


@pytest.mark.nightly
@pytest.mark.parametrize("form", ["vcd", "fst"])
def test_waves(form, tmp_path):
    """Of a range of cycles only; a build without waves refuses them. The fst format needs headers that may not be installed."""
    cfg, path = load_config("tiny"), tmp_path / f"waves.{form}"
    verilog = emit_verilog(CopyTop(cfg, ()), name="heddle")
    try:
        simulation = RtlSimulation(cfg, np.zeros(MEMORY, np.uint8), None, verilog=verilog, waves=form)
    except ToolError as error:
        if form == "vcd":
            raise
        pytest.skip(str(error))
    sizes = []
    for skip, count in ((0, 40), (10, 5)):
        simulation.open_waves(str(path))
        simulation.write_waves(skip, count)
        copy(simulation, 1)
        assert simulation.waves_left() == 0
        simulation.close_waves()
        sizes.append(path.stat().st_size)
        if form == "vcd":
            times = [int(line[1:]) for line in path.read_text().splitlines() if line.startswith("#")]
            assert len(times) == 2 * count and max(times) - min(times) == 2 * count - 1
    assert 0 < sizes[1] < sizes[0]
    simulation.close()
    plain = make("tiny")
    with pytest.raises(SimulationError, match="waves must be written by a build with waves"):
        plain.open_waves(str(path))
    plain.close()
