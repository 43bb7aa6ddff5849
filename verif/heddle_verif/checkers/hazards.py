"""Registers that operations read and write, and the rule that units in flight must not meet in them."""

from heddle.constants import FIRST_FACTOR_REGISTER, PRODUCT_REGISTERS
from heddle.interfaces.layouts import ThreadKind
from heddle.isa.encoding import ACCESS_BYTES, Access, AluFunction, OutputUse

__all__ = ["HazardChecker", "matrix_registers", "thread_registers"]


def _span(first, access):
    return set(range(first, first + max(1, ACCESS_BYTES[access] // 4)))


def thread_registers(operation):
    """Registers that a thread operation (dictionary) reads, and those that it writes."""
    kind = operation["kind"]
    if kind is ThreadKind.LOAD:
        return {operation["a"]}, _span(operation["dst"], operation["access"])
    if kind is ThreadKind.STORE:
        return {operation["a"]} | _span(operation["c"], operation["access"]), set()
    if kind is ThreadKind.TID:
        return set(), {operation["dst"]}
    if kind is ThreadKind.LANE_MASK:
        return set(), set()
    moves = kind is ThreadKind.ALU and operation["function"] is AluFunction.MOV
    vector = kind is ThreadKind.ALU and operation["access"] is Access.V4
    narrows = kind is ThreadKind.ALU and operation["function"] in (AluFunction.NARROW, AluFunction.SCALE)
    span = (lambda first: _span(first, Access.V4)) if vector else lambda first: {first}
    reads = (set() if moves else span(operation["a"])) | ({operation["b"]} if operation["b_is_register"] else set())
    if kind is not ThreadKind.ALU or operation.get("output") is OutputUse.CHANNEL:
        return reads, set()
    return reads, {operation["dst"]} if narrows else span(operation["dst"])


def matrix_registers(cfg, operation):
    """Registers that an ``mm`` or ``offsets`` (dictionary) reads, and those that it accumulates in."""
    if operation.get("fill"):
        return {FIRST_FACTOR_REGISTER + operation["offset_register"]}, set()
    first = FIRST_FACTOR_REGISTER + operation["factor_word"] * cfg.numbers_per_word
    reads = set(range(first, first + (operation["k_length"] + 1) * cfg.numbers_per_word))
    reads.add(FIRST_FACTOR_REGISTER + operation["offset_register"])
    columns = [column for column in range(cfg.threads) if operation["columns"] >> column & 1]
    ka = operation["ka"] + 1
    steps = [column // ka if operation["ka_interleaved"] else column % -(-cfg.threads // ka) for column in columns]
    products = {operation["product"] + step for step in steps}
    return reads, {register for register in products if register < PRODUCT_REGISTERS}


class HazardChecker:
    """Follows the thread operations and ``mm`` in flight; ``compared`` counts the pairs that were looked at.

    An ``mm`` may come to an empty matrix unit before the factor words of its lanes are written; ``awaited`` counts these, and
    ``must_hold`` says that the unit must not begin with them.
    """

    def __init__(self, cfg):
        self.cfg = cfg
        self.compared = self.awaited = 0
        self._in_flight = {"thread": [], "matrix": []}

    def accept(self, unit, operation):
        """An operation was handed to its unit; ``AssertionError`` when it meets one of the other unit."""
        reads, writes = thread_registers(operation) if unit == "thread" else matrix_registers(self.cfg, operation)
        for old, old_reads, old_writes in self._in_flight["matrix" if unit == "thread" else "thread"]:
            self.compared += 1
            met = writes & (old_reads | old_writes) | reads & old_writes
            if unit == "matrix" and not self._in_flight["matrix"]:
                self.awaited += bool(met)
                met -= reads - {FIRST_FACTOR_REGISTER + operation["offset_register"]}
            assert not met, f"r{min(met)} must not be in use by {old} when {operation} is accepted"
            masks = unit == "matrix" and old["kind"] in (ThreadKind.COMPARE, ThreadKind.LANE_MASK)
            assert not masks, f"predicates must be written before mm is accepted: {old}, {operation}"
        self._in_flight[unit].append((operation, reads, writes))

    def must_hold(self):
        """The oldest ``mm`` awaits a thread operation that writes what it reads."""
        matrix, thread = self._in_flight["matrix"], self._in_flight["thread"]
        return bool(matrix) and any(matrix[0][1] & writes for _, _, writes in thread)

    def done(self, unit):
        """The oldest operation of a unit is over."""
        self._in_flight[unit].pop(0)
