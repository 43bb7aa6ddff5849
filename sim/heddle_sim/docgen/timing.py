"""Timing diagrams of the pages of the units, each drawn from a simulation of the unit in Amaranth's simulator.

``python -m heddle_sim.docgen.timing FOLDER`` writes them. Names of signals are those of the ports.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amaranth.sim import Simulator
from heddle.config import Config
from heddle.control.control_registers import ControlRegisters
from heddle.control.run_control import RunControl
from heddle.isa.encoding import Space
from heddle.isa.register_map import REGISTERS
from heddle.l2.unit import L2
from heddle.lib.stream import Queue
from heddle.memory.axi_master import AxiMaster
from heddle.memory.shared_memory import SharedMemory
from heddle.rnn.context_arbiter import ContextArbiter
from heddle.sparse.element_window import ElementWindow
from heddle.tmau.unit import Tmau

from ..draw.wave_svg import Wave, record, wave_svg
from .timing_core import core_diagrams

__all__ = ["DIAGRAMS", "diagrams"]

_AFTER_RESET = 120      # cycles in which the TMAU clears its tables


def _run(component: Any, testbenches: list[Callable[[Any], Any]], **waves: Any) -> list[Wave]:
    sim = Simulator(component)
    sim.add_clock(1e-6)
    recorded = record(sim, **waves)
    for testbench in testbenches:
        sim.add_testbench(testbench)
    sim.run()
    return recorded


def _stream(name: str, port: Any) -> dict[str, Any]:
    return {f"{name}.valid": port.valid, f"{name}.ready": port.ready, f"{name}.payload": port.payload}


def queue() -> str:
    """A queue of two items between a source that always offers and a sink that waits."""
    unit = Queue(8, depth=2)

    async def source(ctx: Any) -> None:
        for item in (3, 1, 4, 1, 5):
            ctx.set(unit.i.valid, 1)
            ctx.set(unit.i.payload, item)
            await ctx.tick().until(unit.i.ready)
        ctx.set(unit.i.valid, 0)
        await ctx.tick().repeat(3)

    async def sink(ctx: Any) -> None:
        for ready in (0, 0, 0, 1, 1, 0, 1, 1, 1):
            ctx.set(unit.o.ready, ready)
            await ctx.tick()

    signals = _stream("i", unit.i) | _stream("o", unit.o) | {"level": unit.level}
    return wave_svg(_run(unit, [source, sink], signals=signals, payloads={"i.payload": "i.valid", "o.payload": "o.valid"}))


def control() -> str:
    """A write of ``control`` starts a run; its end sets ``done`` and the interrupt."""
    from amaranth.hdl import Module
    from amaranth.lib.wiring import connect
    m, registers, run = Module(), ControlRegisters(Config()), RunControl(1, 1)
    m.submodules.registers, m.submodules.run = registers, run
    connect(m, run.status, registers.status)
    m.d.comb += [run.doorbell.eq(registers.doorbell), run.timeout.eq(registers.timeout)]
    core, access = run.cores[0], registers.access

    async def host(ctx: Any) -> None:
        for name, value in (("interrupt", 1), ("control", 1)):
            ctx.set(access.write, 1)
            ctx.set(access.write_address, REGISTERS[name][0])
            ctx.set(access.write_data, value)
            await ctx.tick()
        ctx.set(access.write, 0)
        await ctx.tick().repeat(4)
        ctx.set(core.ended, 1)
        await ctx.tick().repeat(2)
        ctx.set(core.idle, 1)
        await ctx.tick().repeat(5)

    signals = {"access.write": access.write, "access.write_address": access.write_address, "doorbell": registers.doorbell,
               "run.start": core.start, "run.ended": core.ended, "run.idle": core.idle, "status.running": run.status.running,
               "status.finished": run.status.finished, "status.done": run.status.done, "interrupt": registers.interrupt}
    return wave_svg(_run(m, [host], signals=signals, payloads={"access.write_address": "access.write"},
                         texts={"access.write_address": lambda value: f"{value:#x}"}))


def axi_master() -> str:
    """A read of two beats through the AXI master."""
    unit = AxiMaster(Config(axi_data_bits=64))
    request, answer = unit.i.read_request, unit.i.read_data

    async def requester(ctx: Any) -> None:
        ctx.set(answer.ready, 1)
        ctx.set(request.payload, {"address": 0x100, "beats_minus_one": 1, "tag": 5})
        ctx.set(request.valid, 1)
        await ctx.tick().until(request.ready)
        ctx.set(request.valid, 0)
        await ctx.tick().repeat(9)

    async def memory(ctx: Any) -> None:
        ctx.set(unit.m_axi_arready, 1)
        await ctx.tick().until(unit.m_axi_arvalid)
        await ctx.tick()
        for beat in range(2):
            ctx.set(unit.m_axi_rvalid, 1)
            ctx.set(unit.m_axi_rid, 5)
            ctx.set(unit.m_axi_rdata, 0x40 + beat)
            ctx.set(unit.m_axi_rlast, beat)
            await ctx.tick().until(unit.m_axi_rready)
        ctx.set(unit.m_axi_rvalid, 0)

    signals = {"read_request.valid": request.valid, "read_request.ready": request.ready, "m_axi_arvalid": unit.m_axi_arvalid,
               "m_axi_araddr": unit.m_axi_araddr, "m_axi_rvalid": unit.m_axi_rvalid, "m_axi_rdata": unit.m_axi_rdata,
               "m_axi_rlast": unit.m_axi_rlast, "read_data.valid": answer.valid, "read_data.data": answer.payload.data,
               "read_data.last": answer.payload.last, "pending": unit.pending}
    return wave_svg(_run(unit, [requester, memory], signals=signals,
                         texts=dict.fromkeys(("m_axi_araddr", "m_axi_rdata", "read_data.data"), hex),
                         payloads={"m_axi_araddr": "m_axi_arvalid", "m_axi_rdata": "m_axi_rvalid", "read_data.data": "read_data.valid"}))


def shared_memory() -> str:
    """Two readers ask for bank 0 in one cycle; then a write of the bank."""
    unit = SharedMemory(Config(shared_memory_kib=4), readers=2, writers=1)
    first, second, write = unit.read[0], unit.read[1], unit.write[0]

    async def reads(ctx: Any) -> None:
        for port, row in ((first, 1), (second, 2)):
            ctx.set(port.request.payload.bank, 1)
            ctx.set(port.request.payload.row[0], row)
            ctx.set(port.request.valid, 1)
        await ctx.tick()
        ctx.set(first.request.valid, 0)
        ctx.set(second.request.valid, 0)
        await ctx.tick().repeat(3)
        ctx.set(write.request.payload.bank, 1)
        ctx.set(write.request.payload.row[0], 1)
        ctx.set(write.request.valid, 1)
        await ctx.tick()
        ctx.set(write.request.valid, 0)
        await ctx.tick().repeat(3)

    signals = {"read[0].request.valid": first.request.valid, "read[0].request.ready": first.request.ready,
               "read[1].request.valid": second.request.valid, "read[1].request.ready": second.request.ready,
               "read[0].answer.valid": first.answer.valid, "read[1].answer.valid": second.answer.valid,
               "write[0].request.valid": write.request.valid, "write[0].written": write.written}
    return wave_svg(_run(unit, [reads], signals=signals))


def l2() -> str:
    """A line of 128 bytes is read twice: a miss, then a hit."""
    unit = L2(Config(axi_data_bits=256, l2_kib=4))
    core, below = unit.i[0], unit.o[0]

    async def reader(ctx: Any) -> None:
        ctx.set(core.read_data.ready, 1)
        ctx.set(core.read_request.payload, {"address": 0x1280, "beats_minus_one": 3})
        for _ in range(2):
            ctx.set(core.read_request.valid, 1)
            await ctx.tick().until(core.read_request.ready)
            ctx.set(core.read_request.valid, 0)
            await ctx.tick().until(core.read_data.valid & core.read_data.payload.last)
        await ctx.tick()

    async def memory(ctx: Any) -> None:
        ctx.set(below.read_request.ready, 1)
        await ctx.tick().until(below.read_request.valid)
        for beat in range(4):
            ctx.set(below.read_data.valid, 1)
            ctx.set(below.read_data.payload, {"data": beat, "last": beat == 3})
            await ctx.tick().until(below.read_data.ready)
        ctx.set(below.read_data.valid, 0)

    signals = {"i.read_request.valid": core.read_request.valid, "i.read_request.ready": core.read_request.ready,
               "event_miss": unit.event_miss, "event_hit": unit.event_hit,
               "o.read_request.valid": below.read_request.valid, "o.read_data.valid": below.read_data.valid,
               "i.read_data.valid": core.read_data.valid, "i.read_data.data": core.read_data.payload.data,
               "i.read_data.last": core.read_data.payload.last}
    return wave_svg(_run(unit, [reader, memory], signals=signals, payloads={"i.read_data.data": "i.read_data.valid"}))


def tmau() -> str:
    """A copy of 64 bytes from global to shared memory."""
    unit = Tmau(Config(axi_data_bits=128))
    request, answer, bank = unit.global_port.read_request, unit.global_port.read_data, unit.bank_write

    async def program(ctx: Any) -> None:
        await ctx.tick().repeat(_AFTER_RESET)
        ctx.set(unit.i_operation.payload, {"source_space": Space.GLOBAL, "source": 0x200, "destination": 0x50, "blocks": 4})
        ctx.set(unit.i_operation.valid, 1)
        await ctx.tick().until(unit.i_operation.ready)
        ctx.set(unit.i_operation.valid, 0)
        ctx.set(request.ready, 1)
        burst, = await ctx.tick().sample(request.payload).until(request.valid)
        for beat in range(4):
            ctx.set(answer.valid, 1)
            ctx.set(answer.payload, {"data": beat, "tag": burst.tag, "last": beat == 3})
            await ctx.tick().until(answer.ready)
        ctx.set(answer.valid, 0)
        await ctx.tick().repeat(9)

    async def shared(ctx: Any) -> None:
        ctx.set(bank.request.ready, 1)
        for _ in range(_AFTER_RESET + 20):
            _, _, asked = await ctx.tick().sample(bank.request.valid)
            ctx.set(bank.written, asked)

    signals = {"i_operation.valid": unit.i_operation.valid, "i_operation.ready": unit.i_operation.ready,
               "read_request.valid": request.valid, "read_request.address": request.payload.address, "read_data.valid": answer.valid,
               "bank_write.request.valid": bank.request.valid, "bank_write.request.bank": bank.request.payload.bank,
               "bank_write.written": bank.written, "done": unit.done, "busy": unit.busy}
    waves = _run(unit, [program, shared], signals=signals,
                 payloads={"read_request.address": "read_request.valid", "bank_write.request.bank": "bank_write.request.valid"},
                 texts={"read_request.address": hex, "bank_write.request.bank": lambda value: str(value.bit_length() - 1)})
    return wave_svg(waves, _AFTER_RESET)


def rnn_contexts() -> str:
    """Three contexts of the recurrent engine take turns; context 1 waits for its hidden vector in between."""
    unit = ContextArbiter(3)

    async def requests(ctx: Any) -> None:
        ctx.set(unit.take, 1)
        for ready, ends in ((0b011, 0b000), (0b011, 0b001), (0b111, 0b010), (0b101, 0b100), (0b001, 0b001), (0b010, 0b000),
                            (0b011, 0b010), (0b001, 0b000)):
            ctx.set(unit.ready, ready)
            ctx.set(unit.ends, ends)
            await ctx.tick()

    signals = {"ready": unit.ready, "ends": unit.ends, "take": unit.take, "valid": unit.valid, "choice": unit.choice}
    return wave_svg(_run(unit, [requests], signals=signals, texts=dict.fromkeys(("ready", "ends", "choice"), lambda value: f"{value:03b}")))


def sparse_window() -> str:
    """Non-zeros leave the element window of the sparse engine two at a time; the last word of a job is left in the middle."""
    unit = ElementWindow()

    async def words(ctx: Any) -> None:
        for word in range(3):
            for place in range(8):
                ctx.set(unit.i.payload.elements[place].as_value(), 8 * word + place)
            ctx.set(unit.i.valid, 1)
            await ctx.tick().until(unit.i.ready)
        ctx.set(unit.i.valid, 0)

    async def takes(ctx: Any) -> None:
        await ctx.tick()
        for begins, take, ends in ((1, 2, 0), (0, 2, 0), (0, 1, 0), (0, 2, 0), (0, 2, 0), (0, 2, 1), (0, 0, 0)):
            ctx.set(unit.begins, begins)
            ctx.set(unit.start, 3)
            ctx.set(unit.take, take)
            ctx.set(unit.ends, ends)
            await ctx.tick()

    signals = {"i.valid": unit.i.valid, "i.ready": unit.i.ready, "begins": unit.begins, "take": unit.take, "ends": unit.ends,
               "present": unit.present, "o[0]": unit.o[0].as_value(), "o[1]": unit.o[1].as_value(), "present[0]": unit.present[0],
               "present[1]": unit.present[1]}
    waves = _run(unit, [words, takes], signals=signals, payloads={"o[0]": "present[0]", "o[1]": "present[1]"},
                 texts={"present": lambda value: f"{value:02b}"})
    return wave_svg(waves[:-2], 0, 6)


DIAGRAMS: dict[str, Callable[[], str]] = {
    "queue": queue, "control": control, "axi-master": axi_master, "shared-memory": shared_memory, "l2": l2, "tmau": tmau,
    "rnn-contexts": rnn_contexts, "sparse-window": sparse_window,
}


def diagrams() -> dict[str, str]:
    """Name and text of the SVG file of every diagram."""
    return {name: draw() for name, draw in DIAGRAMS.items()} | core_diagrams()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in diagrams().items():
        (folder / f"{name}.svg").write_text(text)
