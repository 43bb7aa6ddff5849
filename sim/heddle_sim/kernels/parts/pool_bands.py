"""Bands of rows of images for pooling: where they lie in shared memory, their copies with padding, and the way of the results back.

A band has the rows of x that some rows of results need. Padding lies around it in shared memory: its columns are filled once, its rows
with the first and last bands, all from one row of that value in global memory. Bands come to two places in turn. A plane whose
pixels are too long is cut into slices of channels, whose rows are then copied pixel by pixel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from heddle.config import Config
from heddle.constants import BANK_BYTES, ROW_BYTES

from ...compiled.geometry import Geometry
from .fitting import Region, Unfit, check_regions
from .text import KernelText
from .tiling import round_up

__all__ = ["BAND_NAMES", "PADS_FILLED", "PoolBands"]

_LOADED, PADS_FILLED = (0, 1), 2            # barriers
# Pairs of copies of rows stand together.
BAND_NAMES = ("to", "to_pitch", "from", "from_pitch", "blocks", "count", "fill", "fill_pitch", "zero", "x", "x_at", "row", "row_place",
              "in_left", "in_slices", "in_bands", "need", "above", "below", "slot", "other_slot", "stage", "other_stage", "y", "out_left",
              "out_slices", "items")


@dataclass(frozen=True)
class PoolBands:
    """Bands of ``rows`` rows of results, in slices of ``vector`` channels; ``geometry``: of the planes, with two spatial axes, the window
    as filter. The first ``table_bytes`` bytes of shared memory are left alone. Raises ``Unfit`` where shared memory has no room."""

    cfg: Config
    geometry: Geometry
    vector: int
    rows: int
    table_bytes: int

    def __post_init__(self) -> None:
        if self.slots[1] + self.slot_bytes > self.cfg.shared_bytes:
            raise Unfit("shared_memory_kib")
        check_regions(self.cfg, [
            *(Region(f"stage {number}", place, self.stage_bytes) for number, place in enumerate(self.stages[:self.places])),
            *(Region(f"slot {number}", place, self.slot_bytes) for number, place in enumerate(self.slots[:self.places]))])

    # -- sizes ------------------------------------------------------------------------------

    @property
    def slices(self) -> int:
        return self.geometry.channels // self.vector

    @property
    def bands(self) -> int:
        """Of a slice."""
        return -(-self.geometry.result[0] // self.rows)

    @property
    def total(self) -> int:
        return self.geometry.images * self.slices * self.bands

    @property
    def last_rows(self) -> int:
        """Rows of results of the last band of a slice."""
        return self.geometry.result[0] - (self.bands - 1) * self.rows

    def inputs(self, rows: int) -> int:
        """Rows of x, padding included, for so many rows of results."""
        return (rows - 1) * self.geometry.stride[0] + self.geometry.reach[0] + 1

    @property
    def pitch(self) -> int:
        """Of a row in shared memory: an odd number of blocks, so that neighbouring rows lie in different banks."""
        return (sum((self.geometry.size[1], *self.geometry.padding[1])) * self.vector // BANK_BYTES | 1) * BANK_BYTES

    @property
    def slot_bytes(self) -> int:
        return self.inputs(self.rows) * self.pitch

    @property
    def stage_bytes(self) -> int:
        return self.rows * self.geometry.result[1] * self.vector

    @property
    def places(self) -> int:
        """Of bands, and of their results: two where there are two bands."""
        return min(2, self.total)

    @property
    def stages(self) -> tuple[int, int]:
        return self.table_bytes, self.table_bytes + (self.places - 1) * self.stage_bytes

    @property
    def slots(self) -> tuple[int, int]:
        first = round_up(self.stages[1] + self.stage_bytes, ROW_BYTES)
        return first, first + (self.places - 1) * self.slot_bytes

    @property
    def fill_bytes(self) -> int:
        """Of the row of padding in global memory."""
        return max(self.geometry.size[1], *self.geometry.padding[1]) * self.vector

    @property
    def row_bytes(self) -> int:
        """Of a row of x in global memory."""
        return self.geometry.size[1] * self.geometry.channels

    @property
    def plane_bytes(self) -> int:
        return self.geometry.size[0] * self.row_bytes

    @property
    def result_bytes(self) -> int:
        """Of a plane of the result."""
        return prod(self.geometry.result) * self.geometry.channels

    # -- program ----------------------------------------------------------------------------

    def values(self, x: int, y: int, fill: int) -> dict[str, int]:
        """Uniform registers at the start; addresses of the first plane of x and of the result, and of the row of padding."""
        above = self.geometry.padding[0][0]
        return {"x": x, "x_at": x - above * self.row_bytes, "row": -above, "row_place": -above * self.pitch, "fill": fill, "fill_pitch": 0,
                "zero": 0, "in_left": self.geometry.result[0], "in_slices": self.slices, "in_bands": self.total, "slot": self.slots[0],
                "other_slot": self.slots[1], "stage": self.stages[0], "other_stage": self.stages[1], "y": y,
                "out_left": self.geometry.result[0], "out_slices": self.slices}

    def fill_columns(self, text: KernelText) -> None:
        """Padding beside the rows of all places, at ``PADS_FILLED``."""
        (begin, end), rows = self.geometry.padding[1], self.places * self.inputs(self.rows)
        if begin + end:
            text(f"    barrier.expect b{PADS_FILLED}, {(begin + end) * self.vector * rows}", f"    umov {{to_pitch}}, {self.pitch}",
                 f"    umov {{count}}, {rows}")
        for place, count in ((0, begin), (begin + self.geometry.size[1], end)):
            if count:
                text(f"    umov {{blocks}}, {count * self.vector // BANK_BYTES}", f"    umov {{to}}, {self.slots[0] + place * self.vector}",
                     f"    copy_rows.shared.global {{to}}, {{fill}}, {{blocks}}, b{PADS_FILLED}")

    def load(self, text: KernelText) -> None:
        """Copies of the next band of x, if there is one, to ``slot``; barrier by the predicate up0. ``slot`` and ``other_slot`` change
        places."""
        shape, done = self.geometry, text.label("loaded")
        above, below = shape.padding[0]
        whole = shape.size[1] * self.vector
        text("    usetp.le up2, {in_bands}, 0", f"    @up2 bra {done}", "    usub {in_bands}, {in_bands}, 1",
             f"    umov {{need}}, {self.inputs(self.rows)}", f"    usetp.le up2, {{in_left}}, {self.rows}",
             f"    @up2 umov {{need}}, {self.inputs(self.last_rows)}", f"    umov {{count}}, {self.inputs(self.rows) * whole}",
             f"    @up2 umov {{count}}, {self.inputs(self.last_rows) * whole}", f"    @!up0 barrier.expect b{_LOADED[0]}, {{count}}",
             f"    @up0 barrier.expect b{_LOADED[1]}, {{count}}", f"    umov {{to_pitch}}, {self.pitch}",
             f"    umov {{blocks}}, {whole // BANK_BYTES}")
        if below:       # rows beyond the image, at its end in the place
            text("    uadd {below}, {row}, {need}", f"    usub {{below}}, {{below}}, {shape.size[0]}", "    umax {below}, {below}, 0",
                 "    usub {need}, {need}, {below}")
            self._fill_rows(text, "below", lambda: text("    usub {to}, {slot}, {row_place}",
                                                        f"    uadd {{to}}, {{to}}, {shape.size[0] * self.pitch}"))
        text("    umov {to}, {slot}", "    umov {from}, {x_at}")
        if above:
            text("    usub {above}, {zero}, {row}", "    umax {above}, {above}, 0", "    usub {need}, {need}, {above}")
            self._fill_rows(text, "above", lambda: text("    umov {to}, {slot}"))
            text("    usetp.gt up2, {above}, 0", "    @up2 usub {to}, {slot}, {row_place}", "    @up2 umov {from}, {x}")
        if self.slices == 1:
            text(f"    umov {{from_pitch}}, {self.row_bytes}", "    umov {count}, {need}")
            self._copy(text, "{from}")
        else:
            pixels = text.label("pixels")
            text(f"    umov {{to_pitch}}, {self.vector}", f"    umov {{from_pitch}}, {shape.channels}",
                 f"    umov {{blocks}}, {self.vector // BANK_BYTES}", f"    umov {{count}}, {shape.size[1]}", f"{pixels}:")
            self._copy(text, "{from}")
            text(f"    uadd {{to}}, {{to}}, {self.pitch}", f"    uadd {{from}}, {{from}}, {self.row_bytes}", "    usub {need}, {need}, 1",
                 "    usetp.gt up2, {need}, 0", f"    @up2 bra {pixels}")
        self._next_load(text, done)
        text(f"{done}:", "    umov {to}, {slot}", "    umov {slot}, {other_slot}", "    umov {other_slot}, {to}")

    def _fill_rows(self, text: KernelText, count: str, place: Callable[[], None]) -> None:
        """Rows of padding, if there are any, beside the columns of padding."""
        none = text.label("no_rows")
        text(f"    usetp.le up2, {{{count}}}, 0", f"    @up2 bra {none}")
        place()
        self._shift(text)
        text(f"    umov {{count}}, {{{count}}}")
        self._copy(text, "{fill}", shifted=True)
        text(f"{none}:")

    def _shift(self, text: KernelText) -> None:
        """From the columns of padding to those of x."""
        begin = self.geometry.padding[1][0]
        if begin:
            text(f"    uadd {{to}}, {{to}}, {begin * self.vector}")

    def _copy(self, text: KernelText, source: str, shifted: bool = False) -> None:
        if not shifted and self.geometry.padding[1][0]:
            begin = self.geometry.padding[1][0] * self.vector
            text(f"    uadd {{to}}, {{to}}, {begin}")
            self._copy(text, source, True)
            text(f"    usub {{to}}, {{to}}, {begin}")
            return
        text(f"    @!up0 copy_rows.shared.global {{to}}, {source}, {{blocks}}, b{_LOADED[0]}",
             f"    @up0 copy_rows.shared.global {{to}}, {source}, {{blocks}}, b{_LOADED[1]}")

    def _next_load(self, text: KernelText, done: str) -> None:
        """Where the next band begins: in this slice, the next one, or the next plane."""
        shape, rows = self.geometry, self.rows * self.geometry.stride[0]
        above = shape.padding[0][0]
        text(f"    uadd {{row}}, {{row}}, {rows}", f"    uadd {{row_place}}, {{row_place}}, {rows * self.pitch}",
             f"    uadd {{x_at}}, {{x_at}}, {rows * self.row_bytes}", f"    usub {{in_left}}, {{in_left}}, {self.rows}",
             "    usetp.gt up2, {in_left}, 0", f"    @up2 bra {done}", f"    umov {{row}}, {-above}",
             f"    umov {{row_place}}, {-above * self.pitch}", f"    umov {{in_left}}, {shape.result[0]}")
        self._next_slice(text, "x", "in_slices", self.plane_bytes)
        text(f"    usub {{x_at}}, {{x}}, {above * self.row_bytes}")

    def _next_slice(self, text: KernelText, address: str, slices: str, plane: int) -> None:
        text(f"    uadd {{{address}}}, {{{address}}}, {self.vector}", f"    usub {{{slices}}}, {{{slices}}}, 1",
             f"    usetp.le up2, {{{slices}}}, 0", f"    @up2 uadd {{{address}}}, {{{address}}}, {plane - self.geometry.channels}",
             f"    @up2 umov {{{slices}}}, {self.slices}")

    def begin(self, text: KernelText) -> None:
        """Wait until the band to work on is in shared memory and its stage is free; the copy of the next band goes on. ``items``: words in
        a column of its results."""
        words = self.vector // 4
        text(f"    @up0 barrier.wait b{_LOADED[0]}", f"    @!up0 barrier.wait b{_LOADED[1]}", "    wait_group.read 1",
             f"    umov {{items}}, {self.rows * words}", f"    usetp.le up2, {{out_left}}, {self.rows}",
             f"    @up2 umov {{items}}, {self.last_rows * words}")

    def store(self, text: KernelText) -> None:
        """Copy of the results of a band from ``stage`` to ``y``, which goes on; stages change places."""
        shape, pixel = self.geometry, self.vector // BANK_BYTES
        full, last = (rows * shape.result[1] for rows in (self.rows, self.last_rows))
        text("    wait.thread", "    umov {from}, {stage}", "    umov {to}, {y}", f"    umov {{to_pitch}}, {shape.channels}",
             f"    umov {{from_pitch}}, {self.vector}", "    umov {count}, 1", f"    umov {{blocks}}, {full * pixel}",
             f"    usetp.le up2, {{out_left}}, {self.rows}", f"    @up2 umov {{blocks}}, {last * pixel}")
        if self.slices > 1:
            text(f"    umov {{count}}, {full}", f"    @up2 umov {{count}}, {last}", f"    umov {{blocks}}, {pixel}")
        same = text.label("same_slice")
        text("    copy_rows.global.shared {to}, {from}, {blocks}", "    commit_group", "    umov {stage}, {other_stage}",
             "    umov {other_stage}, {from}", f"    uadd {{y}}, {{y}}, {self.rows * shape.result[1] * shape.channels}",
             f"    usub {{out_left}}, {{out_left}}, {self.rows}", "    usetp.gt up2, {out_left}, 0", f"    @up2 bra {same}",
             f"    umov {{out_left}}, {shape.result[0]}",
             f"    usub {{y}}, {{y}}, {self.bands * self.rows * shape.result[1] * shape.channels}")
        self._next_slice(text, "y", "out_slices", self.result_bytes)
        text(f"{same}:")
