"""Bench of the front end: where a program ends."""

import cocotb
from heddle.isa.encoding import GUARD_ALWAYS, Opcode
from heddle.isa.error_codes import ErrorCode
from heddle_sim.isa import assemble
from heddle_sim.isa.fields import pack

from .front_end import prepared


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def program_end(dut):
    """Instructions of a longer program that was there before are void: behind the last one, as targets of branches and as the first one."""
    bench = await prepared(dut, "bursty", 0.5)
    longer, branch = assemble("mov r1, 1\n" * 60 + "halt", bench.cfg), {"opcode": Opcode.BRANCH, "guard": GUARD_ALWAYS}
    for length in (1, 2, 3, 7, 58):
        short = assemble("mov r9, ur1" + "\nnop" * (length - 1), bench.cfg).words
        cases = [(short, 0, length, length), (short, length, length, length), (short, 59, 59, 59)]       # and program counter, operand
        cases += [([*short[:-1], pack(branch | {"imm": target})], 0, length - 1, target) for target in (length, 59)]
        for words, entry, *place in cases:
            await bench.load(longer)
            assert (await bench.run()).ok
            assert dut.pc.value == 60, "that of the last instruction"
            await bench.load(words)
            result = await bench.run(entry)
            assert [result.error, result.pc, result.operand] == [ErrorCode.PROGRAM_COUNTER, *place]
            assert dut.pc.value == result.pc
    bench.end(thread=30)
