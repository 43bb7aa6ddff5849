"""Where the box of a tensor copy lies in shared memory, in blocks of 16 bytes, and what threads ask of the banks there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from heddle.constants import BANK_BYTES, BANKS
from heddle.errors import UsageError, UsageTypeError
from heddle.isa.tensor_descriptor import TensorMode

from ..arguments import Arguments
from ..golden.bank_access import banks_of, gather_cycles
from ..golden.tensor_checks import TensorRequest, request_violations
from ..golden.tensor_traversal import Traversal, shared_offsets, swizzled_addresses, traverse
from .tensor_map import TensorMap, TensorMapError

__all__ = ["ACCESSES", "Access", "TensorImage", "access", "tensor_image"]

ACCESSES = ("row", "column", "diagonal", "gather")


@dataclass(frozen=True)
class TensorImage:
    """A box in shared memory. Blocks have 16 bytes and are numbered as they are traversed; a row of the box has ``row_blocks``.

    Attributes
    ----------
    walk : Traversal
        Elements (with interleave: slices), one after the other.
    addresses, places : int64 array (blocks,)
        First byte of each block without and with the swizzle.
    filled : int64 array (blocks,)
        Bytes of each block that lie outside the tensor.
    """

    map: TensorMap
    walk: Traversal
    addresses: np.ndarray
    places: np.ndarray
    filled: np.ndarray

    @property
    def row_blocks(self) -> int:
        return self.map.fields.row_bytes // BANK_BYTES

    def elements(self) -> Iterator[dict[str, object]]:
        """Each element as a dictionary: its position in the tensor, outermost first, and its bytes' addresses without and with the
        swizzle. A slice of 32 bytes gives two, one for each half."""
        unit = self.map.fields.unit_bytes
        step = min(unit, BANK_BYTES)
        for address in range(0, len(self.walk.inside) * unit, step):
            index, block = address // unit, address // BANK_BYTES
            within = address % BANK_BYTES
            yield {"kind": "element", "element": index, "byte": address % unit, "row": block // self.row_blocks,
                   "coordinates": [int(place) for place in reversed(self.walk.positions[index])], "inside": bool(self.walk.inside[index]),
                   "address": int(self.addresses[block]) + within, "swizzled_address": int(self.places[block]) + within}


def tensor_image(tensor: TensorMap, coordinates: Sequence[int], shared_address: int = 0, offsets: Sequence[int] | None = None, *,
                 shared_bytes: int) -> TensorImage:
    """Where the box of the map ``tensor`` at ``coordinates`` lies. Tuples in numpy's order, outermost first.

    Raises ``TensorMapError`` with all rules that the request breaks.
    """
    fields = tensor.fields
    arguments = Arguments()
    if offsets is not None and fields.mode == TensorMode.TILE:
        arguments.wrong("offsets must not be given in mode tile", UsageTypeError)
    for name, value, count in (("coords", coordinates, fields.rank), ("offsets", offsets, max(0, fields.rank - 2))):
        if value is not None:
            arguments.integers(name, value, count, bits=32)
    arguments.done()
    inner_first = tuple(reversed(coordinates)), tuple(reversed(offsets or (0,) * max(0, fields.rank - 2)))
    request = TensorRequest(coordinates=inner_first[0], offsets=inner_first[1], mode=fields.mode, shared_address=shared_address)
    violations = request_violations(fields, request, shared_bytes)
    if violations:
        raise TensorMapError(violations, fields.rank)
    walk = traverse(fields, *inner_first)
    addresses = shared_address + shared_offsets(fields, BANK_BYTES)
    outside = np.repeat(~walk.inside, fields.unit_bytes).reshape(-1, BANK_BYTES).sum(axis=1)
    return TensorImage(tensor, walk, addresses, swizzled_addresses(addresses, fields.swizzle), outside)


@dataclass(frozen=True)
class Access:
    """Threads that each read a block of a box.

    Attributes
    ----------
    text : str
        What thread t reads.
    blocks : int array (threads,)
        Number of the block that each thread reads.
    cycles, swizzled_cycles : int
        That the banks take without and with the swizzle.
    banks, swizzled_banks : int array (8,)
        How many threads want each bank.
    """

    pattern: str
    text: str
    blocks: np.ndarray
    cycles: int
    swizzled_cycles: int
    banks: np.ndarray
    swizzled_banks: np.ndarray


def access(image: TensorImage, pattern: str, *, threads: int, slots: int, block: int = 0, rows: Sequence[int] | None = None) -> Access:
    """The pattern with up to ``threads`` threads, of which ``slots`` neighbours ask at a time; fewer where the box has fewer rows.

    ``row``: thread t reads block t, one row after the other. ``column``: block ``block`` of row t. ``diagonal``: block t mod n of row t.
    ``gather``: block ``block`` of row ``rows[t]``.
    """
    per_row, count = image.row_blocks, len(image.addresses)
    if not 0 <= block < per_row:
        raise UsageError(f"block must be 0 to {per_row - 1}, not {block}")
    thread = np.arange(min(threads, count if pattern == "row" else count // per_row))
    if pattern == "row":
        text, blocks = "thread t reads block t of the box, row after row", thread
    elif pattern == "column":
        text, blocks = f"thread t reads block {block} of row t", thread * per_row + block
    elif pattern == "diagonal":
        text, blocks = f"thread t reads block t mod {per_row} of row t", thread * per_row + thread % per_row
    else:
        if rows is None:
            raise UsageError("rows must be given with access gather")
        for row in rows:
            if not 0 <= row < count // per_row:
                raise UsageError(f"rows must be 0 to {count // per_row - 1}, not {row}")
        if len(rows) > threads:
            raise UsageError(f"rows must have at most {threads} values, one for each thread, not {len(rows)}")
        text, blocks = f"thread t reads block {block} of row rows[t]", np.array(rows) * per_row + block
    before, after = image.addresses[blocks], image.places[blocks]
    return Access(pattern, text, blocks, gather_cycles(before, slots), gather_cycles(after, slots),
                  *(np.bincount(banks_of(addresses), minlength=BANKS) for addresses in (before, after)))
