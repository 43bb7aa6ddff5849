"""Positions of columns and words in merged steps, computed at elaboration."""

from amaranth.hdl import Cat

__all__ = ["COLUMN_MODES", "POSITIONS_A", "column_modes", "column_place", "columns_together", "one_hot_lanes_b", "one_word",
           "position_steps", "slot_place"]

POSITIONS_A = 4         # columns of a step at most
# (ka, interleaved)
COLUMN_MODES = ((1, False), (2, False), (2, True), (3, False), (3, True), (4, False), (4, True))


def column_modes(operation):
    """Column mode of an operation, one-hot in the order of ``COLUMN_MODES``."""
    def matches(ka, interleaved):
        same = operation.ka == ka - 1
        return same if ka == 1 else same & (operation.ka_interleaved == interleaved)

    return Cat(matches(*mode) for mode in COLUMN_MODES)


def column_place(threads, mode, column):
    """(a, i): position in the merge group, and step, of ``column`` in a mode."""
    ka, interleaved = mode
    length = -(-threads // ka)
    return (column % ka, column // ka) if interleaved else (column // length, column % length)


def position_steps(threads, a):
    """Number of steps in which position ``a`` may take part, over all modes."""
    places = [column_place(threads, mode, column) for mode in COLUMN_MODES for column in range(threads)]
    return 1 + max(index for place, index in places if place == a)


def columns_together(slots, lanes_b):
    """Columns whose words are fetched together; ``lanes_b`` (1, 2, 4) is the number of PEs along k."""
    return max(1, min(POSITIONS_A, slots // lanes_b))


def slot_place(slots, lanes_b, slot):
    """(column, word of the column) of a fetch slot in a group of words, or ``None`` for an unused slot."""
    column, word = divmod(slot, min(lanes_b, slots))
    return (column, word) if column < columns_together(slots, lanes_b) else None


def one_hot_lanes_b(kb):
    """1, 2 or 4 PEs along k, one-hot, from field ``kb``."""
    return Cat(kb == 0, kb == 1, kb[1])


def one_word(cfg, step):
    """Whether each column of a step or operation has one word along k; always with transposed B."""
    return (step.kb == 0) | (step.transpose if cfg.transpose else 0)
