"""Convolution as an implicit matrix product [S1.16]: the tensor copy unit makes the matrix while it loads.

Rows of the product are pixels of the result, columns its channels; the sum runs over channels of the input and positions of the filter. A
tile is ``threads`` rows by ``threads`` columns in product registers. One step of it is one position of the filter and a piece of the
channels: a copy in im2col mode brings the input pixels that the tile's pixels meet at that position, a copy in tile mode the weights;
thread t loads its row of the former into factor registers, and ``mm`` multiplies them with the latter. Padding, the last
pixels, channels and outputs need no code: what lies outside a tensor is filled with zeros on its way in and left out on its way out.

Three slots of shared memory hold the operands of a step each. While ``mm`` works on step i, the threads load the rows of step i + 1 into
the other half of the factor registers, and the copies of step i + 2 are under way. That load waits for ``mm`` of step i - 1, whose slot
is free behind it. A finished tile goes to one of two staging areas, swizzled so that the threads meet different banks, and from there
to the result, while ``mm`` works on the next one.
"""

from heddle.constants import BANK_BYTES, FIRST_FACTOR_REGISTER, TOKEN_GRANULES

from ..isa import assemble
from .launch import Launch
from .merges import write_scaled
from .shares import begin_share, share_out
from .text import KernelText
from .tiling import MAX_SLICES, round_up

__all__ = ["ConvolutionKernel"]

_SLOTS = 3
_COPIED, _STAGED = (0, 1, 2), (3, 4)        # barriers of the slots, of the staging areas
_A_SEGMENT, _B_SEGMENT, _STAGE_SEGMENTS = 0, 1, (2, 3)
_MAX_BOX = 256                              # elements of a box along an axis
_SWIZZLES = {16: "none", 32: "32B", 64: "64B", 128: "128B"}
_ROW_BYTES = 128                            # of a box with a swizzle, at most


class ConvolutionKernel:
    """Writes the program for a ``ConvolutionShape``.

    Uniform predicates: up0 tile parity, up1 half of the factor registers, up2 scratch, up3 a tile waits to be stored, up4 nothing is
    left but that, up5 first step of a tile, up6 last piece of the channels. Thread predicate p1: columns of the tile.
    """

    def __init__(self, cfg, shape, a_signed, b_signed):
        if not cfg.tensors:
            raise ValueError(f"configuration {cfg.name} must have tensors for a convolution (tensors is false)")
        self.cfg, self.shape = cfg, shape
        self.signs = f".{'s' if a_signed else 'u'}a.{'s' if b_signed else 'u'}b"
        threads = cfg.threads
        self.result_row = min(4 * threads, _ROW_BYTES)      # bytes of a row of a staged part of a tile
        self.parts = 4 * threads // self.result_row
        self.stage_bytes = round_up(threads * self.result_row, 1024) * self.parts
        in_factors = cfg.factor_words // TOKEN_GRANULES * (TOKEN_GRANULES // 2 - 1) * cfg.dot
        in_shared = (cfg.shared_bytes - 2 * self.stage_bytes - 2048) // (2 * _SLOTS * threads)
        blocks, used = shape.row_blocks(min(_MAX_BOX, in_factors, in_shared) // BANK_BYTES)
        self.row_bytes, self.used_bytes = blocks * BANK_BYTES, used * BANK_BYTES
        self.pieces = -(-shape.channels // self.used_bytes)
        self.half_bytes = round_up(threads * self.row_bytes, 128)       # of one operand in a slot
        stage = round_up(_SLOTS * 2 * self.half_bytes, 1024)        # where the swizzle begins anew
        self.stages = (stage, stage + self.stage_bytes)
        self.maps = shape.maps(threads, self.row_bytes, threads, self.result_row // 4, _SWIZZLES[self.result_row])
        self.shares = share_out(cfg.cores, shape.pixels, shape.outputs, threads)
        self.column_blocks = max(-(-share.columns // threads) for share in self.shares)
        self.ragged = shape.outputs % threads != 0
        self.steps = self.pieces * shape.positions
        self.tid, self.offset_a, self.scratch = (2 * threads + index for index in range(3))
        self.result_places = self.scratch + 4               # of the blocks of a row of a staged part
        self.offset_b = cfg.registers - 1
        self.text = KernelText(self._names())

    def _names(self):
        spatial = self.shape.spatial
        return ["x", "w", "y", *(f"x{d}" for d in range(spatial + 2)), *(f"o{d}" for d in range(spatial)),
                *(f"w{d}" for d in range(spatial + 2)), "y0", "y1", "prev0", "prev1", "a_to", "b_to", "b_at", "slot", "left", "tiles",
                "steps", "tile", "half", "first_column", "end_column", "columns", "from", "core"]

    # -- copies -----------------------------------------------------------------------------

    def copy_operands(self):
        """Bring the operands of the next step into the free slot, if there is one."""
        text, rank, none = self.text, self.shape.spatial + 2, self.text.label("copied")
        text("    usetp.le up2, {left}, 0", f"    @up2 bra {none}", "    usub {left}, {left}, 1",
             f"    uadd {{b_to}}, {{a_to}}, {self.half_bytes}")
        for slot, barrier in enumerate(_COPIED):
            text(f"    usetp.eq up2, {{a_to}}, {2 * self.half_bytes * slot}",
                 f"    @up2 barrier.expect b{barrier}, {2 * self.cfg.threads * self.row_bytes}",
                 f"    @up2 copy_tensor.im2col.{rank}d.shared.global {{a_to}}, {{x}}, {{x0}}, {{o0}}, b{barrier}",
                 f"    @up2 copy_tensor.tile.{rank}d.shared.global {{b_to}}, {{w}}, {{w0}}, b{barrier}")
        self._next_slot("{a_to}")
        self._next_position(none)
        text(f"{none}:")

    def _next_slot(self, register):
        size = 2 * self.half_bytes
        self.text(f"    uadd {register}, {register}, {size}", f"    usetp.ge up2, {register}, {_SLOTS * size}",
                  f"    @up2 umov {register}, 0")

    def _next_position(self, done):
        """The copies move on: over the filter, then the pieces of the channels, the columns, and the pixels."""
        text, shape = self.text, self.shape
        for d, (count, dilation) in enumerate(zip(reversed(shape.filter), reversed(shape.dilation))):
            if count > 1:
                text(f"    uadd {{o{d}}}, {{o{d}}}, {dilation}", f"    uadd {{w{1 + d}}}, {{w{1 + d}}}, 1",
                     f"    usetp.lt up2, {{w{1 + d}}}, {count}", f"    @up2 bra {done}",
                     f"    umov {{o{d}}}, 0", f"    umov {{w{1 + d}}}, 0")
        if self.pieces > 1:
            text(f"    uadd {{x0}}, {{x0}}, {self.used_bytes}", "    umov {w0}, {x0}", f"    usetp.lt up2, {{x0}}, {shape.channels}",
                 f"    @up2 bra {done}", "    umov {x0}, 0", "    umov {w0}, 0")
        if self.column_blocks > 1:
            outputs = f"{{w{shape.spatial + 1}}}"
            text(f"    uadd {outputs}, {outputs}, {self.cfg.threads}", f"    usetp.lt up2, {outputs}, {{end_column}}",
                 f"    @up2 bra {done}", f"    umov {outputs}, {{first_column}}")
        self._next_pixels()

    def _next_pixels(self):
        """``threads`` pixels of the result further: a number whose digits count columns, rows, planes and images."""
        text, shape, rest = self.text, self.shape, self.cfg.threads
        axes = zip(reversed(shape.result), reversed(shape.stride), reversed(shape.lower_corner))
        for d, (count, stride, lower) in enumerate(axes, 1):
            rest, digit = divmod(rest, count)
            if digit:
                text(f"    uadd {{x{d}}}, {{x{d}}}, {digit * stride}")
            text(f"    usetp.ge up2, {{x{d}}}, {lower + count * stride}", f"    @up2 usub {{x{d}}}, {{x{d}}}, {count * stride}",
                 f"    @up2 uadd {{x{d + 1}}}, {{x{d + 1}}}, {shape.stride[-1 - d] if d < shape.spatial else 1}")
        if rest:
            text(f"    uadd {{x{shape.spatial + 1}}}, {{x{shape.spatial + 1}}}, {rest}")

    # -- registers --------------------------------------------------------------------------

    def load_rows(self, half):
        """Thread t loads its row of the slot that is next."""
        register = FIRST_FACTOR_REGISTER + half * self.cfg.factor_registers // 2
        self.text(*(f"    ld.v4 r{register + 4 * block}, ur{_A_SEGMENT}:r{self.offset_a}:{BANK_BYTES * block}"
                    for block in range(self.used_bytes // BANK_BYTES)))

    def load_next(self):
        """Wait for the operands of the next step and load its rows into the half that up1 names."""
        text = self.text
        for slot, barrier in enumerate(_COPIED):
            text(f"    usetp.eq up2, {{slot}}, {2 * self.half_bytes * slot}", f"    @up2 barrier.wait b{barrier}")
        text(f"    segment.shared.b8.d1 ur{_A_SEGMENT}, {{slot}}", f"    uadd {{b_at}}, {{slot}}, {self.half_bytes}")
        self._next_slot("{slot}")
        text.select(("up1",), self.load_rows)

    def multiply(self, tile, half, first, last=True):
        """mm over the channels of a piece; ``last`` may have fewer."""
        channels = self.shape.channels - (self.pieces - 1) * self.used_bytes if last else self.used_bytes
        slices, dot = -(-channels // self.cfg.dot), self.cfg.dot
        for index in range(0, slices, MAX_SLICES):
            zero = ".z" if first and index == 0 else ""
            register = FIRST_FACTOR_REGISTER + half * self.cfg.factor_registers // 2 + index * dot // 4
            self.text(f"    {'@p1 ' if self.ragged else ''}mm8{self.signs}.k{min(MAX_SLICES, slices - index)}{zero} "
                      f"r{tile * self.cfg.threads}, ur{_B_SEGMENT}:rf{self.offset_b}:{index * dot}, r{register}")

    def store(self, tile):
        """A finished tile: registers to its staging area, from there to the result."""
        text, blocks = self.text, self.result_row // BANK_BYTES
        text(f"    barrier.wait b{_STAGED[tile]}")
        used = min(self.cfg.threads, round_up(self.shape.outputs, 4)) // 4
        for quad in range(used):
            part, block = divmod(quad, blocks)
            text(f"    st.v4 ur{_STAGE_SEGMENTS[tile]}:r{self.result_places + block}:{part * self.cfg.threads * self.result_row}, "
                 f"r{tile * self.cfg.threads + 4 * quad}")
        text("    wait.thread", f"    umov {{from}}, {self.stages[tile]}")
        for part in range(-(-used // blocks)):
            if part:
                text(f"    uadd {{from}}, {{from}}, {self.cfg.threads * self.result_row}",
                     f"    uadd {{prev0}}, {{prev0}}, {self.result_row // 4}")
            text(f"    barrier.expect b{_STAGED[tile]}, {self.maps[2].bytes}",
                 f"    copy_tensor.tile.2d.global.shared {{from}}, {{y}}, {{prev0}}, b{_STAGED[tile]}")

    # -- program ----------------------------------------------------------------------------

    def arguments(self, share):
        """Names and values of the uniform registers with which a core begins its share."""
        shape, threads = self.shape, self.cfg.threads
        tiles = -(-share.rows // threads) * -(-share.columns // threads)
        values = {"x0": 0, "w0": 0, "a_to": 0, "slot": 0, "left": tiles * self.steps, "tiles": tiles, "steps": self.steps,
                  "tile": 0, "half": 0, "y0": share.column, "y1": share.row,
                  "first_column": share.column, "end_column": share.column + share.columns,
                  f"w{shape.spatial + 1}": share.column}
        pixel = share.row
        for d, (count, stride, lower) in enumerate(zip(reversed(shape.result), reversed(shape.stride), reversed(shape.lower_corner))):
            pixel, place = divmod(pixel, count)
            values |= {f"x{1 + d}": (lower + place * stride) & 0xFFFF_FFFF, f"o{d}": 0, f"w{1 + d}": 0}
        return values | {f"x{shape.spatial + 1}": pixel}

    def launch(self, x, w, y):
        """``Launch`` with the addresses of the descriptors of x, w and y in global memory."""
        values = self.arguments(self.shares[0]) | {"x": x, "w": w, "y": y}
        names = self._names()
        return Launch(self.program(), {names.index(name): value for name, value in values.items()}, self.shape.macs)

    def prologue(self):
        text = self.text
        if self.cfg.cores > 1:
            begin_share(text, self.cfg.cores, [self.arguments(share) for share in self.shares], (), "finish")
        self.copy_operands()
        self.copy_operands()
        text(f"    mov r{self.tid}, %tid")
        write_scaled(text, self.offset_a, self.tid, 1, self.row_bytes, self.scratch)
        text(f"    mov r{self.offset_b}, r{self.offset_a}")
        self._write_result_places()
        text(*(f"    segment.shared.b8.d1 ur{segment}, {stage}" for segment, stage in zip(_STAGE_SEGMENTS, self.stages)))
        self._choose_columns()
        text("    usetp.eq up5, {tile}, {tile}")
        self._choose_piece()
        self.load_next()

    def _write_result_places(self):
        """Where the blocks of the row of thread t lie in a staged part: block j at j XOR (row of shared memory), as the swizzle has it."""
        text, row = self.text, self.scratch + 3
        log_row, mask = self.result_row.bit_length() - 1, {16: 0, 32: 1, 64: 3, 128: 7}[self.result_row]
        text(f"    shl r{row}, r{self.tid}, {log_row}", f"    shr r{self.scratch}, r{row}, 7",
             f"    and r{self.scratch}, r{self.scratch}, {mask}", f"    shl r{self.scratch}, r{self.scratch}, 4",
             f"    add r{row}, r{row}, r{self.scratch}")
        text(*(f"    xor r{self.result_places + block}, r{row}, {BANK_BYTES * block}" for block in range(self.result_row // BANK_BYTES)))

    def _choose_columns(self):
        if self.ragged:
            self.text("    usub {columns}, {end_column}, {y0}", f"    setp.lt p1, r{self.tid}, {{columns}}")

    def _choose_piece(self):
        if self.pieces > 1:
            self.text(f"    usetp.le up6, {{steps}}, {self.shape.positions}")

    def step(self):
        """One position of the filter and one piece of the channels; behind the first step of a tile the tile before is stored."""
        text = self.text
        text("step:", f"    segment.shared.b8.d1 ur{_B_SEGMENT}, {{b_at}}")
        text.select(("up0", "up1", "up5") + (("up6",) if self.pieces > 1 else ()), self.multiply)
        text("    @!up3 bra stored", "store:")
        text.select(("up0",), lambda tile: self.store(not tile))
        text("    usetp.ne up3, {tile}, {tile}", "    @up4 bra finish", "stored:")

    def advance(self):
        text, threads = self.text, self.cfg.threads
        text("    usetp.ne up5, {tile}, {tile}", "    usub {steps}, {steps}, 1", "    usetp.gt up2, {steps}, 0", "    @up2 bra load_next",
             f"    umov {{steps}}, {self.steps}", "    umov {prev0}, {y0}", "    umov {prev1}, {y1}", "    usetp.eq up3, {tile}, {tile}",
             "    usetp.eq up5, {tile}, {tile}", "    uxor {tile}, {tile}, 1", "    usetp.ne up0, {tile}, 0",
             "    usub {tiles}, {tiles}, 1", "    usetp.le up4, {tiles}, 0", "    @up4 bra store")
        if self.column_blocks > 1:
            text(f"    uadd {{y0}}, {{y0}}, {threads}", "    usetp.lt up2, {y0}, {end_column}", "    @up2 bra same_pixels")
        text("    umov {y0}, {first_column}", f"    uadd {{y1}}, {{y1}}, {threads}", "same_pixels:")
        self._choose_columns()
        text("load_next:", "    uxor {half}, {half}, 1", "    usetp.ne up1, {half}, 0")
        self._choose_piece()
        self.load_next()
        self.copy_operands()
        text("    bra step", "finish:", "    halt")

    def program(self):
        self.prologue()
        self.step()
        self.advance()
        return assemble(str(self.text), self.cfg)
