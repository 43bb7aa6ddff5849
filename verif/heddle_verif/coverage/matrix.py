"""Coverage of the matrix unit: operations with their merges, types, ragged edges and stalls; instructions of devices."""

from heddle.isa.encoding import ElementType, LoopOrder, Opcode
from heddle_sim.isa.fields import FIELDS

from .model import SWIZZLES, Exclusion, Group

__all__ = ["ACCESS", "INSTRUCTION", "OPERATION", "instruction_values", "sample_access", "sample_operation"]

KA, KB = range(4), range(4)
ORDERS = {LoopOrder.SLICES_OUTER: "slices outermost", LoopOrder.COLUMNS_OUTER: "columns outermost"}
SIGNS = ("unsigned, unsigned", "unsigned, signed", "signed, unsigned", "signed, signed")
MASKS = ("all", "some", "one", "none")
ELEMENTS = ("int8", "int16")
ADDRESSES = ("columns", "entries of words", "entries of bytes", "offsets")      # of B; "offsets": a load of entries
COMPILED = ADDRESSES[1:3]
LAYOUTS = ("columns", "rows")       # how B lies: each column together, or rows of k (transpose)


def merge_name(ka, kb, lane_sum=0):
    """The bin of a merge; ``ka`` and ``kb`` are one less than the threads."""
    if lane_sum:
        return "lane sum"
    parts = [f"{name} {value + 1}" for name, value in (("ka", ka), ("kb", kb)) if value]
    return ", ".join(parts) or "none"


MERGES = (*(merge_name(ka, kb) for ka in KA for kb in KB), "lane sum")
_ALONG_K = [name for name in MERGES if "kb" in name or name == "lane sum"]
_WITHOUT_KA = [merge_name(0, kb) for kb in KB] + ["lane sum"]
_MERGE_RULES = [
    Exclusion("columns are shared out only among threads that share a row", merge=_WITHOUT_KA, shares=("blocks", "interleaved")),
    Exclusion("a lane sum lands in thread 0", merge="lane sum", destination=("1", "2", "3", "4")),
    *(Exclusion("the destination is one of the threads that share the dot product", merge=[merge_name(ka, kb) for ka in KA],
                destination=[str(number + 1) for number in KB if number > kb]) for kb in KB[:-1]),
]
_MERGE_POINTS = {"merge": MERGES, "shares": ("blocks", "interleaved"), "destination": ("1", "2", "3", "4")}
_TYPE_POINTS = {"layout": LAYOUTS, "element": ELEMENTS, "signs": SIGNS, "order": tuple(ORDERS.values()), "first": ("replaces", "adds")}

OPERATION = Group(
    "matrix.operation", "An `mm` that the unit has ended, in its bench.",
    _MERGE_POINTS | _TYPE_POINTS | {
        "merging": ("none", "ka", "kb", "ka and kb", "lane sum"), "columns": MASKS, "lanes": MASKS, "slices": ("1", "2 to 15", "16"),
        "stall": ("none", "banks", "hold", "banks and hold"), "begins": ("after idle", "back to back"),
        "end": ("done", "MISALIGNED", "OUT_OF_RANGE", "PRODUCT_RANGE", "PANEL_RANGE", "OFFSET_RANGE", "stopped"),
        "swizzle": SWIZZLES, "addresses": ADDRESSES},
    crosses=[("merge", "element", "layout"), ("merge", "columns", "layout"), ("merge", "lanes"), ("merge", "shares"),
             ("merge", "destination"), ("merge", "order"), ("merging", "element", "stall"), ("merging", "begins"),
             ("layout", "element", "signs"), ("order", "slices", "columns"), ("layout", "element", "stall"),
             ("layout", "element", "end"), ("layout", "first", "order"), ("merge", "layout", "swizzle"), ("element", "swizzle"),
             ("end", "swizzle"), ("addresses", "element"), ("addresses", "merge"), ("addresses", "stall"), ("addresses", "end"),
             ("addresses", "swizzle"), ("addresses", "order"), ("addresses", "begins")],
    exclude=[*_MERGE_RULES,
             Exclusion("its words along k lie in other rows of a tile each", layout="rows", end="PANEL_RANGE"),
             Exclusion("without swizzle k goes on", swizzle="none", end="PANEL_RANGE"),
             Exclusion("each word has an address of its own", addresses=COMPILED, end="PANEL_RANGE"),
             Exclusion("only compiled offsets have entries", addresses=("columns", "offsets"), end="OFFSET_RANGE"),
             Exclusion("only compiled offsets have entries", layout="rows", end="OFFSET_RANGE"),
             Exclusion("a byte is never misaligned", addresses="entries of bytes", end="MISALIGNED"),
             Exclusion("words of a column along k are not neighbours", addresses=COMPILED, merge=_ALONG_K),
             Exclusion("the bytes of a column take all fetch slots", addresses="entries of bytes", merge=[
                 merge_name(ka, 0) for ka in KA[1:]]),
             Exclusion("loads of entries have no steps", addresses="offsets", merge=[name for name in MERGES if name != "none"]),
             Exclusion("loads of entries have no steps", addresses="offsets", element="int16"),
             Exclusion("loads of entries have no steps", addresses="offsets", order="columns outermost"),
             Exclusion("loads of entries have no steps", addresses="offsets", end="PRODUCT_RANGE")])

ACCESS = Group(
    "matrix.access", "An access of the thread unit to registers, beside an `mm` or not, in benches of the matrix unit and of the lanes.",
    {"access": ("read", "product write", "factor write", "return"), "waits": ("not", "one cycle", "longer"), "unit": ("idle", "busy")},
    crosses=[("access", "waits", "unit")],
    exclude=[Exclusion("a write of a product register takes two cycles at least", access="product write", waits="not"),
             Exclusion("only an mm refuses a read, and a write of factor words, which the thread unit does not make beside one",
                       access="read", waits=("one cycle", "longer"), unit="idle"),
             Exclusion("factor words and returned values are never refused", access=("factor write", "return"),
                       waits=("one cycle", "longer"))])

INSTRUCTION = Group(
    "matrix.instruction", "An `mm` of a program that ended without an error on a device.",
    _MERGE_POINTS | _TYPE_POINTS | {"simulator": ("verilator", "golden")},
    crosses=[("merge", "element", "layout"), ("merge", "simulator"), ("merge", "shares"), ("merge", "destination"),
             ("layout", "element", "signs", "simulator"), ("layout", "order", "simulator"), ("first", "simulator")],
    exclude=_MERGE_RULES)

_FIELDS = {name: FIELDS[f"modifiers.matrix.{name}"] for name in (
    "element", "ka", "ka_interleaved", "kb", "kb_destination", "transpose", "a_signed", "b_signed", "order", "zero", "lane_sum")}


def _type_values(a_signed, b_signed, order, zero, transpose, int16):
    return {"layout": LAYOUTS[bool(transpose)], "element": ELEMENTS[bool(int16)], "signs": SIGNS[2 * bool(a_signed) + bool(b_signed)],
            "order": ORDERS[LoopOrder(order)], "first": "replaces" if zero else "adds"}


def _merge_values(ka, interleaved, kb, destination, lane_sum):
    plain = bool(lane_sum)
    return {"merge": merge_name(ka, kb, lane_sum), "shares": None if plain or not ka else ("blocks", "interleaved")[bool(interleaved)],
            "destination": None if plain else str(destination + 1)}


def _mask(flags):
    count = int(sum(bool(flag) for flag in flags))
    return "none" if not count else "all" if count == len(flags) else "one" if count == 1 else "some"


def sample_operation(operation, *, end, banks, hold, begins):
    """Count an operation of the bench: how it ended, whether banks were refused or it was held while it was under way."""
    slices = operation.k_length + 1
    merging = "lane sum" if operation.lane_sum else ("none", "ka", "kb", "ka and kb")[bool(operation.ka) + 2 * bool(operation.kb)]
    OPERATION.sample(
        **_merge_values(operation.ka, operation.ka_interleaved, operation.kb, operation.kb_destination, operation.lane_sum),
        **_type_values(operation.a_signed, operation.b_signed, operation.order, operation.zero, operation.transpose, operation.int16),
        columns=_mask(operation.columns), lanes=_mask(operation.lanes),
        slices=str(slices) if slices in (1, 16) else "2 to 15",
        stall=("none", "banks", "hold", "banks and hold")[bool(banks) + 2 * bool(hold)], begins=begins, end=end,
        merging=merging, swizzle=SWIZZLES[operation.swizzle.value],
        addresses=ADDRESSES[3 if operation.fill else operation.compiled.value])


def sample_access(access, waited, busy):
    """Count an access that had to wait for some cycles, beside operations or not."""
    ACCESS.sample(access=access, waits="not" if not waited else "one cycle" if waited == 1 else "longer", unit="busy" if busy else "idle")


def instruction_values(word):
    """The bins of an instruction word of opcode ``MATRIX``."""
    assert FIELDS["opcode"].get(word) == Opcode.MATRIX.value
    values = {name: field.get(word) for name, field in _FIELDS.items()}
    return _merge_values(values["ka"], values["ka_interleaved"], values["kb"], values["kb_destination"], values["lane_sum"]) | _type_values(
        values["a_signed"], values["b_signed"], values["order"], values["zero"], values["transpose"],
        values["element"] == ElementType.INT16.value)
