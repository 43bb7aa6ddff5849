"""Draw where every element of a box of a tensor lands in shared memory, before and after the swizzle.

A tensor copy moves a box (--box) of a tensor (--shape), which begins at --coords, to shared memory: row after row, without gaps. Shared
memory is drawn in rows of 128 bytes, with a cell for each of its 8 banks of 16 bytes; "3.1" is block 1 (16 bytes) of row 3 of the box. "~"
says that it lies outside the tensor and is filled, "-" that a part of it does. A bank gives one block a cycle, so threads that read blocks
of one bank wait for each other. --swizzle exchanges the blocks within the rows of shared memory so that they do not; --access marks the
blocks that threads read, and counts the cycles without and with it.

Tuples are in numpy's order, outermost first: --shape 64 128 is 64 rows of 128 elements. Messages name the dimension of the
descriptor, which counts from the innermost, and the axis of the shape.

examples:
  heddle show tensormap --shape 8 128 --box 8 128 --swizzle 128B --access column
      a column of 8 rows: eight threads meet in one bank; with the swizzle each has its own
  heddle show tensormap --shape 6 40 --dtype float16 --box 4 24 --coords -1 24
      a box that reaches beyond the tensor
  heddle show tensormap --mode im2col --shape 1 3 3 16 --lower-corner -1 -1 --upper-corner -1 -1 --pixels-per-column 9
        --channels-per-pixel 16 --offsets 0 1
      the column of pixels that a 3 x 3 filter multiplies by one of its weights

More: docs/tensor-copies.md (boxes, im2col), docs/swizzle.md (banks and swizzles), docs/tensor-errors.md (all rules).
"""

import argparse
import os
import re
import shutil
import sys
from typing import Any

import numpy as np
from heddle.config import Config
from heddle.errors import UsageError
from heddle.isa.tensor_descriptor import TensorFormat

from ..draw.box_svg import svg
from ..draw.box_text import access_lines, draw, heading
from ..tensor.box_image import ACCESSES, Access, TensorImage, access, tensor_image
from ..tensor.tensor_map import FORMAT_NAMES, TensorMap, TensorMapError
from .common import add_config, configuration, positive, print_json
from .files import write_text

__all__ = ["add_arguments", "execute"]

TERMINAL_LINES = 64
_TENSOR_FORMATS = {kind.name.lower(): kind for kind in (TensorFormat.F32_FTZ, TensorFormat.TF32, TensorFormat.TF32_FTZ)}
_MAP_OPTIONS = ("box", "strides", "element_strides", "swizzle", "interleave", "fill", "mode", "lower_corner", "upper_corner",
                "pixels_per_column", "channels_per_pixel")


def numbers(text: str) -> list[int]:
    """Type of an option: numbers with commas or x between them."""
    return [int(part) for part in re.split("[,x]", text)]


def address(text: str) -> int:
    """Type of an option: a number, also as 0x..."""
    return int(text, 0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    def tuple_option(name: str, text: str, **options: Any) -> None:
        parser.add_argument(name, type=numbers, nargs="+", metavar="N", help=text, **options)

    tuple_option("--shape", "elements of the tensor along each axis; in im2col mode N [D [H]] W C", required=True)
    parser.add_argument("--dtype", default="uint8", choices=[*FORMAT_NAMES, *_TENSOR_FORMATS], metavar="TYPE",
                        help=f"element type: {', '.join([*FORMAT_NAMES, *_TENSOR_FORMATS])} (default uint8)")
    parser.add_argument("--mode", default="tile", choices=["tile", "im2col"],
                        help="a box of the tensor, or a column of pixels for a convolution (default tile)")
    tuple_option("--box", "tile: elements of the box along each axis")
    tuple_option("--coords", "where the box begins in the tensor (default 0, in im2col mode the lower corner)")
    tuple_option("--element-strides", "traversal strides: every n-th element along each axis")
    tuple_option("--strides", "bytes from one to the next of all axes but the last (default dense)")
    parser.add_argument("--swizzle", default="none", choices=["none", "32B", "64B", "128B"],
                        help="the span within which blocks of 16 bytes change places; rows of the box must fit it (default none)")
    parser.add_argument("--interleave", default="none", choices=["none", "16B", "32B"],
                        help="channels lie in slices of 16 or 32 bytes; the last axis then counts slices (default none)")
    parser.add_argument("--fill", default="zero", choices=["zero", "nan"], help="what elements outside the tensor become (default zero)")
    tuple_option("--lower-corner", "im2col: of the pixel box, [D [H]] W")
    tuple_option("--upper-corner", "im2col: of the pixel box, from the tensor's last pixel on, [D [H]] W")
    tuple_option("--offsets", "im2col: offsets of the filter position, [D [H]] W")
    parser.add_argument("--pixels-per-column", type=positive, metavar="N", help="im2col: pixels that one copy moves")
    parser.add_argument("--channels-per-pixel", type=positive, metavar="N", help="im2col: channels of each of them")
    parser.add_argument("--address", type=address, default=0, help="of the tensor in global memory (default 0)")
    parser.add_argument("--smem-address", type=address, default=0, help="of the box in shared memory (default 0)")
    parser.add_argument("--access", choices=ACCESSES, help="count the cycles of threads that read a block of 16 bytes each: row (one row "
                        "after the other), column (block --block of row t), diagonal (block t of row t), gather (of rows --rows)")
    parser.add_argument("--block", type=int, default=0, help="which block of a row threads read (default 0)")
    tuple_option("--rows", "gather: the row that each thread reads")
    parser.add_argument("--threads", type=positive, help="that read (default those of the configuration)")
    parser.add_argument("--lines", type=positive, help=f"rows of shared memory to draw (default {TERMINAL_LINES}, in SVG and JSON all)")
    parser.add_argument("--svg", metavar="FILE", help="write the drawing as SVG")
    add_config(parser)
    # Options never look like numbers here, so that tuples may begin with a minus sign, also with commas.
    parser._negative_number_matcher = re.compile(r"-\d[\d,x-]*$")


def _tuple(value: list[list[int]] | None) -> tuple[int, ...] | None:
    return None if value is None else tuple(number for part in value for number in part)


def _image(options: argparse.Namespace, cfg: Config) -> tuple[TensorImage, tuple[int, ...]]:
    given = {name: getattr(options, name) for name in _MAP_OPTIONS}
    given = {name: _tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    shape = _tuple(options.shape)
    tensor = TensorMap.build(shape, _TENSOR_FORMATS.get(options.dtype, options.dtype), address=options.address, **given)
    coordinates = _tuple(options.coords)
    if coordinates is None:
        corner = given["lower_corner"] or (0,) * (len(shape) - 2)
        coordinates = (0, *corner, 0) if options.mode == "im2col" else (0,) * len(shape)
    image = tensor_image(tensor, coordinates, options.smem_address, _tuple(options.offsets), shared_bytes=cfg.shared_bytes)
    return image, coordinates


def execute(options: argparse.Namespace) -> None:
    cfg = configuration(options)
    slots, found = min(cfg.thread_slots, cfg.threads), None
    try:
        image, coordinates = _image(options, cfg)
        if options.access:
            found = access(image, options.access, threads=options.threads or cfg.threads, slots=slots, block=options.block,
                           rows=_tuple(options.rows))
    except TensorMapError as error:
        raise UsageError(str(error)) from None
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    if options.svg:
        write_text(options.svg, svg(image, coordinates, found, slots, options.lines))
    if options.json:
        print_json("show tensormap", cfg.name, _rows(image, found))
        return
    accessed = () if found is None else np.unique(found.blocks)
    terminal = sys.stdout.isatty()
    columns = shutil.get_terminal_size().columns if terminal else None
    colour = terminal and not os.environ.get("NO_COLOR")
    lines = heading(image, coordinates) + [""] + draw(image, accessed, colour, options.lines or TERMINAL_LINES, columns)
    if found:
        lines += ["", *access_lines(image, found, slots)]
    print("\n".join(lines))
    if options.svg:
        print(f"wrote {options.svg}")


def _rows(image: TensorImage, found: Access | None) -> list[dict[str, Any]]:
    rows = list(image.elements())
    if found:
        rows.append({"kind": "access", "pattern": found.pattern, "threads": len(found.blocks), "blocks": found.blocks.tolist(),
                     "cycles": found.cycles, "swizzled_cycles": found.swizzled_cycles, "banks": found.banks.tolist(),
                     "swizzled_banks": found.swizzled_banks.tolist()})
    return rows
