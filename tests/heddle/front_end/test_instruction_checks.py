"""The checks at issue: hardware and software find the same first violation of every word."""

import numpy as np
import pytest
from amaranth.hdl import Const
from amaranth.sim import Simulator
from heddle import load_config
from heddle.constants import SEGMENTS
from heddle.front_end.instruction_checks import InstructionChecks, failed_operand
from heddle.interfaces.layouts import PC_BITS
from heddle.isa.encoding import Opcode, Space, instruction_layout
from heddle.isa.error_codes import ErrorCode
from heddle.isa.issue_rules import CHECKS
from heddle_sim.isa.checking import find_violation
from heddle_sim.isa.fields import FIELDS, pack

TENSOR_OPCODES = {Opcode.COPY_TENSOR, Opcode.PREFETCH_BLOCK, Opcode.PREFETCH_TENSOR, Opcode.INVALIDATE_DESCRIPTOR,
                  Opcode.COMMIT_GROUP, Opcode.WAIT_GROUP}
LIMITS = (0, 6, 7, 15, 16, 63, 64, 252, 254, 255, 256, 257, 258, 260, 4095)


def words(cfg, count):
    """Words of every opcode, legal but for up to two fields near their limits; and every opcode number."""
    rng = np.random.default_rng(cfg.threads)
    numbers = [*LIMITS, 59, 60, 61, 62, 65, *range(cfg.registers - 5, cfg.registers + 2)]
    for opcode in Opcode:
        first = 256 if opcode in (Opcode.MATRIX, Opcode.OFFSETS) else 0
        for _ in range(count if CHECKS[opcode] else 3):
            special = pack({"modifiers.alu.special": int(opcode is Opcode.UNIFORM_SPECIAL)})
            if opcode in TENSOR_OPCODES:
                mode = int(rng.integers(2))
                special = pack({"modifiers.copy.source": 1, "modifiers.copy.mode": mode,
                                "modifiers.copy.rank_minus_one": int(rng.integers(2 * mode, 5))})
            values = {"dst": 0, "a": first, "b": 0, "c": 0 if opcode is Opcode.OFFSETS else first, "b_source": int(rng.integers(1, 3)),
                      "modifiers": FIELDS["modifiers"].get(special)}
            for name in rng.choice(["dst", "a", "b", "c", "b_source", "modifiers"], rng.integers(3)):
                field = FIELDS[name]
                values[name] = int(rng.integers(field.mask + 1) if field.width != 12 else rng.choice(numbers))
                if name == "modifiers" and opcode in (Opcode.MATRIX, Opcode.OFFSETS) and rng.integers(2):     # only the number of slices
                    values[name] &= FIELDS["modifiers"].get(pack({"modifiers.matrix.k_length": 15}))
                if name == "modifiers" and opcode in TENSOR_OPCODES and rng.integers(4):        # mostly defined modes
                    values[name] &= FIELDS["modifiers"].get(~pack({"modifiers.copy.mode": 14}))
            yield pack(values | {"opcode": opcode, "imm": int(rng.integers(1 << 32))})
    for number in range(256):
        yield pack({"opcode": number})


@pytest.mark.parametrize("cfg", [
    load_config("quad"), *(pytest.param(cfg, marks=pytest.mark.nightly) for cfg in (
        load_config("small"), load_config("tiny"), load_config("large"),
        load_config("tiny").replace(name="without_tensors", tensors=False, rnn=True)))],
                         ids=lambda cfg: cfg.name)
def test_hardware_and_software_agree(cfg):
    dut = InstructionChecks(cfg)
    operand = failed_operand(cfg, Const(0, PC_BITS), dut.word, dut.field)
    seen = set()

    async def bench(ctx):
        for index, word in enumerate(words(cfg, 300)):
            space = Space(index % 2)
            ctx.set(dut.word, instruction_layout.from_bits(word))
            ctx.set(dut.segment_space, space)
            await ctx.delay(1e-9)
            violation = find_violation(word, cfg, [space.value] * SEGMENTS)
            expected = (violation.code, violation.operand) if violation else (ErrorCode.NONE, None)
            found = (ctx.get(dut.code), ctx.get(operand) if violation else None)
            assert found == expected, f"{word:032x}: {found}, not {expected} ({violation})"
            seen.add((FIELDS["opcode"].get(word), violation and (violation.field, violation.code)))

    simulator = Simulator(dut)
    simulator.add_testbench(bench)
    simulator.run()
    present = {"tensors": cfg.tensors, "recurrent": cfg.rnn, "offset_memory": cfg.compiled_offsets > 0,
               "gather": cfg.gather_offsets, "sparse": cfg.sparse, "tiles": cfg.tile_scheduler}
    for opcode, checks in CHECKS.items():
        without = bool(checks) and not present.get(checks[0].rule, True)        # nothing else is looked at
        for check in checks[:1] if without else checks:
            assert present.get(check.rule) or (opcode.value, (check.field, check.code)) in seen, (opcode, check)
        assert ((opcode.value, None) in seen) != without
