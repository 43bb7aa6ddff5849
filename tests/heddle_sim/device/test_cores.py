"""Several cores on one problem [S0.14]: shares of a matrix product, core numbers, errors, counters, AXI ports."""

import json
import re

import numpy as np
import pytest
from heddle import Config, load_config
from heddle.isa.error_codes import ErrorCode
from heddle.isa.register_map import REGISTERS
from heddle.top import Top
from heddle.units import make_unit
from heddle_sim import Device, DeviceError
from heddle_sim.backends.verilator_device import MemorySettings
from heddle_sim.cli.generate import port_list
from heddle_sim.cli.main import main
from heddle_sim.functional.simulator import FunctionalSimulator
from heddle_sim.kernels.parts.shares import share_out
from heddle_verif.variants.shared_devices import FOUR_CORES, OWN_PORTS, TWO_CORES

MEMORY_BYTES = 1 << 18


@pytest.fixture(params=[TWO_CORES, *(pytest.param(cfg, marks=pytest.mark.nightly) for cfg in (OWN_PORTS, FOUR_CORES))],
                ids=lambda cfg: cfg.name)
def cfg(request):
    return request.param


@pytest.fixture(params=["golden", "verilator"])
def device(cfg, request):
    with Device(cfg, request.param, memory_bytes=MEMORY_BYTES, timeout_cycles=20_000) as device:
        yield device


def operands(m, n, k, seed=0):
    generator = np.random.default_rng([m, n, k, seed])
    return generator.integers(-128, 128, (m, k), np.int8), generator.integers(0, 256, (k, n), np.uint8)


# -- shares ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cores", [1, 2, 3, 4, 7, 16])
def test_shares_cover_the_result_once_and_are_balanced(cores):
    rng = np.random.default_rng(cores)
    for _ in range(200):
        m, n = (int(size) for size in rng.integers(1, 150, 2))
        block = int(rng.choice([8, 32]))
        covered = np.zeros((m, n), int)
        shares = share_out(cores, m, n, block)
        assert 1 <= len(shares) <= cores
        for share in shares:
            assert share.rows > 0 and share.columns > 0 and share.row % block == share.column % block == 0
            covered[share.row : share.row + share.rows, share.column : share.column + share.columns] += 1
        assert (covered == 1).all()
        busiest = max(-(-share.rows // block) * share.columns for share in shares)
        assert busiest <= -(-m // (block * cores)) * n       # never worse than bands of rows alone


@pytest.mark.parametrize(
    "m, n, columns, rows",
    [
        (1024, 512, [0, 0, 0, 0], [0, 256, 512, 768]),
        (32, 512, [0, 128, 256, 384], [0, 0, 0, 0]),    # fewer blocks of rows than cores
        (160, 512, [0, 128, 256, 384], [0, 0, 0, 0]),   # five blocks of rows: columns balance better
        (64, 64, [0, 32, 0, 32], [0, 0, 32, 32]),
        (5, 5, [0], [0]),
    ],
)
def test_shares_of_four_cores(m, n, columns, rows):
    shares = share_out(4, m, n, 32)
    assert [share.column for share in shares] == columns and [share.row for share in shares] == rows


# -- matrix products ------------------------------------------------------------------------

SHAPES = [(1, 1, 1), (8, 8, 4), (7, 40, 5), (24, 9, 17), (25, 24, 64), (40, 1, 33), (64, 30, 16), (17, 45, 150), (33, 50, 40), (3, 100, 20)]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_matmul_equals_numpy(device, shape):
    """Ragged shapes, fewer blocks than cores, shares by rows and by columns, k in chunks."""
    m, n, k = shape
    a, b = operands(m, n, k)
    for _ in range(2):      # also with what registers and shared memory keep
        c, stats = device.matmul(a, b)
        assert np.array_equal(c, a.astype(np.int32) @ b.astype(np.int32))
    assert stats.peak_macs_per_cycle == device.cfg.cores * 32
    if stats.cycles is not None:
        assert stats.cycles == sum(stats.breakdown.values())


def test_matmul_whatever_the_memory_does(cfg):
    settings = MemorySettings(latency=20, jitter=90, stall=0.2, interleave=True, seed=5)
    with Device(cfg, memory_bytes=MEMORY_BYTES, memory_settings=settings) as device:
        for m, n, k in SHAPES[2:6]:
            a, b = operands(m, n, k, seed=1)
            assert np.array_equal(device.matmul(a, b)[0], a.astype(np.int32) @ b.astype(np.int32))


def test_cores_share_the_work(cfg):
    """A product of as many equal shares as cores takes little longer than one share on one core."""
    m, n, k = 8, 24, 64
    with Device(cfg, memory_bytes=MEMORY_BYTES) as device:
        one = device.matmul(*operands(m, n, k))[1]
        all_cores = device.matmul(*operands(cfg.cores * m, n, k))[1]
        part = device.matmul(*operands(m, n // cfg.cores, k))[1]
    assert part.cycles < one.cycles * 1.2
    assert all_cores.counters["matrix_steps"] == cfg.cores * one.counters["matrix_steps"]
    assert all_cores.cycles < 2.2 * one.cycles


# -- programs -------------------------------------------------------------------------------

# Thread t of core c stores c * 256 + cores * 16 + t to word c * threads + t.
NUMBERS = """
    umov ur1, %core
    umov ur2, %cores
    ushl ur3, ur1, 5
    uadd ur3, ur3, ur0
    segment.global.b32.d1 ur8, ur3
    mov r300, %tid
    mov r0, %core
    shl r0, r0, 8
    mov r1, %cores
    shl r1, r1, 4
    add r0, r0, r1
    add r0, r0, r300
    st.b32 ur8:rf300:0, r0
    halt
"""


def numbers(device):
    cores, threads = device.cfg.cores, device.cfg.threads
    assert 4 * threads == 1 << 5
    address = device.allocate(4 * threads * cores)
    stats = device.run(NUMBERS, uniform={0: address})
    found = device.read(address, (cores, threads), np.int32)
    expected = [[core * 256 + cores * 16 + thread for thread in range(threads)] for core in range(cores)]
    assert found.tolist() == expected
    device.free(address)
    return stats


def test_cores_know_their_numbers(device):
    stats = numbers(device)
    assert stats.counters["instructions"] == device.cfg.cores * 14


def test_counters_add_up_over_the_cores(cfg):
    a, b = operands(40, 30, 24)
    with Device(cfg, memory_bytes=MEMORY_BYTES) as device, Device(cfg, "golden", memory_bytes=MEMORY_BYTES) as golden:
        before = device._backend.simulation.traffic
        _, found = device.matmul(a, b)
        after = device._backend.simulation.traffic
        _, expected = golden.matmul(a, b)
    for name, value in expected.counters.items():
        assert found.counters[name] == value > 0, name
    for counter, traffic in (("read_requests", "read_bursts"), ("read_beats", "read_beats"),
                             ("write_requests", "write_bursts"), ("write_beats", "write_beats")):
        assert found.counters[counter] == after[traffic] - before[traffic] > 0


def on_core(core, body, others="halt"):
    """A program whose ``body`` runs on one core."""
    return f"umov ur1, %core\nusetp.eq up0, ur1, {core}\n@up0 bra body\n{others}\nbody: {body}\nhalt\n"


@pytest.mark.parametrize("core", [
    pytest.param(0, id="first"), pytest.param(-1, id="last"), *(pytest.param(core, marks=pytest.mark.nightly) for core in (1, 2))])
@pytest.mark.parametrize(
    "body, code, pc, operand",
    [
        ("trap 7", ErrorCode.TRAP, 4, 7),
        (".word 0", ErrorCode.ILLEGAL_INSTRUCTION, 4, 0),
        ("bra body", ErrorCode.TIMEOUT, 4, 20_000),
        ("barrier.expect b3, 16\nbarrier.wait b3", ErrorCode.BARRIER_UNDERRUN, 5, 3),
        ("segment.global.b32.d1 ur8, 0x200000\nmov r300, 0\nld.b32 r0, ur8:rf300:0", ErrorCode.AXI_READ, 6, 0x200000),
        ("lanemask\nmov r300, 0\nsegment.shared.b8.d1 ur8, 0\nmm8.sa.sb.k1 r255, ur8:rf300:0, r256", ErrorCode.PRODUCT_RANGE, 7, 256),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else None,
)
def test_an_error_names_its_core(device, core, body, code, pc, operand):
    core %= device.cfg.cores
    with pytest.raises(DeviceError) as caught:
        device.run(on_core(core, body))
    error = caught.value
    assert (error.code, error.pc, error.operand, error.core) == (code, pc, operand, core)
    assert f" of core {core}: " in str(error)
    numbers(device)


def test_an_error_in_one_core_stops_all(cfg):
    with Device(cfg, memory_bytes=MEMORY_BYTES, timeout_cycles=20_000) as device:
        with pytest.raises(DeviceError) as caught:
            device.run(on_core(1, "trap 7", "others: bra others"))
        assert (caught.value.code, caught.value.core) == (ErrorCode.TRAP, 1)
        assert caught.value.stats.cycles < 200
        assert device._backend.simulation.read(REGISTERS["error_core"][0]) == 1
        numbers(device)
        assert device._backend.simulation.read(REGISTERS["error_core"][0]) == 0


def test_a_stopping_error_replaces_one_that_does_not_stop(device):
    body = "mov r300, 0\nsegment.shared.b8.d1 ur8, 0\nmm8.sa.sb.k1 r255, ur8:rf300:0, r256\nwait.matrix"
    wait = "umov ur2, 100\nloop: usub ur2, ur2, 1\nusetp.gt up1, ur2, 0\n@up1 bra loop\ntrap 3"
    with pytest.raises(DeviceError) as caught:
        device.run(on_core(0, body, wait))
    assert (caught.value.code, caught.value.core) == (ErrorCode.TRAP, 1)


def test_errors_of_one_core_name_none():
    with Device("tiny", "golden", memory_bytes=4096) as device, pytest.raises(DeviceError) as caught:
        device.run("trap 7")
    assert caught.value.core is None and "core" not in str(caught.value)


def test_number_of_a_simulated_core():
    with pytest.raises(ValueError, match="^core must be from 0 to 3, not 4$"):
        FunctionalSimulator(FOUR_CORES, core=4)


# -- ports ----------------------------------------------------------------------------------

# Copies 8 KiB to the shared memory of every core whose number is below ur0.
COPY = """
    umov ur1, %core
    usetp.ge up0, ur1, ur0
    @up0 bra end
    umov ur2, 0
    umov ur3, 0
    umov ur4, 512
    copy_block.shared.global ur2, ur3, ur4
    wait.copy
end: halt
"""


def test_each_core_has_the_bandwidth_of_its_own_port(cfg):
    with Device(cfg, memory_bytes=MEMORY_BYTES) as device:
        cycles = {count: device.run(COPY, uniform={0: count}).cycles for count in (1, cfg.cores)}
        beats = 8192 // cfg.axi_bytes
    assert beats < cycles[1] < 1.5 * beats
    assert cycles[cfg.cores] <= cycles[1] + 20


def test_ports_carry_the_number_of_their_core():
    names = [port["name"] for port in port_list(Top(FOUR_CORES))]
    assert len(set(names)) == len(names)
    axi = [name for name in names if name.startswith("m_axi_")]
    one = [port["name"].removeprefix("m_axi_") for port in port_list(Top(load_config("tiny"))) if port["name"].startswith("m_axi_")]
    assert sorted(axi) == sorted(f"m_axi_{core}_{name}" for core in range(4) for name in one)
    assert [name for name in names if not name.startswith("m_axi_")] == [
        port["name"] for port in port_list(Top(load_config("tiny"))) if not port["name"].startswith("m_axi_")]


def test_a_core_is_elaborated_once(tmp_path):
    """``heddle generate`` with several cores: one module of a core, as many instances as cores."""
    path = tmp_path / "pair.toml"
    path.write_text("threads = 8\ndot = 4\nshared_memory_kib = 4\nfactor_words = 32\ninstruction_words = 64\naxi_data_bits = 64\n"
                    "axi_reads = 2\naxi_writes = 2\nthread_slots = 1\ncores = 2\n")
    assert main(["generate", "--config", str(path), "-o", str(tmp_path), "--quiet"]) == 0
    text = (tmp_path / "heddle.v").read_text()
    assert len(re.findall(r"^module core\(", text, re.MULTILINE)) == 1
    assert len(re.findall(r"^ +core core_[01] \(", text, re.MULTILINE)) == 2
    assert json.loads((tmp_path / "heddle.json").read_text())["parameters"]["cores"] == 2


def test_bench_with_several_cores(capsys):
    assert main(["bench", "gemm", "--config", "quad", "--m", "130", "--n", "40", "--k", "20", "--simulator", "golden", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)["rows"][0]
    assert row["checked"] and row["peak_macs_per_cycle"] == 1024


def test_counters_of_several_cores_are_a_unit():
    assert make_unit("performance_counters", Config(cores=3)).events.instructions.shape().width == 2
