"""Job of the sparse engine: 32 bytes in shared memory that say what one run does [S4]."""

from amaranth.lib import data, enum

__all__ = ["BIAS_ROW", "BOUNDS_ROW", "ELEMENTS_OF_WORD", "INDEX_BYTES", "JOB_BYTES", "JOB_ALIGNMENT", "MOST_SUB_WARPS", "MULTIPLIER_ROW",
           "POINTER_BYTES", "SCALE_ROWS", "STRIP_ROWS", "SUM_BYTES", "PanelTarget", "SparseKind", "scale_bounds_layout",
           "sparse_job_layout"]

JOB_BYTES = 32
JOB_ALIGNMENT = 16
INDEX_BYTES = 2             # bytes of an index of a row of B
POINTER_BYTES = 4           # bytes of a row pointer
SUM_BYTES = 4               # bytes of a sum
MOST_SUB_WARPS = 4          # sub-warps of a job
STRIP_ROWS = 16             # rows of A in a strip: bytes of a word
ELEMENTS_OF_WORD = 8        # indices of a word of 16 bytes of shared memory: the unit in which non-zeros are read


class SparseKind(enum.Enum, shape=2):
    ROWS = 0        # multiplies rows of the sparse matrix with the panel of B
    PANEL = 1       # loads rows of B into the factor register files, or what else ``target`` says
    SAMPLES = 2     # multiplies rows of A with the columns of B that a mask has an element in; the panel holds these columns


class PanelTarget(enum.Enum, shape=2):
    """Where a PANEL job loads its rows."""

    PANEL = 0       # the panel, in the factor register files
    WEIGHTS = 1     # weights of depthwise rows, in the operand rows of the PEs
    SCALES = 2      # biases, multipliers and bounds of scaled rows


# Rows of 4 bytes for each PE that scaled rows of sums need: biases, then multipliers, of columns 4 t + n for PE t in row n of each.
# Of the last one the first 4 bytes count.
BIAS_ROW, MULTIPLIER_ROW, BOUNDS_ROW, SCALE_ROWS = 0, 4, 8, 9

# Shift of the upper half of the product, and zero point and bounds of the bytes, signed or unsigned. ``own_shifts`` and
# ``double_rounding`` as in ``output_bounds_layout``.
scale_bounds_layout = data.StructLayout({
    "shift": 5, "own_shifts": 1, "double_rounding": 1, "unsigned": 1, "zero_point": 8, "minimum": 8, "maximum": 8})


def _field(shape, byte, bit=0):
    return data.Field(shape, 8 * byte + bit)


# ROWS: rows ``pointers[0]`` to ``pointers[rows]`` of CSR; element e has its index at ``indices`` + 2 * (e - first) and its value at
# ``values`` + (e - first) or, with ``wide_values``, + 2 * (e - first). Row n of sums goes to ``output`` + n * 16 * threads.
# SAMPLES: the rows are those of a mask. Column n of B is factor words n * ``words`` to n * ``words`` + ``words`` - 1 of all PEs: rows
# of the panel that a PANEL job loads. Row n of A, ``words`` * threads * dot bytes, is at ``left`` + n * this size. The sum of element e
# goes to ``output`` + 4 * (e - first), times the value of the element unless ``pattern``.
# SAMPLES with ``left_by_columns``: A lies transposed, in strips of 16 of its rows. A strip has 16 bytes for each of the ``words`` * threads
# * dot columns of A, one of each row, and strips follow each other. Row n of the job is byte (``left_first`` + n) mod 16 of strip
# (``left_first`` + n) div 16.
# PANEL: row n of B, of 4 * threads bytes, from ``values`` + n * 4 * threads on becomes row ``panel_rows`` + n of the panel, or of what
# ``target`` says.
# ROWS with ``depthwise``: there are no values. Element e of a row is multiplied with a weight for each column: with the four bytes that
# each PE has in row e of the weights that a PANEL job loaded. With ``dot`` 16 elements 2 n and 2 n + 1 have rows 4 n and 4 n + 1. A
# row of more than 16 steps begins with the first weights again.
# Strips, 2^``strips`` of them, are parts of the PEs: where one has b bytes of each row, PANEL finds these bytes of row n, and ROWS leaves
# them, at (strip * ``rows`` + n) * b instead: rows of a strip without gaps, then those of the next one.
# With ``sub_warps`` each strip is a sub-warp with rows of its own (at least two strips, at most MOST_SUB_WARPS). PANEL: rows have
# 4 * threads / 2^``strips`` bytes and go to every strip. ROWS: row n of the job is a group of rows, one for each strip, with as many
# elements each; it has them step by step: those of the first strip in this step, ``sparse_pairs`` of them, then those of the next one. So
# numbers of elements at which rows begin and end are multiples of ``sparse_pairs`` * 2^``strips``; the first one is ``first``. Sums lie in
# strips, as above.
# ROWS with ``scaled``: row n is 4 * threads bytes at ``output`` + n * 4 * threads: each sum plus its bias, times its multiplier / 2^32,
# shifted right by ``shift`` and rounded, plus the zero point, within the bounds.
sparse_job_layout = data.FlexibleLayout(8 * JOB_BYTES, {
    "kind": _field(SparseKind, 0),
    "wide_values": _field(1, 0, 2),         # values have 16 bits, signed; else 8
    "unsigned_values": _field(1, 0, 3),     # values of 8 bits are unsigned
    "unsigned_panel": _field(1, 0, 4),      # bytes of B are unsigned
    "unsigned_left": _field(1, 0, 5),       # SAMPLES: bytes of A are unsigned; ROWS: weights of depthwise rows are
    "pattern": _field(1, 0, 6),             # SAMPLES: the elements have no values
    "left_by_columns": _field(1, 0, 7),     # SAMPLES: A lies transposed, in strips of 16 rows
    "words": _field(4, 1),                  # SAMPLES: factor words of a column of B, 1 to 8
    "depthwise": _field(1, 1, 4),           # ROWS: the PEs have the values
    "scaled": _field(1, 1, 5),              # ROWS: sums become bytes
    "target": _field(PanelTarget, 1, 6),    # PANEL
    "strips": _field(2, 6),                 # PANEL, ROWS: log2 of the parts of the PEs whose rows lie together; eight PEs each at least
    "sub_warps": _field(1, 6, 2),           # PANEL, ROWS: strips have rows of their own; neither depthwise nor scaled
    "left_first": _field(4, 7),             # SAMPLES, by columns: place of the first row in its strip
    "rows": _field(16, 2),                  # at least 1
    "panel_rows": _field(16, 4),            # ROWS, SAMPLES: indices are below this number; PANEL: first row that is written
    "first": _field(32, 8),                 # number of the element at ``indices`` and ``values``, a multiple of 16
    "left": _field(20, 12),                 # SAMPLES: shared address of A, a multiple of min(128, 4 * threads), by columns of 128
    "pointers": _field(20, 16),             # shared addresses in bytes: a multiple of 4,
    "indices": _field(20, 20),              # of 16, with ``sub_warps`` of 32,
    "values": _field(20, 24),               # of 16, with ``sub_warps`` of 32, and with PANEL of min(128, 4 * threads),
    "output": _field(20, 28),               # of 128, with SAMPLES of 16
})
