"""Which lane of a group multiplies which column: the arithmetic of the merges, for elaboration."""

from amaranth.hdl import Cat

__all__ = ["COLUMN_MODES", "POSITIONS_A", "column_modes", "column_place", "columns_together", "one_hot_lanes_b", "one_word",
           "position_steps", "slot_place"]

POSITIONS_A = 4         # columns of a step at most
# (ka, interleaved)
COLUMN_MODES = ((1, False), (2, False), (2, True), (3, False), (3, True), (4, False), (4, True))


def column_modes(operation):
    """The mode of an operation, one hot in the order of ``COLUMN_MODES``."""
    def matches(ka, interleaved):
        same = operation.ka == ka - 1
        return same if ka == 1 else same & (operation.ka_interleaved == interleaved)

    return Cat(matches(*mode) for mode in COLUMN_MODES)


def column_place(threads, mode, column):
    """(a, i): the position in the group, and the step, that take ``column`` in a mode."""
    ka, interleaved = mode
    length = -(-threads // ka)
    return (column % ka, column // ka) if interleaved else (column // length, column % length)


def position_steps(threads, a):
    """Steps that position ``a`` takes part in, at most, in any mode."""
    places = [column_place(threads, mode, column) for mode in COLUMN_MODES for column in range(threads)]
    return 1 + max(index for place, index in places if place == a)


def columns_together(slots, lanes_b):
    """Columns whose words are fetched together; ``lanes_b`` (1, 2, 4) are the lanes along k."""
    return max(1, min(POSITIONS_A, slots // lanes_b))


def slot_place(slots, lanes_b, slot):
    """(column, word of the column) of a slot among those that are fetched together, or ``None`` when it is not used."""
    column, word = divmod(slot, min(lanes_b, slots))
    return (column, word) if column < columns_together(slots, lanes_b) else None


def one_hot_lanes_b(kb):
    """One hot: 1, 2 or 4 lanes along k, from field ``kb``."""
    return Cat(kb == 0, kb == 1, kb[1])


def one_word(cfg, step):
    """Whether each column of a step, or of an operation, has one word along k; with transposed B it does, merges or not."""
    return (step.kb == 0) | (step.transpose if cfg.transpose else 0)
