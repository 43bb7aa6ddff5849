"""The units around the front end in its bench, and the comparison with the golden model."""

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from heddle.constants import PREDICATES, SEGMENTS, STORE_GROUPS, UNIFORM_REGISTERS
from heddle.front_end.unit import FrontEnd
from heddle.interfaces.control import uniform_write_layout
from heddle.interfaces.layouts import (
    CopyKind,
    ThreadKind,
    error_layout,
    matrix_operation_layout,
    row_operation_layout,
    thread_operation_layout,
)
from heddle.interfaces.program import program_write_layout
from heddle.interfaces.tensor_operation import tensor_operation_layout
from heddle.isa.encoding import AluFunction, OutputUse, WaitUnit
from heddle.isa.error_codes import ErrorCode
from heddle.isa.tensor_descriptor import TensorMode
from heddle_sim.functional.front_end import FrontModel
from heddle_sim.isa import assemble
from heddle_sim.toolchain.cocotb_process import bench_config

from heddle_verif.agents.payload import pack
from heddle_verif.checkers.hazards import HazardChecker
from heddle_verif.checkers.scoreboard import Scoreboard
from heddle_verif.coverage.errors import sample_error
from heddle_verif.coverage.front_end import sample_instruction, sample_stall
from heddle_verif.fixture import Bench
from heddle_verif.stimulus.swizzles import number_of

UNITS = ("thread", "matrix", "copy")
COPIES = ("copy", "tensor")         # what the signal ``copy_busy`` stands for
ENGINE_ERRORS = (ErrorCode.OUT_OF_RANGE, ErrorCode.RECURRENT_IMAGE)      # passed on
END_LIMIT = 60_000      # cycles of a program


def with_number(operation, cfg):
    """What the model says of an operation, with the number of its swizzle."""
    return vars(operation) | {"swizzle": number_of(cfg, operation.swizzle)}


def thread_item(operation):
    """The fields of a thread operation (dictionary) that its kind uses."""
    kind = operation["kind"]
    names = ["kind", "guard", "guard_negate", "pc"]
    if kind is not ThreadKind.LANE_MASK and kind is not ThreadKind.STORE:
        names.append("dst")
    if kind in (ThreadKind.LOAD, ThreadKind.STORE):
        names += ["access", "space", "element_shift", "swizzle", "a", "value"] + ["c"] * (kind is ThreadKind.STORE)
        names += ["gathers", "entries", "first_entry", "padding"] * bool(operation.get("gathers", 0))      # only with ``gather_offsets``
    if kind in (ThreadKind.ALU, ThreadKind.COMPARE):
        names += ["function", "access"] if kind is ThreadKind.ALU else ["compare", "unsigned"]
        names += [] if kind is ThreadKind.ALU and operation["function"] is AluFunction.MOV else ["a"]
        if kind is ThreadKind.ALU:
            scales = operation["function"] is AluFunction.SCALE
            names += ["c"] * (operation.get("output") is OutputUse.CHANNEL)
            names += ["output"] * (operation.get("output", OutputUse.NONE) is not OutputUse.NONE)      # only with an output stage
            names += ["unsigned"] * (scales or operation["function"] in (AluFunction.MULH, AluFunction.NARROW)) + ["c"] * scales
        names += ["b_is_register", "b" if operation["b_is_register"] else "value"]
    return {name: operation[name] for name in names}


def matrix_item(operation, cfg):
    """An mm with its masks as numbers; for what a configuration lacks the hardware has no fields."""
    def mask(value):
        return value if isinstance(value, int) else sum(1 << int(index) for index in np.flatnonzero(value))
    item = operation | {name: mask(operation[name]) for name in ("columns", "lanes")}
    absent = [*["transpose"] * (not cfg.transpose), *["fill", "compiled"] * (not cfg.compiled_offsets),
              *["pitch"] * (not cfg.transpose and not cfg.compiled_offsets)]
    return {name: value for name, value in item.items() if name not in absent}


def tensor_item(operation):
    """A copy of a tensor with the coordinates and offsets that it has."""
    request = operation["request"]
    rank, pixels = request["rank_minus_one"] + 1, request["mode"] == TensorMode.IM2COL
    if request["prefetch"]:
        request = request | {"shared_address": 0}       # whatever stands there
    return {"address": operation["address"], **request, "coordinates": tuple(request["coordinates"][:rank]),
            "offsets": tuple(request["offsets"][:rank - 2]) if pixels else ()}


def rows_of(operation):
    """The copies that a row operation stands for; of a prefetch what it has."""
    first = {name: value for name, value in operation["first"].items() if not name.endswith("_outside")}
    if first["kind"] == CopyKind.PREFETCH_BLOCK:
        first = {name: first[name] for name in ("mask", "kind", "source", "blocks", "pc")}
        assert operation["rows"] == 1, "a prefetch is one row"
        yield first
        return
    for row in range(operation["rows"]):
        yield first | {end: first[end] + row * operation[f"{end}_pitch"] for end in ("destination", "source")}


def _signal_of(unit):
    return "copy" if unit in COPIES else unit


class FrontBench(Bench):
    """The front end with units that take operations and finish them after random times.

    Parameters
    ----------
    pause : str
        Pattern of the units' queues, and of what writes programs.
    finish : float
        Probability per cycle that a unit finishes its oldest operation.

    Attributes
    ----------
    timing : FrontEndTiming
        Of the front end under test.
    barriers : str or frozenset
        Which barriers are complete: "random" (often enough), "never", "complete" (all), or the numbers of those that are.
    barrier_latency : int
        Cycles from the number of a barrier to its state; at least 1 where ``barriers`` names them.
    """

    def __init__(self, dut, pause="bursty", finish=0.1):
        unit = FrontEnd(bench_config())
        super().__init__(dut, unit, idle_limit=5000)
        self.timing = unit.timing
        self.pause, self.finish_share = pause, finish
        self.hazards = HazardChecker(self.cfg)
        self._must_hold = self._hold = False
        self.units = UNITS + ("tensor",) * self.cfg.tensors
        self.in_flight = dict.fromkeys(self.units, 0)
        self.errors, self.instruction_cycles = [], []
        self.waits, self.groups = [], []        # of the program that runs, where the model ran it
        self._groups_before = None
        self._held_before = None
        self.groups_move = True
        self._busy_before = self._in_flight_before = 0
        self.copies_may_end = True
        self.model = FrontModel(self.cfg)
        self._next_tile, self._tile_asked = 0, False

    async def start(self):
        await super().start()
        cfg, dut = self.cfg, self.dut
        shapes = {"thread": thread_operation_layout(cfg), "matrix": matrix_operation_layout(cfg), "copy": row_operation_layout,
                  "tensor": tensor_operation_layout()}
        self.scoreboards = {unit: Scoreboard(f"o_{unit}", strict=True) for unit in self.units}
        self.scoreboards["expect"] = Scoreboard("expect", strict=True)
        self.scoreboards["passed"] = Scoreboard("passed", strict=True)
        self.scoreboards["invalidate"] = Scoreboard("invalidate", strict=True)
        self.sinks = {unit: self.sink(f"o_{unit}", shapes[unit], pause=self.pause, on_item=getattr(self, f"_take_{unit}"))
                      for unit in self.units}
        self.monitor("o_error", error_layout, self._take_error)
        self.program = self.source("i_program", program_write_layout(cfg), pause=self.pause)
        self.model.state.predicates[:] = self.rng.integers(0, 2, (PREDICATES, cfg.threads)).astype(bool)
        self.model.state.lane_mask[:] = self.rng.integers(0, 2, cfg.threads).astype(bool)
        for index, predicate in enumerate(self.model.state.predicates):
            getattr(dut, f"masks__predicates__{index}").value = sum(1 << int(bit) for bit in np.flatnonzero(predicate))
        dut.masks__lanes.value = sum(1 << int(bit) for bit in np.flatnonzero(self.model.state.lane_mask))
        dut.barriers__complete.value, dut.barriers__excess.value = 1, 0
        self.barrier_latency, self._asked = int(self.rng.integers(4)), [(False, 0)]
        dut.core.value = dut.program__end.value = 0
        if cfg.wait_timeout:
            dut.wait_timeout.value = 0
        if cfg.multicast:
            dut.peers_settled.value = 1
        if cfg.tile_scheduler:
            dut.tiles__number__valid.value = 0
        if cfg.tensors:
            dut.groups__rows_busy.value = dut.groups__pending.value = dut.groups__unread.value = 0
        self.barriers, self.waited_for_copies, self._zeros = "random", 0, 0
        self._offers = [(unit, getattr(dut, f"o_{unit}__valid"), getattr(dut, f"o_{unit}__ready")) for unit in self.units]
        self._shown = [dut.events__instructions, dut.events__scoreboard_stalls, dut.events__queue_stalls, dut.events__barrier_stalls,
                       dut.waiting__thread, dut.waiting__copy]
        cocotb.start_soon(self._units())

    # -- units ------------------------------------------------------------------------------

    def _take_error(self, error):
        self.errors.append(error)
        if error["code"] not in ENGINE_ERRORS:
            sample_error("front end", error["code"])

    def _take_thread(self, operation):
        self.scoreboards["thread"].observe(thread_item(operation))
        self._accept("thread", operation)

    def _take_matrix(self, operation):
        self.scoreboards["matrix"].observe(matrix_item(operation, self.cfg))
        self._accept("matrix", operation)

    def _take_copy(self, operation):
        first = operation["first"]
        self._opens(first, first["kind"] != CopyKind.PREFETCH_BLOCK and operation["rows"])
        self.scoreboards["copy"].observe(*rows_of(operation))
        self._accept("copy", operation)

    def _take_tensor(self, operation):
        self._opens(operation["request"], not operation["request"]["prefetch"])
        self.scoreboards["tensor"].observe(tensor_item(operation))
        self._accept("tensor", operation)

    def _opens(self, copy, moves):
        """Barriers hear of the copies that will tell them bytes, when these are handed over."""
        opens = bool(copy["has_barrier"] and moves and not copy["mask"])
        assert bool(self.dut.barriers__opened__valid.value) == opens, copy
        assert not opens or int(self.dut.barriers__opened__barrier.value) == copy["barrier"], copy

    def _accept(self, unit, operation):
        if unit not in COPIES:
            self.hazards.accept(unit, operation)
        self.in_flight[unit] += 1
        getattr(self.dut, f"units__{_signal_of(unit)}_busy").value = 1

    def _observe(self):
        """What the front end shows besides its operations: what barriers are told, stalls and reasons, when ``wait`` leaves."""
        dut = self.dut
        if dut.barriers__expect__valid.value:
            self.scoreboards["expect"].observe((int(dut.barriers__expect__barrier.value), int(dut.barriers__expect__bytes.value)))
        if dut.barriers__passed.value:
            self.scoreboards["passed"].observe(int(dut.barriers__index.value))
        if self.cfg.tensors and dut.o_invalidate__valid.value:
            self.scoreboards["invalidate"].observe(int(dut.o_invalidate__payload.value))
        refused = [_signal_of(unit) for unit, valid, ready in self._offers if valid.value and not ready.value]
        leaves, hazard, queue, barrier, thread, copy = (bool(signal.value) for signal in self._shown)
        self.waited_for_copies += copy
        held = hazard, tuple(refused), barrier
        if held != self._held_before:
            sample_stall(*held)
            self._held_before = held
        assert queue == bool(refused), "a queue stall is an operation that its unit does not take"
        assert leaves + barrier + ("copy" in refused) <= 1, "an instruction leaves, or there is one reason why not"
        assert hazard + ("thread" in refused) + ("matrix" in refused) <= 1, "one operation is pending"
        offered = [_signal_of(unit) for unit, valid, _ in self._offers if valid.value]
        assert "copy" not in offered or not (hazard or len(offered) > 1), "a copy must not pass an operation before it"
        assert "copy" not in offered or not self._hold, "a copy must not pass an mm that awaits its factors"
        number = len(self.instruction_cycles)
        if self.cfg.tensors:
            self._observe_groups(self.groups[number] if leaves and number < len(self.groups) else None)
        waits = self.waits[number] if number < len(self.waits) else None        # None: not known
        busy, self._busy_before = self._busy_before, self._busy()
        in_flight, self._in_flight_before = self._in_flight_before, self.in_flight["thread"]
        unfinished, awaited = (waits or 0) >> len(WaitUnit), (waits or 0) & (1 << len(WaitUnit)) - 1
        if leaves and unfinished:
            assert in_flight + ("thread" in refused) <= unfinished, "wait_thread must wait"
            awaited &= ~(1 << WaitUnit.THREAD.value)
        if leaves and awaited:        # what it waits for was over a cycle before
            pending = sum(1 << unit.value for unit in (WaitUnit.THREAD, WaitUnit.MATRIX) if hazard or unit.name.lower() in refused)
            assert not busy & awaited, "wait must wait"
            assert not hazard or pending & ~awaited, "wait must wait for an operation that has a hazard"
            assert hazard or not pending & awaited, "wait must wait for an operation that its unit refuses"
        for shown, stalls, unit in ((thread, hazard or "thread" in refused, WaitUnit.THREAD),
                                    (copy, barrier or "copy" in refused, WaitUnit.COPY)):
            assert shown or not stalls, "a stall must have a reason"
            assert not shown or stalls or waits is None or waits & 1 << unit.value, "only wait waits without a stall"

    def _observe_groups(self, wanted):
        """An instruction about groups leaves when a cycle before it could; ``wanted`` is what the model says of the one that leaves."""
        dut, before = self.dut, self._groups_before
        assert bool(dut.groups__commit.value) <= (wanted == "commit" or not self.groups), "only commit_group commits"
        if wanted == "commit":
            assert dut.groups__commit.value
            assert not before["rows_busy"] and before["pending"] != STORE_GROUPS, "commit_group must wait"
        elif wanted:
            allowed = [most is None or before[name] <= most for most, name in zip(wanted, ("pending", "unread"))]
            assert all(allowed), "wait_group must wait"
        self._groups_before = {name: int(getattr(dut, f"groups__{name}").value) for name in ("rows_busy", "pending", "unread")}
        if self.groups_move and self.rng.random() < 0.3:
            dut.groups__rows_busy.value = int(self.rng.integers(2))
            for name in ("pending", "unread"):
                getattr(dut, f"groups__{name}").value = int(self.rng.choice((0, 0, self.rng.integers(STORE_GROUPS + 1))))

    def _held(self):
        """The matrix unit must not begin: ``matrix_hold`` of the cycle before."""
        must, self._must_hold = self._must_hold, self.hazards.must_hold()
        held, self._hold = self._hold, bool(self.dut.matrix_hold.value)
        assert held or not (must and self._must_hold), "mm must be held until its factor words are written"
        return held or self._must_hold

    def _busy(self):
        """The units that ``wait`` waits for now, a mask."""
        dut, busy = self.dut, {}
        busy[WaitUnit.THREAD] = dut.units__thread_busy.value or dut.units__writes_pending.value or self.in_flight["thread"]
        busy[WaitUnit.COPY] = dut.units__copy_busy.value
        busy[WaitUnit.MATRIX] = dut.units__matrix_busy.value or self.in_flight["matrix"]
        return sum(1 << unit.value for unit, is_busy in busy.items() if is_busy)

    def _barriers(self):
        """The answers of the barriers to what was asked ``barrier_latency`` cycles before."""
        dut, latency = self.dut, self.barrier_latency
        asks, index = bool(dut.barriers__asks.value), int(dut.barriers__index.value)
        assert not asks or not self._asked[-1][0] or index == self._asked[-1][1], "a question must be about one barrier"
        self._asked = [*self._asked[-4:], (asks, index)]
        dut.barriers__answered.value = int(all(asks for asks, _ in self._asked[len(self._asked) - latency:]))
        if self.barriers == "random":       # a barrier completes before the front end gives up
            self._zeros = 0 if self._zeros == 5 or self.rng.random() < 0.3 else self._zeros + 1
            dut.barriers__complete.value = int(self._zeros == 0)
        elif isinstance(self.barriers, frozenset):
            dut.barriers__complete.value = int(self._asked[-latency][1] in self.barriers)
        else:
            dut.barriers__complete.value = int(self.barriers == "complete")

    def _hand_out(self):
        """The tile scheduler: the next number, some cycles after it was asked for."""
        dut, answers = self.dut, self._tile_asked and self.rng.random() < 0.4
        dut.tiles__number__valid.value = int(answers)
        dut.tiles__number__payload.value = self._next_tile if answers else int(self.rng.integers(1 << 32))
        self._next_tile += answers
        assert not (self._tile_asked and dut.tiles__asks.value), "a core must not ask while it waits for its number"
        self._tile_asked = bool(dut.tiles__asks.value) or self._tile_asked and not answers

    async def _units(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            self._observe()
            if dut.events__instructions.value:
                self.instruction_cycles.append(self.cycle)
                self.progress()
            held = self._held()
            for unit in self.units:
                may_end = {"thread": True, "matrix": not held}.get(unit, self.copies_may_end)
                ends = self.in_flight[unit] and self.rng.random() < self.finish_share and may_end
                self.in_flight[unit] -= bool(ends)
                if unit not in COPIES:
                    getattr(dut, f"units__{unit}_done").value = int(bool(ends))
                    if ends:
                        self.hazards.done(unit)
            for unit in UNITS:
                working = any(self.in_flight[part] for part in (COPIES if unit == "copy" else (unit,)) if part in self.units)
                if working or self.rng.random() < 0.3:
                    getattr(dut, f"units__{unit}_busy").value = int(working)
            dut.units__writes_pending.value = int(self.rng.random() < 0.3)
            self._barriers()
            if self.cfg.tile_scheduler:
                self._hand_out()

    # -- programs ---------------------------------------------------------------------------

    async def load(self, program, address=0):
        self.words = words = getattr(program, "words", program)
        self.model.load(program, address)
        self.program.put(*({"address": address + index, "word": word} for index, word in enumerate(words)))
        await self.program.drained()
        self.dut.program__end.value = address + len(words)

    async def set_uniform(self, values):
        """Uniform registers, by number."""
        for number, value in values.items():
            self.model.uniform[number] = value
            self.dut.i_uniform__valid.value = 1
            self.dut.i_uniform__payload.value = pack(uniform_write_layout, {"index": number, "value": int(value)})
            await RisingEdge(self.dut.clk)
        self.dut.i_uniform__valid.value = 0

    async def random_uniform(self):
        await self.set_uniform({index: int(self.rng.integers(1 << 32)) for index in range(UNIFORM_REGISTERS)})

    async def resynchronise(self):
        """Uniform registers and segments of design and model are the same again after a program that was stopped."""
        await self.random_uniform()
        segments = [f"segment.shared.b8.d1 ur{index}, {index * 16}" for index in range(SEGMENTS)]
        await self.load(assemble("\n".join([*segments, "halt"]), self.cfg))
        await self.run()

    def expect(self, entry=0):
        """Run the model and expect its operations; returns its ``RunResult``."""
        self.model.clear()
        result = self.model.run(entry=entry, instruction_limit=50_000)
        self.scoreboards["thread"].expect(*(thread_item(with_number(operation, self.cfg)) for operation in self.model.thread))
        self.scoreboards["matrix"].expect(*(matrix_item(with_number(operation, self.cfg), self.cfg) for operation in self.model.matrix))
        self.scoreboards["copy"].expect(*(vars(operation) for operation in self.model.copy))
        if self.cfg.tensors:
            self.scoreboards["tensor"].expect(*(vars(operation) for operation in self.model.tensor))
        self.scoreboards["invalidate"].expect(*self.model.invalidated)
        self.scoreboards["expect"].expect(*self.model.expected)
        self.scoreboards["passed"].expect(*self.model.passed)
        self.waits, self.groups = self.model.waits, self.model.groups
        return result

    async def doorbell(self, entry=0):
        self.errors.clear()
        self.instruction_cycles.clear()
        self._next_tile, self._tile_asked = 0, False
        self.dut.program__entry.value, self.dut.start.value = entry, 1
        await RisingEdge(self.dut.clk)
        self.started = self.cycle
        self.dut.start.value = 0
        await RisingEdge(self.dut.clk)

    async def until_ended(self, limit=END_LIMIT):
        for _ in range(limit):
            await RisingEdge(self.dut.clk)
            if self.dut.ended.value:
                assert not self.dut.active.value, "active must be low after the end"
                return
        raise AssertionError(f"the program must end within {limit} cycles")

    async def drain(self):
        """Wait until all operations are over; the scoreboard must be empty then."""
        quiet = 0
        while quiet < 100 and (any(self.in_flight.values()) or not self.dut.scoreboard_empty.value):
            await RisingEdge(self.dut.clk)
            # A pending operation is in flight too; its unit may not take it for a while.
            quiet = 0 if any(self.in_flight.values()) or any(offer.value for _, offer, _ in self._offers) else quiet + 1
            self.progress()
        await self.cycles(4)
        assert self.dut.scoreboard_empty.value, "the scoreboard must be empty when all operations are over"

    async def run(self, entry=0):
        """Run what is loaded on design and model; compares errors, instructions and operations."""
        result = self.expect(entry)
        await self.doorbell(entry)
        await self.until_ended()
        await self.drain()
        self.waits, self.groups = [], []
        found = [(error["code"], error["pc"], error["operand"]) for error in self.errors]
        assert found == ([] if result.ok else [(result.error, result.pc, result.operand)]), found
        if result.ok:
            assert len(self.instruction_cycles) == result.instructions, (len(self.instruction_cycles), result.instructions)
        if result.ok:
            for word in self.words[entry:]:
                sample_instruction(word, "bench")
        for scoreboard in self.scoreboards.values():
            assert not scoreboard.outstanding, f"{scoreboard.name}: {scoreboard.outstanding} operations are missing"
        return result

    def end(self, **least):
        """End of the test; ``least`` operations of each unit must have been compared."""
        self.finish()
        for unit, scoreboard in self.scoreboards.items():
            scoreboard.finish(least.get(unit, 0))


async def prepared(dut, *arguments, beside=None):
    """A ``FrontBench`` after reset, made with ``arguments``; with ``beside`` also what ``beside(bench)`` puts in place of a unit."""
    bench = FrontBench(dut, *arguments)
    unit = beside(bench) if beside else None
    await bench.start()
    await bench.resynchronise()
    return (bench, unit) if beside else bench
