"""Golden model of the matrix unit: one ``mm`` on the registers of all PEs."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
from heddle.constants import BANK_BYTES, PRODUCT_REGISTERS, ROW_BYTES
from heddle.isa.compiled_offsets import MASK_BITS, OFFSET_BITS, POSITIONS, OffsetEntry
from heddle.isa.encoding import LoopOrder, Swizzle
from heddle.isa.error_codes import ErrorCode

from .block_copy import swizzled

__all__ = ["MatrixOperation", "MatrixResult", "column_of", "column_steps", "compiled_address", "group_lanes", "matrix_steps", "multiply"]

_LANES = (1, 2, 4, 4)       # neighbouring lanes for a factor of 1 to 4; with three the fourth does nothing


@dataclass(frozen=True)
class MatrixOperation:
    """Operation of the matrix unit: the fields of ``matrix_operation_layout``, for tests; any object with these attributes is accepted.

    ``columns`` and ``lanes`` are bool [threads]; ``k_length``, ``ka`` and ``kb`` are counts minus one.
    """

    columns: np.ndarray
    lanes: np.ndarray
    product: int = 0
    factor_word: int = 0
    offset_register: int = 0
    base: int = 0
    element_shift: int = 0
    swizzle: Swizzle = Swizzle.NONE
    a_signed: int = 1
    b_signed: int = 1
    k_length: int = 0
    order: LoopOrder = LoopOrder.SLICES_OUTER
    zero: int = 0
    ka: int = 0
    ka_interleaved: int = 0
    kb: int = 0
    kb_destination: int = 0
    lane_sum: int = 0
    int16: int = 0
    transpose: int = 0
    pitch: int = 0
    compiled: OffsetEntry = OffsetEntry.NONE
    fill: int = 0
    pc: int = 0


@dataclass(frozen=True)
class MatrixResult:
    """Result of an operation.

    Attributes
    ----------
    products : int32 [threads, 256]
        The product registers after the operation.
    errors : list of (ErrorCode, int, int)
        Code, program counter and operand of each report, in order.
    steps : list of dict of int to int
        For each executed step, in order: position in the group to shared address of the word of B. With transpose each step has one
        word, or byte. With ``lane_sum`` the key is the PE of the word. Where the swizzle put it.
    unfinished : dict of int to int
        Words of the step that an error ended, up to the word with the error.
    pieces : list of list of int
        With transpose: shared addresses of the 16-byte pieces that are fetched together, one for each row, where the swizzle put them.
        Neighbouring columns in the same pieces share the fetch.
    fills : list of dict of int to int
        With ``fill``, for each word: 0 to its shared address, where the swizzle put it.
    entries : uint32 [compiled_offsets] or None
        The compiled-offset memory after the operation.
    """

    products: np.ndarray
    errors: list[tuple[ErrorCode, int, int]] = field(default_factory=list)
    steps: list[dict[int, int]] = field(default_factory=list)
    unfinished: dict[int, int] = field(default_factory=dict)
    pieces: list[list[int]] = field(default_factory=list)
    fills: list[dict[int, int]] = field(default_factory=list)
    entries: np.ndarray | None = None

    @property
    def addresses(self) -> list[int]:
        """Shared addresses of all words of the steps, in order."""
        return [address for words in self.steps for address in words.values()]


def group_lanes(operation: MatrixOperation | SimpleNamespace) -> tuple[int, int]:
    """Neighbouring PEs per column position and per word of k: the two factors of the size of a group [S0.5-S0.7]."""
    return _LANES[operation.ka], _LANES[operation.kb]


def column_of(operation: MatrixOperation | SimpleNamespace, a: int, index: int) -> int | None:
    """Column that column position ``a`` multiplies in step ``index``, or ``None`` [S0.5]."""
    threads, ka = len(operation.columns), operation.ka + 1
    length = -(-threads // ka)
    column = index * ka + a if operation.ka_interleaved else a * length + index
    return column if index < length and column < threads else None


def matrix_steps(operation: MatrixOperation | SimpleNamespace) -> list[tuple[int, int]]:
    """(index, slice) of every step in loop order [S0.4]. Steps without a column to fetch do not occur [S0.9]. Not for transpose."""
    def fetched(index: int) -> bool:
        columns = [column_of(operation, a, index) for a in range(operation.ka + 1)]
        return any(operation.columns[column] for column in columns if column is not None)

    indices = [index for index in range(len(operation.columns)) if fetched(index)]
    slices = range(operation.k_length + 1)
    if operation.order == LoopOrder.COLUMNS_OUTER:
        return [(index, number) for index in indices for number in slices]
    return [(index, number) for number in slices for index in indices]


def column_steps(operation: MatrixOperation | SimpleNamespace) -> list[tuple[int, int, int]]:
    """(column, slice, word of the slice) of every step with transpose: one column each, with or without merges, slices outermost
    [S0.8].
    """
    words = len(operation.columns) if operation.lane_sum else operation.kb + 1
    columns = [int(column) for column in np.flatnonzero(operation.columns)]
    return [(column, number, word) for number in range(operation.k_length + 1) for word in range(words) for column in columns]


def compiled_address(entry: np.ndarray, offset: np.ndarray, base: int, padding: int) -> np.ndarray:
    """Addresses by compiled offsets: base of the operation, base of the thread and offset of the entry, modulo 2^20 [S2.3]. Where a mask
    bit of the thread that the entry asks for is not set it is the padding.

    ``entry``: int64 ``entry_layout``s; ``offset``: int64 offset registers of threads, ``base_layout``s; both are broadcast. Of ``padding``
    the low 20 bits count.
    """
    mask = offset >> OFFSET_BITS | -1 << MASK_BITS
    asked = [mask >> (entry >> OFFSET_BITS + 4 * index & 15) & 1 for index in range(POSITIONS)]
    inside = np.logical_and.reduce(asked)
    return np.where(inside, base + offset + entry, padding) & (1 << OFFSET_BITS) - 1


def multiply(products: np.ndarray, factors: np.ndarray, shared: np.ndarray, operation: MatrixOperation | SimpleNamespace,
             entries: np.ndarray | None = None) -> MatrixResult:
    """Execute one ``mm`` or ``offsets``.

    Parameters
    ----------
    products : int32 [threads, 256]
        Product registers; not modified.
    factors : uint8 [threads, factor_words, dot]
        Factor registers; offset registers are 32-bit little-endian parts of the factor registers.
    shared : uint8 [bytes]
        Shared memory.
    operation : MatrixOperation
        Operation.
    entries : uint32 [compiled_offsets], optional
        Compiled-offset memory; not modified.

    Returns
    -------
    MatrixResult
    """
    threads, _, dot = factors.shape
    result = MatrixResult(products.copy(), entries=None if entries is None else entries.copy())
    parts = np.ascontiguousarray(factors).reshape(threads, -1).view("<u4")
    offsets = [int(value) for value in parts[:, operation.offset_register]]
    if operation.transpose:
        _multiply_columns(result, factors, shared, operation, offsets)
        return result
    if operation.fill:
        _fill(result, shared, operation, offsets[0], dot)
        return result
    if operation.compiled is not OffsetEntry.NONE:
        _multiply_compiled(result, factors, shared, operation, offsets)
        return result
    for index, number, quad in _parts(operation):
        register = operation.product + index
        if _beyond(result, operation, register):
            continue
        if operation.lane_sum:
            first = (number * threads + 4 * quad) * dot
            places = {part: (_column(operation, offsets, index), first + part * dot) for part in range(4)}
        else:
            places = _words(operation, offsets, index, number, dot)
        words: dict[int, int] = {}
        for position, (column, distance) in places.items():
            address = (column + distance) & 0xFFFFFFFF
            words[position] = swizzled(address, operation.swizzle)
            if code := _word_error(operation, column, distance, dot, len(shared)):
                result.errors.append((code, operation.pc, address))
                result.unfinished.update(words)
                return result
        result.steps.append(words)
        zero = operation.zero and number == quad == 0
        contents = {position: shared[address:address + dot] for position, address in words.items()}
        if operation.lane_sum:
            contents = {4 * quad + part: word for part, word in contents.items()}
            _total(result.products, factors, operation, register, number, contents, zero)
        else:
            _step(result.products, factors, operation, register, number, contents, zero)
    return result


def _fill(result: MatrixResult, shared: np.ndarray, operation: MatrixOperation | SimpleNamespace, offset: int, dot: int) -> None:
    """Words of ``dot`` bytes into the compiled-offset memory, up to the first error."""
    assert result.entries is not None
    column = (operation.base + (offset << operation.element_shift)) & 0xFFFFFFFF
    for number in range(operation.k_length + 1):
        address = (column + number * dot) & 0xFFFFFFFF
        place = swizzled(address, operation.swizzle)
        if code := _word_error(operation, column, number * dot, dot, len(shared)):
            result.errors.append((code, operation.pc, address))
            result.unfinished[0] = place
            return
        result.fills.append({0: place})
        first = (operation.factor_word + number) * dot // 4
        result.entries[first:first + dot // 4] = shared[place:place + dot].view("<u4")


def _multiply_compiled(result: MatrixResult, factors: np.ndarray, shared: np.ndarray, operation: MatrixOperation | SimpleNamespace,
                       offsets: list[int]) -> None:
    """All steps with compiled offsets, up to the first error."""
    assert result.entries is not None
    dot, by_byte = factors.shape[2], operation.compiled is OffsetEntry.BYTE
    first, together = operation.pitch >> OFFSET_BITS, dot if by_byte else 1
    for index, number in matrix_steps(operation):
        register = operation.product + index
        if _beyond(result, operation, register):
            continue
        place = first + number * together
        if place >= len(result.entries) or (by_byte and place % dot):
            result.errors.append((ErrorCode.OFFSET_RANGE, operation.pc, len(result.entries)))
            return
        words, contents = {}, {}
        for a in range(operation.ka + 1):
            column = column_of(operation, a, index)
            if column is None or not operation.columns[column]:
                continue
            pieces = []
            entries = result.entries[place:place + together].astype(np.int64)
            addresses = compiled_address(entries, np.array(offsets[column]), operation.base, operation.pitch)
            for part, address in enumerate(addresses.tolist()):
                words[part if by_byte else a] = there = swizzled(address, operation.swizzle)
                code = (ErrorCode.MISALIGNED if not by_byte and address % dot
                        else ErrorCode.OUT_OF_RANGE if address >= len(shared) else None)
                if code:
                    result.errors.append((code, operation.pc, address))
                    result.unfinished.update(words)
                    return
                pieces.append(shared[there:there + (1 if by_byte else dot)])
            contents[a] = np.concatenate(pieces)
        result.steps.append(words)
        _step(result.products, factors, operation, register, number, contents, operation.zero and number == 0)


def _beyond(result: MatrixResult, operation: MatrixOperation | SimpleNamespace, register: int) -> bool:
    """Whether a step is omitted because its product register does not exist; reported once."""
    report = (ErrorCode.PRODUCT_RANGE, operation.pc, PRODUCT_REGISTERS)
    if register >= PRODUCT_REGISTERS and report not in result.errors:
        result.errors.append(report)
    return register >= PRODUCT_REGISTERS


def _multiply_columns(result: MatrixResult, factors: np.ndarray, shared: np.ndarray, operation: MatrixOperation | SimpleNamespace,
                      offsets: list[int]) -> None:
    """All steps with transpose, up to the first error: the PEs at the position of the word multiply, those of its sum accumulate."""
    dot, lanes_b = factors.shape[2], group_lanes(operation)[1]
    places = {column_of(operation, a, index): (a, index)
              for a in range(operation.ka + 1) for index in range(len(operation.columns))}
    words_of_slice = len(operation.columns) if operation.lane_sum else operation.kb + 1
    for column, number, word in column_steps(operation):
        a, index = places[column]
        register = operation.product + index
        if _beyond(result, operation, register):
            continue
        row = (number * words_of_slice + word) * _rows(operation, dot)
        address = (_column(operation, offsets, column) + row * operation.pitch) & 0xFFFFFFFF
        if error := _fetch_piece(result, operation, address, dot, len(shared)):
            result.errors.append((error[0], operation.pc, error[1]))
            return
        position = word if operation.lane_sum else a * lanes_b + word
        result.steps.append({position: swizzled(address, operation.swizzle)})
        execute = _total if operation.lane_sum else _step
        content = _column_bytes(shared, operation, address, dot)
        execute(result.products, factors, operation, register, number, {position: content}, operation.zero and number == word == 0)


def _parts(operation: MatrixOperation | SimpleNamespace) -> list[tuple[int, int, int]]:
    """(index, slice, quad) of all steps; a sum over all PEs takes a step for every four of them."""
    quads = range(len(operation.columns) // 4 if operation.lane_sum else 1)
    return [(index, number, quad) for index, number in matrix_steps(operation) for quad in quads]


def _column(operation: MatrixOperation | SimpleNamespace, offsets: list[int], column: int) -> int:
    """Address of the first word of a column, or of its element in the first row with transpose."""
    return (operation.base + (offsets[column] << operation.element_shift)) & 0xFFFFFFFF


def _word_error(operation: MatrixOperation | SimpleNamespace, column: int, distance: int, dot: int, size: int) -> ErrorCode | None:
    """Error of the word ``distance`` bytes behind the address of its column, before any swizzle; or ``None``."""
    address = (column + distance) & 0xFFFFFFFF
    if address % dot:
        return ErrorCode.MISALIGNED
    if address >= size:
        return ErrorCode.OUT_OF_RANGE
    inside = operation.swizzle == Swizzle.NONE or column % ROW_BYTES + distance < ROW_BYTES
    return None if inside else ErrorCode.PANEL_RANGE


def _words(operation: MatrixOperation | SimpleNamespace, offsets: list[int], index: int, number: int,
           dot: int) -> dict[int, tuple[int, int]]:
    """The word of every occupied position, columns first, then along k: address of its column, and its distance from there."""
    ka, kb = operation.ka + 1, operation.kb + 1
    words = {}
    for a in range(ka):
        column = column_of(operation, a, index)
        if column is None or not operation.columns[column]:
            continue
        for b in range(kb):
            words[a * group_lanes(operation)[1] + b] = _column(operation, offsets, column), (number * kb + b) * dot
    return words


def _rows(operation: MatrixOperation | SimpleNamespace, dot: int) -> int:
    """Rows of k in a slice."""
    return dot // 2 if operation.int16 else dot


def _fetch_piece(result: MatrixResult, operation: MatrixOperation | SimpleNamespace, address: int, dot: int,
                 size: int) -> tuple[ErrorCode, int] | None:
    """Record the pieces of a column of transposed B unless the previous column had the same pieces [S0.8]. Returns (code, operand) of
    an error, or ``None``.
    """
    pitch, last = operation.pitch, address + (_rows(operation, dot) - 1) * operation.pitch
    if pitch % BANK_BYTES:
        return ErrorCode.MISALIGNED, pitch
    if operation.int16 and address % 2:
        return ErrorCode.MISALIGNED, address
    for place in (pitch, address, last):
        if place >= size:
            return ErrorCode.OUT_OF_RANGE, place
    piece = [swizzled(address // BANK_BYTES * BANK_BYTES + row * pitch, operation.swizzle) for row in range(_rows(operation, dot))]
    if not result.pieces or result.pieces[-1] != piece:
        result.pieces.append(piece)
    return None


def _column_bytes(shared: np.ndarray, operation: MatrixOperation | SimpleNamespace, address: int, dot: int) -> np.ndarray:
    """The ``dot`` bytes of a column of transposed B that a step multiplies: an element in each row, ``address`` without swizzle."""
    size = 1 + operation.int16
    rows = swizzled(address + np.arange(_rows(operation, dot)) * operation.pitch, operation.swizzle)
    return shared[rows[:, None] + np.arange(size)].reshape(-1)


def _step(products: np.ndarray, factors: np.ndarray, operation: MatrixOperation | SimpleNamespace, register: int, number: int,
          words: dict[int, np.ndarray], zero: int) -> None:
    """One step of all PEs: dot products, sums over the PEs along k, accumulation. ``words``: bytes of the word of a position."""
    threads = len(factors)
    lanes_a, lanes_b = group_lanes(operation)
    size = lanes_a * lanes_b
    dots = np.zeros(threads, np.int64)
    takes = np.zeros(threads, bool)
    fetched = {position // lanes_b for position in words}
    for lane in range(threads):
        position = lane % size
        takes[lane] = operation.lanes[lane] and position // lanes_b in fetched and position % lanes_b == operation.kb_destination
        if operation.lanes[lane] and position in words:
            a = _elements(factors[lane, operation.factor_word + number], operation.a_signed, operation.int16)
            b = _elements(words[position], operation.b_signed, operation.int16)
            dots[lane] = a @ b
    sums = np.repeat(dots.reshape(-1, lanes_b).sum(axis=1), lanes_b)
    # 64 bits hold the sum of a register and dot products; the conversion back wraps.
    before = 0 if zero else products[:, register].astype(np.int64)
    after = (before + sums).astype(np.uint64).astype(np.uint32).view(np.int32)
    products[takes, register] = after[takes]


def _total(products: np.ndarray, factors: np.ndarray, operation: MatrixOperation | SimpleNamespace, register: int, number: int,
           words: dict[int, np.ndarray], zero: int) -> None:
    """Contribution of some PEs to a dot product of all PEs, accumulated in PE 0. ``words``: bytes of the word of a PE."""
    total = 0 if zero else int(products[0, register])
    for lane, word in words.items():
        if operation.lanes[lane]:
            a = _elements(factors[lane, operation.factor_word + number], operation.a_signed, operation.int16)
            total += int(a @ _elements(word, operation.b_signed, operation.int16))
    if operation.lanes[0]:
        products[0, register] = (total + (1 << 31)) % (1 << 32) - (1 << 31)


def _elements(values: np.ndarray, signed: int, int16: int) -> np.ndarray:
    kind = f"{'<' if int16 else '|'}{'i' if signed else 'u'}{2 if int16 else 1}"
    return np.ascontiguousarray(values).view(kind).astype(np.int64)
