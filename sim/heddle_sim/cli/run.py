"""Run something on the device: a matrix product or a convolution of random integers, a program, or a network from a file.

heddle run matmul --m 64 --n 64 --k 64
heddle run conv --size 28,28 --channels 64 --outputs 64 --filter 3,3 --pads 1
heddle run program FILE --uniform 0=0x1000 --uniform 1=16
heddle run FILE.tflite --compare                                (short for: heddle run model FILE.tflite)
heddle run FILE.tflite --trace out.json --report out.html       where its cycles went (any of the four)
heddle run FILE.tflite --wave out.fst --wave-layer 3            waves of all signals while node 3 runs
"""

import argparse

from heddle.constants import UNIFORM_REGISTERS
from heddle.errors import UsageError

from ..device.convolution_choice import NAMES
from .bench_conv import layer_row
from .bench_gemm import gemm_row, print_gemm
from .common import (
    add_config,
    add_device,
    add_json,
    configuration,
    open_device,
    positive,
    print_rows,
    progress_for,
    seed,
)
from .files import read_program
from .layer_options import add_layer, layer_of
from .run_model import add_model, run_model
from .tracing import add_tracing, check_tracing, traced

__all__ = ["add_arguments", "execute"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(dest="what", required=True, metavar="what")
    matmul = what.add_parser("matmul", help="one matrix product, compared with numpy")
    for name, meaning in (("m", "rows of A"), ("n", "columns of B"), ("k", "columns of A")):
        matmul.add_argument(f"--{name}", type=positive, required=True, help=meaning)
    matmul.add_argument(
        "--dtype", default="int8", choices=("int8", "uint8", "int16", "uint16"), help="type of both operands (default int8)"
    )
    matmul.add_argument("--seed", type=seed, default=0, help="of the operands and of the memory (default 0)")
    matmul.add_argument("--no-check", action="store_true", help="do not compare with numpy")
    _add_conv(what.add_parser("conv", help="one convolution, compared with numpy"))
    program = what.add_parser("program", help="a program, its text or what heddle asm wrote")
    program.add_argument("file")
    program.add_argument(
        "--uniform", action="append", default=[], metavar="NUMBER=VALUE", help="set a uniform register; repeatable"
    )
    add_model(what.add_parser("model", help="a network from a file"))
    for parser in (matmul, what.choices["conv"], program, what.choices["model"]):
        add_config(parser)
        add_device(parser)
        add_tracing(parser)
        add_json(parser)


def execute(options: argparse.Namespace) -> None:
    check_tracing(options)
    if options.what == "model":
        run_model(options)
        return
    cfg = configuration(options)
    if options.what == "program":       # read before a device is built
        program, uniform = read_program(options.file, cfg), _uniform(options.uniform)
    with progress_for(options) as progress, open_device(options, cfg, progress) as device, traced(options, _name(options), lambda: device):
        progress.close()
        if options.what == "program":
            row = {"program": options.file} | device.run(program, uniform).as_row()
            print_rows(options, "program", cfg.name, [row], {"program": None, "cycles": None})
        elif options.what == "conv":
            row = layer_row(device, *layer_of(options), options.method, options.seed, not options.no_check, options.requantise)
            print_rows(options, "conv", cfg.name, [row], dict.fromkeys(
                ("layout", "size", "channels", "outputs", "filter", "group", "method", "result", "cycles", "macs", "utilization",
                 "checked")))
        else:
            row = gemm_row(device, options.m, options.n, options.k, options.dtype, options.seed, not options.no_check)
            print_gemm(options, "matmul", cfg, [row])


def _name(options: argparse.Namespace) -> str:
    """Of what runs, for a trace or report."""
    return f"matmul {options.m} x {options.k} x {options.n}" if options.what == "matmul" else getattr(options, "file", options.what)


def _add_conv(conv: argparse.ArgumentParser) -> None:
    add_layer(conv)
    conv.add_argument("--method", choices=NAMES, default="auto", help="how x is found (default auto)")
    conv.add_argument("--requantise", action="store_true", help="with biases and a multiplier of each filter to int8, on the device")
    conv.add_argument("--seed", type=seed, default=0, help="of the operands and of the memory (default 0)")
    conv.add_argument("--no-check", action="store_true", help="do not compare with numpy")


def _uniform(texts: list[str]) -> dict[int, int]:
    values = {}
    for text in texts:
        left, _, right = text.partition("=")
        try:
            number, value = int(left.removeprefix("ur")), int(right, 0)
        except ValueError:
            raise UsageError(f"--uniform must be NUMBER=VALUE, not {text!r}") from None
        if not 0 <= number < UNIFORM_REGISTERS:
            raise UsageError(f"--uniform must have a NUMBER from 0 to {UNIFORM_REGISTERS - 1}, not {text!r}")
        if not -(1 << 31) <= value < 1 << 32:
            raise UsageError(f"--uniform must have a VALUE from {-(1 << 31)} to {(1 << 32) - 1}, not {text!r}")
        values[number] = value
    return values
