"""Draw which core does which block of rows of a sparse product when, by the model of the scheduler.

Blocks are those of the kernel that a device runs. Where several cores take them from the tile scheduler they have about the same number of
cycles. Else they are rows whose operands have room in shared memory. Cycles are those that the kernel expects of each block.
A matrix has --rows and --columns, --sparsity and --kind: uniform, or power-law (uneven rows).
"""

from __future__ import annotations

import argparse
from typing import cast

from heddle.errors import UsageError

from ..draw.hand_out_svg import hand_out_svg
from ..draw.hand_out_text import hand_out_lines
from ..kernels.panel_kernel import PanelKernel
from ..kernels.planner import plan
from ..kernels.sampled_product import SampledProductProblem
from ..kernels.sparse_product import SparseProductProblem
from ..sparse.generated import power_law_matrix, uniform_matrix
from ..sparse.hand_out import hand_out
from ..sparse.orders import ORDERS
from ..sparse.sub_warps import like_rows
from .common import add_config, configuration, positive, print_json, require, seed
from .files import write_text

__all__ = ["add_arguments", "execute"]

_KINDS = {"uniform": uniform_matrix, "power-law": power_law_matrix}
_WIDTH = 100        # characters
_MOST = 1 << 14     # rows, columns


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=positive, default=512, help="default 512")
    parser.add_argument("--columns", type=positive, default=512, help="default 512")
    parser.add_argument("--sparsity", type=float, default=0.9, help="share of zeros (default 0.9)")
    parser.add_argument("--kind", choices=_KINDS, default="power-law", help="of the matrix (default power-law)")
    parser.add_argument("--sddmm", action="store_true", help="a sampled product, the matrix is its mask")
    parser.add_argument("--n", type=positive, default=128, help="columns of the dense operand, with --sddmm inner size (default 128)")
    parser.add_argument("--order", choices=ORDERS, default="sorted", help="in which blocks are handed out (default sorted)")
    parser.add_argument("--static", action="store_true", help="cores take turns; else a core takes the next block when it is done")
    parser.add_argument("--seed", type=seed, default=0, help="of the matrix (default 0)")
    parser.add_argument("--svg", metavar="FILE", help="write the drawing as SVG")
    add_config(parser, "quad")


def execute(options: argparse.Namespace) -> None:
    cfg = configuration(options)
    require(cfg, "sparse", "show sparse")
    if not 0 <= options.sparsity < 1:
        raise UsageError(f"--sparsity must be from 0 to below 1, not {options.sparsity}")
    for name in ("rows", "columns"):
        if getattr(options, name) > _MOST:
            raise UsageError(f"--{name} must be at most {_MOST}, not {getattr(options, name)}")
    matrix = _KINDS[options.kind](options.rows, options.columns, options.sparsity, options.seed)
    ordered = None if options.sddmm else like_rows(cfg, matrix, options.n, options.order)
    matrix = matrix if ordered is None else matrix.take_rows(ordered)
    dynamic = not options.static
    problem = (SampledProductProblem(matrix, options.n, order=options.order, dynamic=dynamic) if options.sddmm
               else SparseProductProblem(matrix, options.n, order=options.order, dynamic=dynamic))
    kernel = cast(PanelKernel, plan(cfg, problem))
    blocks, costs = kernel.expected(kernel.panels[0])
    dealt = hand_out(costs, options.order, cfg.cores, dynamic)
    title = (f"{'sddmm' if options.sddmm else 'spmm'} {options.rows} x {options.columns}, {options.kind} {100 * options.sparsity:g} %, "
             f"{cfg.name}: {options.order}, {'static' if options.static else 'dynamic'}; slowest / mean core "
             f"{dealt.slowest_to_mean:.3f}")
    if options.svg:
        write_text(options.svg, hand_out_svg(dealt, blocks, title))
    if options.json:
        rows = [{"core": core, "block": run.tile, "first_row": blocks[run.tile].first, "rows": blocks[run.tile].rows, "start": run.start,
                 "end": run.end} for core, runs in enumerate(dealt.cores) for run in runs]
        print_json("show sparse", cfg.name, rows)
        return
    print("\n".join([title, *hand_out_lines(dealt, _WIDTH), f"cycles  0 to {dealt.cycles:,} (first panel of {len(kernel.panels)})"]))
