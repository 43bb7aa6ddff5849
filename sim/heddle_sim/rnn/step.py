"""A step of a recurrent network as the engine will do it, with names in place of addresses."""

from dataclasses import dataclass, field

import numpy as np
from heddle.errors import UsageError
from heddle.rnn.layouts import Cell, Function, Pre

__all__ = ["Job", "Operation", "Rows", "Step", "Sweep", "Vector"]

VECTOR_KINDS = ("input", "state", "constant", "work")


@dataclass(frozen=True)
class Vector:
    """A vector of 16-bit elements in vector memory.

    ``kind``: "input", a row of which comes with every step; "state", loaded before the first step; "constant", likewise, with
    ``values`` (int16 [size]); "work", made by a job before it is read.
    ``fraction``: fraction bits of its elements; ``limit``: their largest magnitude.
    """

    size: int
    kind: str
    fraction: int = 0
    limit: int = 1 << 15
    values: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.kind not in VECTOR_KINDS:
            raise UsageError(f"kind must be one of {', '.join(VECTOR_KINDS)}, not {self.kind!r}")


@dataclass(frozen=True)
class Rows:
    """Sums that are made together: ``gates`` for each of ``elements`` elements, beginning with ``bias`` (int32 [gates, elements])."""

    gates: int
    elements: int
    bias: np.ndarray
    layer: str


@dataclass(frozen=True)
class Operation:
    """An operation of the tail; fields as in ``operation_layout``, with names for rows, vectors and outputs."""

    rows: str | None = None         # None: idle
    gate: int = 0
    shift: int = 0
    multiplier: int = 0
    function: Function = Function.LINEAR
    shift_activation: int = 0
    pre: Pre = Pre.NONE
    cell: Cell = Cell.ACTIVATION
    second: Function = Function.LINEAR
    shift_second: int = 0
    operand: str | None = None
    load_state: bool = False
    wide_state: bool = False
    keep_activation: bool = False
    keep_gate: bool = False
    destination: str | None = None
    wide_result: bool = False


@dataclass(frozen=True)
class Job:
    """What the tail does when a sweep has ended: its operations for each of ``elements`` elements."""

    operations: tuple[Operation, ...]
    elements: int


@dataclass(frozen=True)
class Sweep:
    """A product of a vector with the weights of consecutive sets of rows, each int8 [gates, elements, size of the vector]."""

    rows: tuple[str, ...]
    vector: str
    weights: tuple[np.ndarray, ...]
    begins: bool        # the sums begin with their biases
    job: Job | None = None


@dataclass
class Step:
    """Vectors, rows, sweeps in order, and the vectors whose new values are wanted from every step (``outputs``).

    The layers of ``layers.py`` add to it; names are theirs to choose.
    """

    vectors: dict[str, Vector] = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=dict)
    sweeps: list[Sweep] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    def add_vector(self, name: str, vector: Vector) -> None:
        """A name for a vector; raises ``ValueError`` when it is taken."""
        if name in self.vectors:
            raise UsageError(f"names of vectors must differ, not be {name!r} twice")
        self.vectors[name] = vector

    @property
    def jobs(self) -> list[Job]:
        """The jobs of a step, in the order of their sweeps."""
        return [sweep.job for sweep in self.sweeps if sweep.job]

    def states(self) -> list[str]:
        """Names of the vectors that are loaded before the first step and change."""
        return [name for name, vector in self.vectors.items() if vector.kind == "state"]

    def macs(self) -> int:
        """Multiply-accumulates of a step, without padding."""
        return sum(weights.size for sweep in self.sweeps for weights in sweep.weights)
