"""Measure: matrix products, copies, gathers, generation time, simulation speed.

heddle bench gemm                  a list of shapes, or one with --m --n --k; --resident: operands and result in shared memory
heddle bench merge                 what merges gain for products of few rows
heddle bench copy                  boxes of tensors: rows, ranks, modes, swizzles, strides; --quick: some of them
heddle bench conv                  convolutions of one image: cycles, bytes moved, on-chip memory; --plot: as a drawing
heddle bench pool                  pooling, and sums of two tensors, with the bound of each
heddle bench spmm                  sparse times dense: --suite, --n, --side, --resident, --no-sub-warps; --plot: cycles over the share of
                                   zeros beside the dense product, as a drawing
heddle bench sddmm                 dense times dense at the elements of a sparse matrix: --suite, --k, --plain, --pattern
heddle bench balance               slowest by mean core for rows dealt in each order, by the model of the scheduler: --suite, --cores
heddle bench loads                 vector loads of sparse rows with and without alignment and sharing, by the model: --suite, --vector
heddle bench rnn-plan              parallelism of elements and rows for vector sizes, by the cycle model and by formula
heddle bench rnn                   recurrent layers: --hidden, --threads, --skip-zeros, --threshold; --suite deepbench: beside published
                                   figures; --suite skipping: a small network on 8 multipliers, elements that hardly changed left out;
                                   --suite rnnoise --weights FILE: frames of RNNoise, alone and in several streams
heddle bench models                networks of others from files, and networks that stay loaded: --suite loaded|tiny|silero
heddle bench gather                a tile read by all threads from a plain and a swizzled layout; windows and pixels by compiled offsets
heddle bench transpose             B in rows and in columns of the same products
heddle bench elaborate             seconds to generate the Verilog of the device
heddle bench simspeed              cycles per second of the device, and of cocotb with the ports only, on the same program
heddle bench check                 every figure of README and the pages again, compared with what is stored; --synth: areas and clocks too
"""

import argparse
import contextlib
import importlib
import sys
from collections import defaultdict

from heddle.config import Config
from heddle.errors import UsageError
from heddle.units import unit_config

from ..device.convolution_choice import NAMES
from ..draw.cost_svg import cost_svg
from ..draw.plan_svg import plan_svg
from ..sparse.orders import MOST_CORES, ORDERS
from .bench_balance import BALANCE_SUITES, balance_rows, balance_suite, print_balance
from .bench_check import add_check, run_check
from .bench_conv import conv_row, print_conv, total_row
from .bench_copy import block_rows, copy_rows, print_copy
from .bench_elaborate import elaborate_row
from .bench_gather import element_rows, gather_rows, print_gather
from .bench_gemm import SUITES, add_choice, gemm_row, merge_rows, print_gemm
from .bench_loads import load_rows, print_loads
from .bench_models import add_models, run_models
from .bench_pool import POOLS, pool_row, print_pool
from .bench_rnn_plan import LATENCY, plan_rows, print_plans
from .bench_rnn_verb import add_rnn, numbers, run_rnn, sizes
from .bench_sddmm import print_sddmm, sddmm_rows
from .bench_spmm import BREAK_EVEN, SIDES, SPMM_SUITES, dense_row, plot_rows, print_spmm, spmm_rows, spmm_suite
from .bench_transpose import TRANSPOSE_SHAPES, print_transpose, transpose_row
from .common import (
    CommandFailed,
    add_config,
    add_device,
    add_json,
    configuration,
    open_device,
    positive,
    print_rows,
    progress_for,
    require,
    seed,
    variant_name,
)
from .convolution_suites import CONVOLUTIONS
from .convolution_suites import SUITES as CONV_SUITES
from .files import write_text

__all__ = ["add_arguments", "execute"]

DTYPES = ("int8", "uint8", "int16", "uint16")
# Looked up by name when asked for: it needs the test benches, which build on this package.
SIMSPEED_MODULE = "heddle_verif.simspeed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(dest="what", required=True, metavar="what")
    gemm = what.add_parser("gemm", help="matrix products")
    for name in ("m", "n", "k"):
        gemm.add_argument(f"--{name}", type=positive, help="one shape instead of the list (needs --m, --n and --k)")
    gemm.add_argument("--suite", choices=SUITES, default="list",
                      help="shapes (default list; edges: ragged, short or few; resident: those of the peer comparison)")
    add_choice(gemm)
    gemm.add_argument("--dtype", default="int8", choices=DTYPES, help="type of both operands (default int8)")
    merge = what.add_parser("merge", help="gain of merges")
    gather = what.add_parser("gather", help="bank conflicts of plain and swizzled layouts, and of gathers by compiled offsets")
    copy = what.add_parser("copy", help="copies of boxes of tensors: part of the bus, latency")
    conv = what.add_parser("conv", help="convolutions")
    pool = what.add_parser("pool", help="pooling and sums of two tensors")
    sparse = what.add_parser("spmm", help="products of a sparse and a dense matrix")
    sampled = what.add_parser("sddmm", help="dense products at the elements of a sparse matrix")
    balance = what.add_parser("balance", help="how evenly rows of sparse matrices are dealt to cores, by the model of the scheduler")
    loads = what.add_parser("loads", help="vector loads of rows of sparse matrices, aligned and shared, by the model")
    rnn = add_rnn(what)
    add_models(what)
    plans = what.add_parser("rnn-plan", help="elements and rows a cycle for vector sizes, by the cycle model and by formula")
    plans.add_argument("--multipliers", type=numbers, default=[16384, 65536], help="powers of two, as 16384,65536 (the default)")
    plans.add_argument("--hidden", type=sizes, default=[64, 128, 256, 512, 1024, 1536, 2048], help="vector sizes, as 256,512")
    plans.add_argument("--latency", type=positive, default=LATENCY,
                       help=f"of the formula, from the last product to the next vector (default {LATENCY})")
    plans.add_argument("--load-bytes", type=positive, default=16, help="of the cycle model, bytes of input a cycle (default 16, as the "
                       "hardware)")
    plans.add_argument("--svg", metavar="FILE", help="write utilisation over EP by the formula as a drawing")
    add_json(plans)
    for parser, points in ((copy, "points of the sweep"), (conv, "of them"), (pool, "of them"), (sparse, "of them"), (sampled, "of them")):
        parser.add_argument("--quick", action="store_true", help=f"a few {points}")
    for parser, kind, more, says in ((sparse, "matrices", (BREAK_EVEN,), f"; {BREAK_EVEN}: few zeros to many, and the dense product"),
                                     (sampled, "masks", (), "")):
        parser.add_argument("--suite", choices=(*SPMM_SUITES, *more), default="list", help=f"{kind} (default list; dl: the deep-learning "
                            f"matrix collection, where HEDDLE_DLMC or ../shared/dlmc has it{says})")
        parser.add_argument("--order", choices=("auto", *ORDERS), default="auto", help="in which rows are dealt to the cores (default "
                            "auto)")
    sparse.add_argument("--static", action="store_true", help="rows are dealt to the cores in turn before the start; else they take them")
    sparse.add_argument("--collect", action="store_true", help="one core writes the result of all")
    sparse.add_argument("--n", type=positive, default=128, help="columns of the dense operand (default 128)")
    sparse.add_argument("--side", choices=SIDES, default="left", help="the operand that is sparse (default left); both: the other one is "
                        "of the same sparsity")
    sparse.add_argument("--resident", action="store_true", help="B in factor registers at the start, sums stay in shared memory")
    sparse.set_defaults(suite=None)         # list, or with --plot break-even
    sparse.add_argument("--plot", metavar="FILE", help="write cycles of the suite break-even, which it takes, as a drawing (SVG)")
    sparse.add_argument("--no-sub-warps", action="store_true", help="all PEs have the same row, however few the columns")
    sampled.add_argument("--k", type=positive, default=512, help="columns of the left operand (default 512)")
    sampled.add_argument("--plain", action="store_true", help="b is (k, n), not (n, k)")
    sampled.add_argument("--pattern", action="store_true", help="without the values of the mask")
    for parser in (balance, loads):
        parser.add_argument("--suite", choices=BALANCE_SUITES, default="generated", help="matrices (default generated)")
    loads.add_argument("--vector", type=positive, default=16, help="elements of a load, a power of two (default 16)")
    loads.add_argument("--sub-warps", type=positive, default=4, help="rows that share a load at most (default 4)")
    add_json(loads)
    balance.add_argument("--cores", type=positive, default=4, help="default 4, as quad has")
    conv.add_argument("--suite", choices=CONV_SUITES, default="list", help="layers (default list)")
    conv.add_argument("--method", choices=("both", *NAMES), help="how x is found (default both: im2col "
                      "and compiled, and depthwise for that suite; with --requantise auto)")
    conv.add_argument("--requantise", action="store_true", help="with biases and a multiplier of each filter to int8, on the device")
    conv.add_argument("--plot", metavar="FILE", help="write cycles and bytes of the layers as a drawing (SVG)")
    for parser in (gemm, merge, gather, copy, conv, pool, sparse, sampled, rnn):
        parser.add_argument("--seed", type=seed, default=0, help="of the operands and of the memory (default 0)")
        parser.add_argument("--no-check", action="store_true", help="do not compare with numpy")
        add_device(parser)
    transpose = what.add_parser("transpose", help="B in rows (kn) and in columns (nk) of the same products; what the fetch of B reads")
    for name in ("m", "n", "k"):
        transpose.add_argument(f"--{name}", type=positive, help="one shape instead of the list (needs --m, --n and --k)")
    transpose.add_argument("--dtype", default="int8", choices=DTYPES, help="type of both operands (default int8)")
    add_choice(transpose)
    transpose.add_argument("--seed", type=seed, default=0, help="of the operands and of the memory (default 0)")
    transpose.add_argument("--no-check", action="store_true", help="do not compare with numpy")
    add_device(transpose)
    add_check(what)
    elaborate = what.add_parser("elaborate", help="time of generation")
    elaborate.add_argument("--unit", default="heddle", help="a unit alone (see heddle show units)")
    simspeed = what.add_parser("simspeed", help="speed of simulation")
    simspeed.add_argument("--every-signal", action="store_true", help="also cocotb with every signal at hand, as it builds unless told "
                          "otherwise")
    simspeed.add_argument("--seed", type=seed, default=0, help="of the operands (default 0)")
    for parser in (gemm, merge, gather, copy, conv, pool, sparse, sampled, balance, rnn, transpose, elaborate, simspeed):
        add_config(parser, *[None, "base"] * (parser is rnn))
        add_json(parser)


def execute(options: argparse.Namespace) -> None:
    plain = {"rnn-plan": _rnn_plan, "check": run_check, "loads": _loads}        # without a configuration
    if options.what in plain:
        plain[options.what](options)
        return
    cfg = configuration(options)
    verbs = {"gemm": _gemm, "merge": _merge, "copy": _copy, "conv": _conv, "pool": _pool, "spmm": _spmm, "sddmm": _sddmm,
             "balance": _balance, "rnn": run_rnn, "models": run_models, "gather": _gather, "transpose": _transpose, "elaborate": _elaborate,
             "simspeed": _simspeed}
    verbs[options.what](options, cfg)


def _gemm(options: argparse.Namespace, cfg: Config) -> None:
    given = [options.m, options.n, options.k]
    if any(given) and not all(given):
        raise UsageError("--m, --n and --k must be given together")
    if any(given) and options.suite != "list":
        raise UsageError("--suite must not be given with --m, --n and --k")
    suite = SUITES[options.suite]
    shapes = [given] if all(given) else suite.shapes
    with progress_for(options) as progress, open_device(options, cfg, progress) as device:
        progress.stage("matrix products", len(shapes))
        rows = []
        for m, n, k in shapes:
            row = gemm_row(device, m, n, k, options.dtype, options.seed, not options.no_check, ka=options.ka, kb=options.kb,
                           order=options.order, resident=options.resident or suite.resident)
            rows.append(row if all(given) else {"suite": options.suite} | row)
            progress.step()
    print_gemm(options, "gemm", cfg, rows, ("bound", "bound_by"))


def _merge(options: argparse.Namespace, cfg: Config) -> None:
    with progress_for(options) as progress, open_device(options, cfg, progress) as device:
        rows = merge_rows(device, options.seed, not options.no_check)
    print_gemm(options, "merge", cfg, rows, ("speedup", "bound", "bound_by"))


def _spmm(options: argparse.Namespace, cfg: Config) -> None:
    require(cfg, "sparse", "bench spmm")
    if options.plot and options.suite not in (None, BREAK_EVEN):
        raise UsageError(f"--suite must be {BREAK_EVEN} with --plot, not {options.suite}")
    if options.plot and options.simulator != "verilator":
        raise UsageError(f"--simulator must be verilator with --plot, which shows cycles, not {options.simulator}")
    options.suite = options.suite or (BREAK_EVEN if options.plot else "list")
    matrices = spmm_suite(options.suite, options.quick)
    with progress_for(options) as progress, open_device(options, cfg, progress) as device:
        progress.stage("sparse products", len(matrices))
        rows = spmm_rows(device, matrices, options.n, options, progress)
        if options.suite == BREAK_EVEN:
            rows.append(dense_row(device, rows, options))
    if options.plot:
        write_text(options.plot, plot_rows(rows))
    print_spmm(options, cfg, rows)


def _sddmm(options: argparse.Namespace, cfg: Config) -> None:
    require(cfg, "sparse", "bench sddmm")
    matrices = spmm_suite(options.suite, options.quick)
    with progress_for(options) as progress, open_device(options, cfg, progress) as device:
        progress.stage("sampled products", len(matrices))
        rows = sddmm_rows(device, matrices, options, progress)
    print_sddmm(options, cfg, rows)


def _balance(options: argparse.Namespace, cfg: Config) -> None:
    require(cfg, "sparse", "bench balance")
    if options.cores > MOST_CORES:
        raise UsageError(f"--cores must be at most {MOST_CORES}, not {options.cores}")
    print_balance(options, cfg, balance_rows(cfg, balance_suite(options.suite), options.cores))


def _loads(options: argparse.Namespace) -> None:
    print_loads(options, load_rows(balance_suite(options.suite), options.vector, options.sub_warps))


def _copy(options: argparse.Namespace, cfg: Config) -> None:
    require(cfg, "tensors", "bench copy")
    with progress_for(options) as progress, open_device(options, cfg, progress) as device:
        rows = copy_rows(device, options.seed, not options.no_check, options.quick, progress)
        rows += block_rows(device, options.seed, not options.no_check)
    print_copy(options, cfg, rows)


def _conv(options: argparse.Namespace, cfg: Config) -> None:
    require(cfg, "tensors", "bench conv")
    shapes = CONVOLUTIONS[-1:] if options.quick else CONV_SUITES[options.suite]
    method = options.method or ("auto" if options.requantise else "both")
    methods = [method]
    if method == "both":
        methods = ["im2col", *["compiled"] * (cfg.compiled_offsets > 0),
                   *["depthwise"] * (cfg.sparse and options.suite == "depthwise")]
    with progress_for(options) as progress, open_device(options, cfg, progress) as device:
        progress.stage("convolutions", len(shapes) * len(methods))
        rows, of_method = [], defaultdict(list)
        for shape in shapes:
            for method in methods:
                rows.append({"suite": options.suite} | conv_row(device, shape, options.seed, not options.no_check, method,
                                                                options.requantise))
                of_method[method].append(rows[-1])
                progress.step()
    if all("why_not" in row for row in rows):
        raise UsageError(rows[0]["why_not"])
    if options.plot:
        write_text(options.plot, cost_svg([row for row in rows if "why_not" not in row]))
    if options.suite == "mobilenet":
        rows += [total_row(cfg, layers) | {"method": method} for method, layers in of_method.items()]
    print_conv(options, cfg, rows)


def _pool(options: argparse.Namespace, cfg: Config) -> None:
    require(cfg, "tensors", "bench pool")
    pools = (POOLS[5], POOLS[-1]) if options.quick else POOLS
    with progress_for(options) as progress, open_device(options, cfg, progress) as device:
        progress.stage("pooling", len(pools))
        rows = []
        for pool in pools:
            rows.append(pool_row(device, pool, options.seed, not options.no_check))
            progress.step()
    print_pool(options, cfg, rows)


def _rnn_plan(options: argparse.Namespace) -> None:
    for name, values in (("multipliers", options.multipliers), ("hidden", options.hidden)):
        if min(values) < 1 or name == "multipliers" and any(value & (value - 1) for value in values):
            raise UsageError(f"--{name} must be {'powers of two' if name == 'multipliers' else 'positive'}, not {values}")
    print_plans(options, plan_rows(options.multipliers, options.hidden, options.latency, options.load_bytes))
    if options.svg:
        write_text(options.svg, plan_svg(options.multipliers, options.hidden, options.latency))


def _gather(options: argparse.Namespace, cfg: Config) -> None:
    with progress_for(options) as progress, open_device(options, cfg, progress) as device:
        rows = gather_rows(device, options.seed, not options.no_check)
        rows += element_rows(device, options.seed, not options.no_check)
    print_gather(options, cfg, rows)


def _transpose(options: argparse.Namespace, cfg: Config) -> None:
    given = [options.m, options.n, options.k]
    if any(given) and not all(given):
        raise UsageError("--m, --n and --k must be given together")
    require(cfg, "transpose", "bench transpose")
    shapes = [given] if all(given) else TRANSPOSE_SHAPES
    with progress_for(options) as progress, open_device(options, cfg, progress) as device:
        progress.stage("matrix products", 2 * len(shapes))
        rows = []
        for m, n, k in shapes:
            for layout in ("nk", "kn"):
                rows.append(transpose_row(device, m, n, k, options.dtype, layout, options.seed, not options.no_check,
                                          ka=options.ka, kb=options.kb, order=options.order, resident=options.resident))
                progress.step()
    print_transpose(options, cfg, rows)


def _elaborate(options: argparse.Namespace, cfg: Config) -> None:
    row = elaborate_row(cfg, options.unit)
    print_rows(
        options,
        "elaborate",
        variant_name(unit_config(options.unit, cfg), cfg),
        [row],
        {"unit": None, "elaborate_seconds": None, "verilog_bytes": None, "modules": None},
    )


def _simspeed(options: argparse.Namespace, cfg: Config) -> None:
    try:
        module = importlib.import_module(SIMSPEED_MODULE)
    except ModuleNotFoundError as error:
        raise CommandFailed(f"simspeed needs the test packages ({error.name} is missing); run make setup") from None
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what the bench says is no result
            rows = module.measure(cfg, seed=options.seed, every_signal=options.every_signal)
    except AssertionError as error:
        raise CommandFailed(str(error)) from None
    print_rows(
        options,
        "simspeed",
        cfg.name,
        rows,
        {"simulator": None, "cycles": None, "seconds": None, "cycles_per_second": None, "speedup": None, "compared_with": None},
    )
