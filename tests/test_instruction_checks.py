"""The checks at issue: hardware and software find the same first violation of every word."""

import numpy as np
import pytest
from amaranth.sim import Simulator
from heddle import load_config
from heddle.config import SEGMENTS
from heddle.errors import ErrorCode
from heddle.front.checks import InstructionChecks
from heddle.isa.checks import CHECKS
from heddle.isa.layout import Opcode, Space, instruction_layout
from heddle_sim.isa.checking import find_violation
from heddle_sim.isa.fields import FIELDS, pack

LIMITS = (0, 6, 7, 15, 16, 63, 64, 252, 254, 255, 256, 257, 258, 260, 4095)


def words(cfg, count):
    """Words of every opcode whose fields are near their limits or random, so that each check decides sometimes."""
    rng = np.random.default_rng(cfg.threads)
    numbers = [*LIMITS, *range(cfg.registers - 5, cfg.registers + 2)]
    for opcode in Opcode:
        for _ in range(count if CHECKS[opcode] else 3):
            values = {"opcode": opcode, "b_source": int(rng.integers(4))}
            for name in ("dst", "a", "b", "c"):
                values[name] = int(rng.choice(numbers) if rng.integers(2) else rng.integers(256, 262))
                if rng.integers(3) == 0:
                    values[name] = int(rng.integers(4))
            modifiers = int(rng.integers(1 << 34)) if rng.integers(2) else 0
            if opcode is Opcode.MATRIX:
                values |= {"a": values["a"] | 256, "c": values["c"] | 256}
                modifiers = pack({"modifiers.matrix.k_length": int(rng.integers(16))}) >> FIELDS["modifiers"].offset
                modifiers |= 1 << int(rng.integers(34)) if rng.integers(2) else 0
            yield pack(values | {"modifiers": modifiers % (1 << 34), "imm": int(rng.integers(1 << 32))})
    for number in range(256):
        yield pack({"opcode": number})


@pytest.mark.parametrize("name", ["tiny", "small", "large"])
def test_hardware_and_software_agree(name):
    cfg = load_config(name)
    dut = InstructionChecks(cfg)
    seen = set()

    async def bench(ctx):
        for index, word in enumerate(words(cfg, 150)):
            space = Space(index % 2)
            ctx.set(dut.word, instruction_layout.from_bits(word))
            ctx.set(dut.segment_space, space)
            await ctx.delay(1e-9)
            violation = find_violation(word, cfg, [space.value] * SEGMENTS)
            expected = (violation.code, violation.operand) if violation else (ErrorCode.NONE, 0)
            found = (ctx.get(dut.code), ctx.get(dut.operand))
            assert found == expected, f"{word:032x}: {found}, not {expected} ({violation})"
            seen.add((FIELDS["opcode"].get(word), violation and (violation.field, violation.code)))

    simulator = Simulator(dut)
    simulator.add_testbench(bench)
    simulator.run()
    for opcode, checks in CHECKS.items():
        for check in checks:
            assert (opcode.value, (check.field, check.code)) in seen
        assert (opcode.value, None) in seen
