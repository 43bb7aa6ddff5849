"""Convolution by compiled offsets [S2.3]: one program for every layout and size, which only its tables tell apart.

Lanes hold filters, columns are pixels. A band of rows of x lies in shared memory as it lies in global memory. Fetching thread n has the
base address of pixel n in its offset register. With the list of offsets that all threads share, ``mm`` reads the elements of its window
where they are. The sums of a tile, ``threads`` filters by up to ``threads`` pixels, are stored while ``mm`` works on the next tile.
Entries that the compiled-offset memory does not hold are loaded from shared memory between the ``mm`` of each tile.

Loops, from outside: filters, bands, tiles of pixels. The weights of the next filters come to the other half of the factor registers behind
the first tile. Where a half is too small the first tile of some filters loads them: some chunks in front of their ``mm``, while those
before are multiplied. Filters that the registers do not hold are streamed (``compiled_products``). Bands come to two places in turn, where
one does not hold all of x; where shared memory has room for one of them only, the next band comes when ``mm`` has left the present one.

Several cores share bands and tiles of filters out (``shares``): each has a rectangle of them as if it were the whole, and begins with the
addresses and numbers of its own.
"""

from __future__ import annotations

from heddle.config import Config
from heddle.constants import BANK_BYTES, ROW_BYTES

from .compiled_plan import CHUNK_SLOTS, CompiledConvolutionProblem
from .compiled_products import ENTRIES, LOCAL, CompiledProducts
from .parts.launch import Launch
from .parts.merges import write_scaled
from .parts.shares import Share, begin_share
from .parts.text import KernelText
from .problem import Operands

__all__ = ["CompiledConvolutionKernel", "CompiledConvolutionProblem"]

_SLABS, _TABLE, _REST = (0, 1), 6, 7    # barriers
_FIRST_STORES = 4                           # of a tile, for the thread unit to work on while other instructions are issued
_BASES = 1                      # segment of the bases of the pixels of a tile
_ADDRESSES = ("x", "next_x", "bases", "next_bases", "w", "first_y")     # that differ between cores by a distance


class CompiledConvolutionKernel(CompiledProducts):
    """``mm`` with compiled offsets for a ``CompiledConvolutionProblem``. Operands: ``a`` is the first plane of the group's channels; ``b``
    is the ``table`` of the kernel with the weights behind it; ``c`` is the first plane of the result.

    Uniform predicates: up0 parity of the tile; up1 parity of the band; up2 scratch; up3 a tile waits to be stored; up4 half of the factor
    registers, or weights are to be loaded, or the sums of streamed filters begin; up5 a tile waits to be sent; up6 the rest of the first
    band has not come. Thread predicate p1: columns of the tile.
    """

    def __init__(self, cfg: Config, problem: CompiledConvolutionProblem, whole: int = 0) -> None:
        super().__init__(cfg, problem, whole)
        self.text = KernelText(self._names())

    def _names(self) -> list[str]:
        """Pairs of copies of rows stand together; ``entry`` and those with a number have the numbers of the segments of ``mm``."""
        slots = [f"slot_{number}{part}" for number in range(CHUNK_SLOTS) for part in ("", "_pitch")]
        return ["entry", "slab_to", "slab_pitch", "entry_1", "entry_2", "entry_3", "next_x", "x_pitch", "x_blocks", "x_count", *slots,
                "chunk", "chunk_pitch", "w_blocks", "w_rows", "y", "y_pitch", "from", "from_pitch", "blocks", "rows", "table", "bases",
                "bases_to", "next_bases", "w", "x", "filters", "filters_left", "prev_filters", "in_block", "bands", "next_band", "copies",
                "first_tile", "parity", "first_y", "row_y", "tile_y", "prev_y", "half", "load", "left", "tile_left", "this_left",
                "prev_left", "tile_bases", "fresh", "group_place", "group_offset", "columns", "parts_left", "refill",
                *(("core", "own_bands", "own_filters", "own_pixels") if self.cfg.cores > 1 else ())]

    def _own(self, name: str) -> str:
        """Number of bands, of tiles of filters, or of pixels from the first band on, that a core works on: a number, or its register."""
        if self.cfg.cores > 1:
            return f"{{own_{name}}}"
        return str({"bands": self.bands, "filters": self.filter_tiles, "pixels": self.pixels}[name])

    def _arguments(self, share: Share) -> dict[str, int]:
        """Uniform registers of the core that has these bands (rows of the share) and tiles of filters (columns), and what they hold;
        of addresses the distance from those of the whole. ``this_left``: place of its first biases and multipliers, at the beginning."""
        problem, output, first = self.problem, self.output, share.column
        item, vector, threads = output.dtype.itemsize, output.planes.vector, self.cfg.threads
        if not output.pixel_rows:
            y, in_block = first * (threads // vector) * output.planes.pitch, 0
        elif problem.layout.channels_last:
            y, in_block = first * item * threads, 0
        else:
            block, in_block = divmod(first, vector // threads)
            y = block * output.planes.pitch + in_block * item * threads
        x = share.row * self.rows * problem.geometry.stride[0] * self.planes.row_bytes
        bases = share.row * 4 * self.base_count
        return {"x": x, "next_x": x, "bases": bases, "next_bases": bases, "w": first * threads * self.weight_pitch,
                "first_y": y + share.row * self.band_pixels * output.pixel_pitch, "filters": share.columns,
                "filters_left": problem.outputs - first * threads, "in_block": in_block, "group_offset": first * self.group_step,
                "next_band": share.rows, "copies": share.rows * share.columns - 1, "this_left": first * 8 * threads * self.parts,
                "own_bands": share.rows, "own_filters": share.columns, "own_pixels": self.pixels - share.row * self.band_pixels}

    def _result_rows(self) -> dict[str, int]:
        """What copies of results have in common."""
        output = self.output
        if output.contiguous:
            return {"rows": 1}
        pitches = (output.pixel_pitch, output.stage_pitch) if output.pixel_rows else (output.planes.pitch, output.block_pitch)
        return dict(zip(("y_pitch", "from_pitch"), pitches))

    def launches(self, operands: Operands | None = None) -> list[Launch]:
        """One ``Launch``; ``operands.table``: the bases."""
        operands, names = operands or Operands(), self._names()
        places = {"x": operands.a + self.start, "next_x": operands.a + self.start, "bases": operands.table, "next_bases": operands.table,
                  "w": operands.b + self.table_bytes, "first_y": operands.c}
        values = self._arguments(self.shares[0]) | places | {
            "table": operands.b, "chunk_pitch": self.weight_pitch, "w_rows": self.cfg.threads,
            "w_blocks": self.chunks[0] * self.cfg.dot // BANK_BYTES, "half": 0, "fresh": 1, "parity": 0} | self._result_rows()
        if self.row_step > 1:           # a row each
            row = self.planes.row_bytes
            values |= {"x_pitch": self.row_step * row, "x_blocks": row // BANK_BYTES, "x_count": self.rows, "slab_pitch": row}
        else:
            values |= {"x_pitch": operands.pitch or self.planes.pitch, "x_blocks": self._piece_bytes(self.rows) // BANK_BYTES,
                       "x_count": self.plane_count, "slab_pitch": self._piece_pitch(self.rows)}
        values |= {f"slot_{number}": place for number, place in enumerate(self.slots)}
        values |= {f"slot_{number}_pitch": self.chunk_pitch for number in range(CHUNK_SLOTS)}
        uniform = {names.index(name): value & 0xFFFF_FFFF for name, value in values.items() if name in names}
        return [Launch(self.programs[0], uniform, self.problem.macs)]

    def write(self) -> list[KernelText]:
        """See ``Kernel``."""
        text = self.text
        if self.cfg.cores > 1:
            begin_share(text, self.cfg.cores, [self._arguments(share) for share in self.shares], _ADDRESSES, "finished")
        self._prologue()
        if self.halves:
            if self.early:
                if self.cfg.cores > 1:
                    text("    usetp.le up2, {filters}, 1", "    @up2 bra no_others")
                self._copy_ahead()
                text("no_others:")
            text("    umov {load}, 1")
        text("filter:")
        if self.together:
            text("    usetp.eq up4, {x}, {x}", "    umov {load}, 1")
        elif not self.halves and not self.streamed:
            self._load_weights(False)
        text(f"    umov {{bands}}, {self._own('bands')}", f"    umov {{left}}, {self._own('pixels')}", "    umov {row_y}, {first_y}",
             "band:")
        self._begin_band()
        text("tile:")
        text.select(("up0", *["up4"] * self.halves), self._tile)
        if self.halves or self.together:
            self._load_next()
        if self.has_rest:
            text(f"    @up6 barrier.wait b{_REST}", "    usetp.ne up6, {x}, {x}")
        text("    usetp.gt up2, {tile_left}, 0", "    @up2 bra tile")
        if self.waits:
            self._copy_band_behind()
        else:
            text("    uxor {parity}, {parity}, 1", "    usetp.ne up1, {parity}, 0")
        text("    usub {bands}, {bands}, 1", "    usetp.gt up2, {bands}, 0", "    @up2 bra band", "    usub {filters}, {filters}, 1",
             f"    usub {{filters_left}}, {{filters_left}}, {self.cfg.threads}", "    usetp.le up2, {filters}, 0", "    @up2 bra last")
        self._next_filters()
        text("    bra filter", "last:")
        text.select(("up0",), lambda parity: self._store(not parity))
        self._send(0)
        text("finished:", "    halt")
        if self.together:
            for number in range(0, len(self.chunks), self.together):
                self._load_together(number)
        return [text]

    def _place_of(self, parity: bool) -> int:
        """Shared address of a place of bands."""
        return self.slab + parity * self.slab_bytes

    def _copy_band(self, parity: bool, rows: int) -> None:
        """Copies of the next band of x, as far as its first ``rows`` of the result need it, and of its bases to a place."""
        place, blocks = self._place_of(parity), self.base_count // 4
        nbytes = self.plane_count * self._piece_bytes(rows) + BANK_BYTES * blocks
        self.text(f"    umov {{slab_to}}, {place}", f"    umov {{bases_to}}, {place + self._pieces_bytes(self.rows)}",
                  f"    barrier.expect b{_SLABS[parity]}, {nbytes}",
                  f"    copy_rows.shared.global{self.swizzle} {{slab_to}}, {{next_x}}, {{x_blocks}}, b{_SLABS[parity]}",
                  f"    copy_block.shared.global {{bases_to}}, {{next_bases}}, {blocks}, b{_SLABS[parity]}")

    @property
    def has_rest(self) -> bool:
        """Whether the first band comes in two parts: what its first tile needs, and the rest."""
        return self.head < self.rows

    @property
    def _split(self) -> tuple[str, int, int]:
        """Register of the length of a copy of x; its value for the first rows of the first band; that for all of it."""
        if self.row_step > 1:           # a row each
            return "x_count", self.head, self.rows
        return "x_blocks", self._piece_bytes(self.head) // BANK_BYTES, self._piece_bytes(self.rows) // BANK_BYTES

    def _copy_first_band(self) -> None:
        """Copies of what the first tile needs of the first band, which is all of it without ``has_rest``."""
        if self.has_rest:
            length, first, _ = self._split
            self.text(f"    umov {{{length}}}, {first}")
        self._copy_band(False, self.head)

    def _copy_rest(self) -> None:
        """Copy of the rest of the first band, behind those that the first tile waits for."""
        (length, first, whole), nbytes = self._split, self._piece_bytes(self.head)
        self.text(f"    umov {{{length}}}, {whole - first}", f"    uadd {{slab_to}}, {{slab_to}}, {nbytes}",
                  f"    uadd {{next_x}}, {{next_x}}, {nbytes * self.row_step}",
                  f"    barrier.expect b{_REST}, {self.rest_bytes(self.rows, self.tile)}",
                  f"    copy_rows.shared.global{self.swizzle} {{slab_to}}, {{next_x}}, {{x_blocks}}, b{_REST}",
                  f"    usub {{next_x}}, {{next_x}}, {nbytes * self.row_step}", f"    umov {{{length}}}, {whole}",
                  "    usetp.eq up6, {x}, {x}")

    def _prologue(self) -> None:
        text, cfg = self.text, self.cfg
        # Registers behind those of two tiles: two for ``term``, pairs of bias and multiplier, then words of four bytes.
        first = 2 * cfg.threads
        self.tid, self.place, self.weight_place, self.base_place, self.term, _, self.channel_place, self.zero = range(first, first + 8)
        self.channel, self.packed = first + 8, first + 16
        text(f"    umov {{bases_to}}, {self.table}", f"    barrier.expect b{_TABLE}, {self.table_bytes}",
             f"    copy_block.shared.global {{bases_to}}, {{table}}, {self.table_bytes // BANK_BYTES}, b{_TABLE}")
        if not self.streamed:
            self._copy_first_chunks()
        self._copy_first_band()
        text(*(f"    usetp.ne {predicate}, {{x}}, {{x}}" for predicate in ("up0", "up1", "up3", "up4", "up5")),
             f"    segment.shared.b8.d1 ur{LOCAL}, 0", f"    mov r{self.tid}, %tid", f"    shl r{self.base_place}, r{self.tid}, 2")
        write_scaled(text, self.weight_place, self.tid, 1, self.chunk_pitch, self.term)
        text(f"    mov r{self.zero}, 0", f"    shl r{self.channel_place}, r{self.tid}, 3",
             *[f"    add r{self.channel_place}, r{self.channel_place}, {{this_left}}"] * (self.cfg.cores > 1 and self.output.has_channels),
             f"    mov r{self.offsets[0]}, 0",
             f"    barrier.wait b{_TABLE}", f"    ld.b32 r{self.place}, ur{LOCAL}:r{self.base_place}:{self.table + self.places}")
        text(*self.entries.lines(0, self.entries.resident, f"ur{LOCAL}:rf{self.offsets[0]}", self.table + ROW_BYTES))
        if self.entries.window:
            text(*(f"    mov r{number}, 0" for number in self.zeros))
        if self.halves:
            self._load_weights(False)
        if self.has_rest:
            self._copy_rest()

    # -- tiles ------------------------------------------------------------------------------

    def _next_filters(self) -> None:
        """Weights of the next filters, and where their results go."""
        text, threads, planes = self.text, self.cfg.threads, self.output.planes
        if self.halves:
            text("    uxor {half}, {half}, 1", "    usetp.ne up4, {half}, 0", "    umov {load}, 1",
                 "    usetp.le up2, {filters}, 1", "    @up2 bra last_filters")
            self._copy_ahead()
            text("last_filters:")
        elif self.streamed:
            text(f"    uadd {{w}}, {{w}}, {threads * self.weight_pitch}")
        elif not self.together:
            self._copy_ahead()
        if self.output.has_channels:
            text("    umov {fresh}, 1")
        if self.group_step:
            text(f"    uadd {{group_offset}}, {{group_offset}}, {self.group_step}")
        item = self.output.dtype.itemsize
        if not self.output.pixel_rows:
            text(f"    uadd {{first_y}}, {{first_y}}, {threads // planes.vector * planes.pitch}")
            return
        text(f"    uadd {{first_y}}, {{first_y}}, {item * threads}")
        if not self.problem.layout.channels_last:       # one or several tiles of filters in a block of channels
            text("    uadd {in_block}, {in_block}, 1", f"    usetp.eq up2, {{in_block}}, {planes.vector // threads}",
                 f"    @up2 uadd {{first_y}}, {{first_y}}, {planes.pitch - item * planes.vector}", "    @up2 umov {in_block}, 0")

    def _begin_band(self) -> None:
        """Wait for the band; its place becomes the segment of ``mm``."""
        text, pieces = self.text, self._pieces_bytes(self.rows)

        def begin(parity: bool) -> None:
            place = self._place_of(parity)
            if self.bands == 1:         # it stays where it is
                text(f"    usetp.lt up2, {{filters}}, {self._own('filters')}", "    @up2 bra there", f"    barrier.wait b{_SLABS[parity]}",
                     "there:")
            else:
                text(f"    barrier.wait b{_SLABS[parity]}")
            for part in range(self.parts):
                source = str(place + part * self.part_step)
                if self.group_step:
                    text(f"    uadd {{group_place}}, {{group_offset}}, {source}")
                    source = "{group_place}"
                text(f"    segment.shared.b8.d1{self.swizzle} ur{ENTRIES[part]}, {source}")
            text(f"    umov {{tile_bases}}, {place + pieces}")

        if self.bands == 1 or self.waits:
            begin(False)
        else:
            text.select(("up1",), begin)
            text("    umov {first_tile}, 1")
        text(f"    umov {{tile_left}}, {self.band_pixels}", f"    usetp.lt up2, {{left}}, {self.band_pixels}",
             "    @up2 umov {tile_left}, {left}", f"    usub {{left}}, {{left}}, {self.band_pixels}", "    umov {tile_y}, {row_y}",
             f"    uadd {{row_y}}, {{row_y}}, {self.band_pixels * self.output.pixel_pitch}")
        text.select(("up0",), self._load_bases)

    def _load_bases(self, parity: bool, first: bool = True) -> None:
        """Bases of the pixels of the next tile, the ``first`` one of a band or not, and its columns."""
        self.text(f"    segment.shared.b8.d1 ur{_BASES}, {{tile_bases}}",
                  f"    ld.b32 r{self.offsets[parity]}, ur{_BASES}:r{self.base_place}:0",
                  f"    uadd {{tile_bases}}, {{tile_bases}}, {4 * self.tile}")
        if not first and not self.band_pixels % self.tile and not self.pixels % self.tile:      # as many as of the tile before
            return
        columns = "tile_left"
        if self.tile < self.cfg.threads:
            columns = "columns"
            self.text("    umov {columns}, {tile_left}", f"    usetp.gt up2, {{tile_left}}, {self.tile}",
                      f"    @up2 umov {{columns}}, {self.tile}")
        self.text(f"    setp.lt p1, r{self.tid}, {{{columns}}}")

    def _tile(self, parity: bool, half: bool = False) -> None:
        """``mm`` of a tile, issued while that of the one before is under way; meanwhile the bases of the next one are loaded, and the last
        one is stored."""
        text = self.text
        self._multiply(parity, half)
        last, stored = text.label("last_of_band"), text.label("stored")
        text("    umov {this_left}, {tile_left}", f"    usub {{tile_left}}, {{tile_left}}, {self.tile}",
             "    usetp.le up2, {tile_left}, 0", f"    @up2 bra {last}")
        self._load_bases(not parity, first=False)
        text(f"{last}:", f"    @!up3 bra {stored}")
        self._store(not parity)
        text(f"{stored}:")
        if self.bands > 1 and not self.waits:       # filters begin with a band
            later = text.label("later_tile")
            text("    usetp.eq up2, {first_tile}, 0", f"    @up2 bra {later}", "    umov {first_tile}, 0")
            self._begin_channels()
            self._copy_next_band(later)
            text(f"{later}:")
        else:
            self._begin_channels()
        text("    umov {prev_y}, {tile_y}", "    umov {prev_left}, {this_left}", "    umov {prev_filters}, {filters_left}",
             f"    uadd {{tile_y}}, {{tile_y}}, {self.tile * self.output.pixel_pitch}",
             "    usetp.eq up3, {x}, {x}", f"    usetp.{'ne' if parity else 'eq'} up0, {{x}}, {{x}}")

    def _begin_channels(self) -> None:
        """Biases and multipliers of new filters, behind the last tile of those before."""
        if not self.output.has_channels:
            return
        text, threads, same = self.text, self.cfg.threads, self.text.label("same_filters")
        text("    usetp.eq up2, {fresh}, 0", f"    @up2 bra {same}", "    umov {fresh}, 0",
             *(f"    ld.v2 r{self.channel + 2 * part}, ur{LOCAL}:r{self.channel_place}:"
               f"{self.table + self.channels + 8 * threads * part}" for part in range(self.parts)),
             *self.output.set_channels(self.channel, self.zero),
             f"    add r{self.channel_place}, r{self.channel_place}, {8 * threads * self.parts}", f"{same}:")

    def _copy_next_band(self, done: str) -> None:
        """Behind the first tile of a band, when the tile before is stored: ``mm`` has left the band before, whose place is free. Goes to
        ``done`` where there is no next band."""
        self._advance_band(done)
        self.text.select(("up1",), lambda parity: self._copy_band(not parity, self.rows))

    def _copy_band_behind(self) -> None:
        """Behind the last tile of a band, in the only place: when ``mm`` has left it."""
        self._advance_band("waited")
        self.text("    wait.matrix")
        self._copy_band(False, self.rows)
        self.text("waited:")

    def _advance_band(self, done: str) -> None:
        """The next band, the first one behind the last; goes to ``done`` where there is none."""
        text, shape = self.text, self.problem.geometry
        text("    usetp.le up2, {copies}, 0", f"    @up2 bra {done}", "    usub {copies}, {copies}, 1",
             "    usub {next_band}, {next_band}, 1",
             f"    uadd {{next_x}}, {{next_x}}, {self.rows * shape.stride[0] * self.planes.row_bytes}",
             f"    uadd {{next_bases}}, {{next_bases}}, {4 * self.base_count}",
             "    usetp.le up2, {next_band}, 0", "    @up2 umov {next_x}, {x}", "    @up2 umov {next_bases}, {bases}",
             f"    @up2 umov {{next_band}}, {self._own('bands')}")

    def _store(self, parity: bool) -> None:
        """A tile from its registers to its staging area. When its first lines wait in the thread unit, the stores of the tile before are
        over: that one is sent, and what ``_send`` needs becomes that of this one."""
        text, threads, stage, output = self.text, self.cfg.threads, self.stages[parity], self.output
        block = BANK_BYTES // output.dtype.itemsize         # elements
        shift = block.bit_length() - 1
        unsent = text.label("unsent")
        lines = list(output.stores(self.tile, parity * threads, f"ur{LOCAL}:r{self.place}", stage, self.channel, self.packed))
        first = min(_FIRST_STORES, len(lines) // 2)
        text("    wait_group.read 0", *lines[:first], f"    @!up5 bra {unsent}")
        self._send(first)
        text(f"{unsent}:", f"    umov {{from}}, {stage}", "    umov {y}, {prev_y}")
        text(f"    umin {{{'blocks' if output.contiguous else 'rows'}}}, {{prev_left}}, {self.tile}")
        if output.contiguous:
            if output.pixel_pitch > BANK_BYTES:
                text(f"    ushl {{blocks}}, {{blocks}}, {(output.pixel_pitch // BANK_BYTES).bit_length() - 1}")
        elif output.pixel_rows:
            text(f"    umov {{blocks}}, {threads // block}", f"    usetp.lt up2, {{prev_filters}}, {threads}",
                 f"    @up2 uadd {{blocks}}, {{prev_filters}}, {block - 1}", f"    @up2 ushr {{blocks}}, {{blocks}}, {shift}")
        else:
            vector = output.planes.vector
            places = vector.bit_length() - 1
            if vector >= block:
                text(f"    ushl {{blocks}}, {{rows}}, {places - shift}")
            else:
                text(f"    uadd {{blocks}}, {{rows}}, {block // vector - 1}", f"    ushr {{blocks}}, {{blocks}}, {shift - places}")
            text(f"    umov {{rows}}, {threads // vector}", f"    usetp.lt up2, {{prev_filters}}, {threads}",
                 f"    @up2 uadd {{rows}}, {{prev_filters}}, {vector - 1}", f"    @up2 ushr {{rows}}, {{rows}}, {places}")
        text("    usetp.eq up5, {x}, {x}", *lines[first:])

    def _send(self, later: int) -> None:
        """The tile that was stored last, from its staging area to the result; ``later`` thread instructions came behind its stores."""
        self.text(f"    wait_thread {later}", "    copy_rows.global.shared {y}, {from}, {blocks}", "    commit_group")
