"""Timing diagrams of front end, thread unit and matrix unit: one program on a whole core of 8 threads, in Amaranth's simulator."""

import warnings
from typing import Any
from unittest import mock

from amaranth.hdl import Fragment, UnusedElaboratable
from amaranth.lib.wiring import Component
from amaranth.sim import Simulator
from heddle.config import Config
from heddle.core import Core
from heddle.front_end.unit import FrontEnd
from heddle.matrix.unit import MatrixUnit
from heddle.thread.unit import ThreadUnit

from ..draw.wave_svg import record, wave_svg
from ..isa import assemble

__all__ = ["PROGRAM", "core_diagrams"]

# Shared memory holds zeros: only the cycles count.
PROGRAM = """
    segment.shared.b8.d1 ur8, ur1
    mov r300, %tid
    shl r300, r300, 4
    ld.v2 r256, ur8:rf300:0
    mm8.sa.sb.k2.z r0, ur8:rf300:128, r256
    st.v2 ur8:rf300:512, r0
    halt
"""
_CYCLES = 90
_WINDOWS = {"front-end": (0, 31), "thread": (6, 39), "matrix": (26, 66)}        # first and last cycle of each diagram, from ``start``


def core_diagrams() -> dict[str, str]:
    """Name and SVG text of each diagram."""
    cfg = Config(threads=8, dot=4, factor_words=64, shared_memory_kib=4, instruction_words=64, mm16=False, transpose=False, fetch_words=1,
                 axi_data_bits=64, thread_slots=4, thread_multipliers=1)
    core, units = Core(cfg), {}
    plain = Component.__init__

    def recorded(self: Component, *arguments: Any, **options: Any) -> None:
        plain(self, *arguments, **options)
        units[type(self)] = self

    with mock.patch.object(Component, "__init__", recorded), warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)
        fragment = Fragment.get(core, None)
    front, thread, matrix = units[FrontEnd], units[ThreadUnit], units[MatrixUnit]
    program = assemble(PROGRAM, cfg).words
    sim = Simulator(fragment)
    sim.add_clock(1e-6)
    names = _names(front, thread, matrix)
    waves = record(sim, {name: signal for group in names.values() for name, signal in group.items()})

    async def host(ctx: Any) -> None:
        for address, word in enumerate(program):
            ctx.set(core.i_program.payload, {"address": address, "word": word})
            ctx.set(core.i_program.valid, 1)
            await ctx.tick()
        ctx.set(core.i_program.valid, 0)
        ctx.set(core.program.end, len(program))
        await ctx.tick().repeat(3)
        ctx.set(core.run.start, 1)
        await ctx.tick()
        ctx.set(core.run.start, 0)
        await ctx.tick().repeat(_CYCLES)

    sim.add_testbench(host)
    sim.run()
    start = len(program) + 3
    of_name = {wave.name: wave for wave in waves}
    return {title: wave_svg([of_name[name] for name in group], start + _WINDOWS[title][0], start + _WINDOWS[title][1])
            for title, group in names.items()}


def _names(front: Any, thread: Any, matrix: Any) -> dict[str, dict[str, Any]]:
    """Diagram: name of each wave, and its signal."""
    return {
        "front-end": {"start": front.start, "pc": front.pc, "o_thread.valid": front.o_thread.valid, "o_thread.ready": front.o_thread.ready,
                      "o_matrix.valid": front.o_matrix.valid, "o_matrix.ready": front.o_matrix.ready,
                      "events.scoreboard_stalls": front.events.scoreboard_stalls, "ended": front.ended},
        "thread": {"thread.i_operation.valid": thread.i_operation.valid, "registers.read": thread.registers.read,
                   "bank_read.request.valid": thread.bank_read.request.valid, "bank_read.answer.valid": thread.bank_read.answer.valid,
                   "bank_write.request.valid": thread.bank_write.request.valid, "bank_write.written": thread.bank_write.written,
                   "thread.done": thread.done},
        "matrix": {"matrix.i_operation.valid": matrix.i_operation.valid, "bank.request.valid": matrix.bank.request.valid,
                   "bank.answer.valid": matrix.bank.answer.valid, "hold": matrix.hold, "events.matrix_steps": matrix.events.matrix_steps,
                   "matrix.active": matrix.active, "matrix.done": matrix.done},
    }
