"""Operation lists of the tail of the engine for recurrent networks: random legal ones, and those of the recipes."""

from dataclasses import dataclass, field

from heddle.rnn.layouts import Cell, Function, Pre, operation_layout
from heddle.rnn.tail import GATED_DISTANCE, KEEP_DISTANCE

__all__ = ["RECIPES", "Regions", "random_operations", "recipe"]

MAX_OPERATIONS = 16
SIGMOID = {"function": Function.SIGMOID}
CANDIDATE = {"function": Function.TANH, "shift_activation": 1}
HIDDEN = {"read": "state", "load_state": 1}
CELL = HIDDEN | {"wide_state": 1}
OUTPUT = {"cell": Cell.OUTPUT, "second": Function.TANH, "shift_second": 1}
LINEAR_GRU = (
    SIGMOID | {"keep_gate": 1},
    {"pre": Pre.KEEP},
    SIGMOID | {"keep_activation": 1},
    CANDIDATE | HIDDEN | {"pre": Pre.GATED, "cell": Cell.BLEND, "write": "new", "output": 1},
)
RECIPES = {
    "dense": [{"function": Function.LINEAR, "write": "new", "output": 1}],
    "plain": [CANDIDATE | {"write": "new", "output": 1}],
    "lstm": [
        SIGMOID | {"keep_activation": 1},
        {"function": Function.TANH, "shift_activation": 3, "cell": Cell.PRODUCT},
        SIGMOID | CELL | {"cell": Cell.STATE, "write": "state", "wide_result": 1},
        SIGMOID | OUTPUT | {"write": "new", "output": 1},
    ],
    "gru": [*LINEAR_GRU[:-1], *[{"idle": 1}] * (GATED_DISTANCE - 2), LINEAR_GRU[-1]],
    "gru pairs": [fields | {"second_group": group} for fields in LINEAR_GRU for group in (0, 1)],
    "gru before": [SIGMOID | HIDDEN | {"cell": Cell.GATE, "write": "new"}],
    "gru after": [
        SIGMOID | {"keep_activation": 1},
        CANDIDATE | HIDDEN | {"cell": Cell.BLEND, "write": "state", "output": 1},
    ],
    "peepholes": [
        CELL | {"idle": 1},
        SIGMOID | {"keep_activation": 1, "pre": Pre.PEEPHOLE, "read": "any"},
        {"function": Function.TANH, "shift_activation": 3, "cell": Cell.PRODUCT},
        SIGMOID | {"cell": Cell.STATE, "pre": Pre.PEEPHOLE, "read": "any", "write": "new", "wide_result": 1},
    ],
    "peepholes after": [
        CELL | {"idle": 1},
        SIGMOID | OUTPUT | {"pre": Pre.PEEPHOLE, "read": "any", "write": "new", "output": 1},
    ],
}


@dataclass
class Regions:
    """Elements of a context in parts of ``size`` elements; a job reads from any, but never what it has written itself."""

    rng: object
    size: int
    count: int
    written: set = field(default_factory=set)
    read: set = field(default_factory=set)

    def operand(self, region=None):
        """First element of a region that may be read; None when there is none."""
        return self._pick(set(range(self.count)) - self.written if region is None else {region} - self.written, self.read)

    def destination(self, region=None):
        """First element of a region that may be written by the present operation or by those that follow the last that reads it."""
        free = set(range(self.count)) - self.written - self.read
        return self._pick(free if region is None else {region} - self.written, self.written)

    def _pick(self, choices, used):
        if not choices:
            return None
        region = int(self.rng.choice(sorted(choices)))
        used.add(region)
        return region * self.size


def sums_and_scale(rng, product_registers, thread_groups, groups):
    """Random fields that say where the sums lie and what they are worth."""
    cat, stride = int(rng.integers(3)), int(rng.integers(8))
    first = int(rng.integers(8))
    registers = 1 + ((first + stride * (groups - 1)) // thread_groups >> cat)
    high = max(1, product_registers - registers)
    return {"cat": cat, "stride": stride, "first": first, "product": int(rng.integers(high)), "parity": int(rng.integers(2)),
            "shift": int(rng.integers(32)) if rng.random() < 0.3 else int(rng.integers(14)),
            "multiplier": int(rng.choice([int(rng.integers(1 << 16)), 0xFFFF, 0x8000, 1 << 14]))}


def recipe(rng, name, regions, where):
    """Constants of ``operation_layout`` for a recipe; ``where`` makes the fields of ``sums_and_scale``."""
    state, operations = int(rng.integers(regions.count)), []
    for fields in RECIPES[name]:
        fields = where() | fields
        if "read" in fields:
            fields |= {"read": 1, "operand": regions.operand(state if fields["read"] == "state" else None)}
        if "write" in fields:
            fields |= {"write": 1, "destination": regions.destination(state if fields["write"] == "state" else None)}
        if fields.get("output"):
            fields["output_byte"] = 16 * int(rng.integers(1 << 10))
        operations.append(operation_layout.const(fields))
    return operations


def random_operations(rng, regions, where):
    """A list that uses nothing before it is set, and gates not too early."""
    count, known, kept, operations = int(rng.integers(1, MAX_OPERATIONS + 1)), {}, ({}, {}), []
    for index in range(count):
        fields = where() | {"idle": int(rng.random() < 0.12), "second_group": int(rng.random() < 0.3)}
        of_group = kept[fields["second_group"]]
        if rng.random() < 0.4:
            operand = regions.operand()
            if operand is not None:
                fields |= {"read": 1, "operand": operand, "load_state": int(rng.random() < 0.6), "wide_state": int(rng.integers(2))}
        if fields.get("load_state"):
            known["state"] = known["cell"] = index
        for name in ("shift_activation", "shift_second"):
            fields[name] = int(rng.choice([0, 1, 3, int(rng.integers(8))]))
        for name in ("function", "second"):
            fields[name] = Function(int(rng.integers(4)))
        for name in ("keep_activation", "keep_gate", "wide_result"):
            fields[name] = int(rng.random() < 0.4)
        fields["pre"] = rng.choice(_pres(fields, known | of_group, index))
        fields["cell"] = rng.choice(_cells(known | of_group))
        if rng.random() < 0.4:
            destination = regions.destination()
            fields |= {} if destination is None else {"write": 1, "destination": destination}
        if rng.random() < 0.4:
            fields |= {"output": 1, "output_byte": 16 * int(rng.integers(1 << 10))}
        if not fields["idle"]:
            _remember(fields, known, of_group, index)
        operations.append(operation_layout.const(fields))
    return operations


def _pres(fields, known, index):
    pres = [Pre.NONE, Pre.KEEP]
    if "state" in known and fields.get("read"):
        pres += [Pre.PEEPHOLE] * 3
    if index - known.get("gate", index) > GATED_DISTANCE and index - known.get("kept sum", index) > KEEP_DISTANCE:
        pres += [Pre.GATED] * 8
    return pres


def _cells(known):
    cells = [Cell.ACTIVATION]
    if "kept" in known:
        cells += [Cell.PRODUCT] * 2
    if "state" in known:
        cells += [Cell.GATE] + [Cell.STATE] * 3 * ("before" in known) + [Cell.BLEND] * 2 * ("kept" in known)
    if "cell" in known:
        cells += [Cell.OUTPUT] * 2
    return cells


def _remember(fields, known, of_group, index):
    for where, name, keeps in ((of_group, "kept", fields["keep_activation"]), (of_group, "gate", fields["keep_gate"]),
                               (of_group, "kept sum", fields["pre"] == Pre.KEEP), (known, "before", fields["cell"] != Cell.OUTPUT),
                               (known, "cell", fields["cell"] == Cell.STATE)):
        if keeps:
            where[name] = index
    if fields["cell"] == Cell.OUTPUT:
        known.pop("before", None)
