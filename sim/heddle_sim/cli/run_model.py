"""A network from a file on a device: where its nodes run and why, then what they took, compared where asked for."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from heddle.errors import UsageError

from ..models.comparison import Comparison, Difference, compared
from ..models.graph import Tensor
from ..models.load import read_source
from ..models.model import Model, ModelResult
from ..models.placement import PlacedNode
from ..models.samples import stacked
from .common import configuration, open_device, print_rows, progress_for, seed
from .files import file_path
from .tracing import add_wave_layer, check_wave_layer, traced

__all__ = ["add_model", "run_model"]

_RANDOM_SAMPLES = 8     # of each input
_MOST_SHOWN = 40        # characters of the name of a node in a table


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="a .tflite or .onnx file")
    parser.add_argument("--input", action="append", default=[], metavar="random|dataset|[NAME=]FILE.npy",
                        help="elements of an input; repeatable (default: random for all). dataset: one of the samples in a file beside the "
                        "network with its name, .npy, or .npz with arrays by input; --seed says which")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=LENGTH[,LENGTH…]",
                        help="shape of an input, or length of a symbolic dimension of an ONNX file, which files of --input give too; "
                        "repeatable")
    parser.add_argument("--calibrate", action="append", default=[], metavar="random|[NAME=]FILE.npy",
                        help="samples of an input of a float ONNX file, which is quantised for their ranges; repeatable. random: random "
                        "samples of all, for cycles but not for results")
    parser.add_argument("--activation-bits", type=int, choices=(8, 16), default=8,
                        help="of --calibrate: 16 for int16 activations of convolutions and products, whose rest stays float (default 8)")
    parser.add_argument("--seed", type=seed, default=0, help="of random inputs and of the memory (default 0)")
    parser.add_argument("--compare", action="store_true", help="with the reference interpreter, each node with equal operands")
    add_wave_layer(parser)


def run_model(options: argparse.Namespace) -> None:
    cfg = configuration(options)
    read = cache(_array)            # files of inputs, whose shapes are wanted before their elements
    shapes = _shapes_of_inputs(options, read) | _shapes(options.shape)
    source = read_source(file_path(options.file), shapes, calibrate=_samples(options, shapes), activation_bits=options.activation_bits)
    with progress_for(options) as progress:
        begin = time.perf_counter()
        with Model(source, cfg, lambda: open_device(options, cfg, progress), options.memory_mib << 20) as model:
            layer = check_wave_layer(options, model.placement)
            placing = time.perf_counter() - begin
            inputs = _inputs(options.input, model.inputs(), options.seed, file_path(options.file), read)
            if not options.json:
                _print_placement(options, cfg.name, model)
            if any(placed.operation for placed in model.placement):
                model.device        # noqa: B018 - built here, not within the time of a node
            progress.close()
            begin = time.perf_counter()
            with traced(options, Path(options.file).name, lambda: model.device, wave_layer=layer, loose=False):
                comparison = compared(model, inputs) if options.compare else None
                result = model.run(inputs) if comparison is None else comparison.result
            seconds = time.perf_counter() - begin
    rows = _rows(result, comparison)
    summary = _summary(options, model, result, comparison) | {"seconds": seconds, "placing_seconds": placing}
    if options.json:
        print_rows(options, "model", cfg.name, [*rows, summary], {})
        return
    columns = ["op", "node", "where", "cycles", "utilization"] + ["max_difference", "equal_share"] * options.compare
    print_rows(options, "model", cfg.name, [row | {"node": _short(row["node"])} for row in [*rows, summary]], dict.fromkeys(columns))
    if comparison is not None:
        _print_outputs(model, comparison)


def _print_placement(options: argparse.Namespace, config: str, model: Model) -> None:
    rows = [_placed(placed) for placed in model.placement]
    print_rows(options, "model", config, [row | {"node": _short(row["node"])} for row in rows],
               dict.fromkeys(("op", "node", "where", "why")))
    print(flush=True)


def _print_outputs(model: Model, comparison: Comparison) -> None:
    for name, found in comparison.outputs.items():
        print(f"output {name}: {100 * found.equal_share:.2f} % equal, greatest difference {found.most:g}")
    print(f"class of {model.graph.outputs[0]}: {'the same' if comparison.same_class else 'another'} "
          f"(by {model.source.reference_name})")


def _short(name: str) -> str:
    return name if len(name) <= _MOST_SHOWN else name[:_MOST_SHOWN - 1] + "…"


def _placed(placed: PlacedNode) -> dict[str, Any]:
    return {"op": placed.node.op, "node": placed.node.name, "where": placed.where, "why": placed.why}


def _compared(found: Difference | None) -> dict[str, Any]:
    return {"max_difference": found and found.most, "equal_share": found and found.equal_share}


def _rows(result: ModelResult, comparison: Comparison | None) -> list[dict[str, Any]]:
    """A row for each node."""
    found = [None] * len(result.nodes) if comparison is None else comparison.nodes
    rows = []
    for node, one in zip(result.nodes, found):
        figures = {} if node.stats is None else node.stats.as_row()
        rows.append(_placed(node.placed) | {"cycles": None, "utilization": None, "macs": 0} | figures | _compared(one) |
                    {"seconds": node.seconds})
    return rows


def _summary(options: argparse.Namespace, model: Model, result: ModelResult, comparison: Comparison | None) -> dict[str, Any]:
    """The row of the whole network."""
    on_device = sum(placed.where == "device" for placed in model.placement)
    where = f"{on_device} of {len(model.placement)} on the device"
    found = [one for one in comparison.nodes if one is not None] if comparison else []
    most = max((one.most for one in found), default=None)
    share = min((one.equal_share for one in found), default=None)
    row = {"op": "network", "node": Path(options.file).name, "where": where, "why": None} | result.stats.as_row()
    row |= {"max_difference": most, "equal_share": share, "host_seconds": result.host_seconds, "simulator": options.simulator,
            "seed": options.seed}
    if comparison is not None:
        row |= {"reference": model.source.reference_name, "same_class": comparison.same_class,
                "outputs": {name: found._asdict() for name, found in comparison.outputs.items()}}
    return row


def _inputs(texts: list[str], wanted: dict[str, Tensor], number: int, network: Path,
            read: Callable[[str], np.ndarray]) -> dict[str, np.ndarray]:
    """Inputs by name, from files, which ``read`` reads, or at random; ``network``: its file."""
    given: dict[str, np.ndarray] = {}
    for text in texts:
        if text == "random":
            continue
        if text == "dataset":
            given |= _sample(network, wanted, number)
            continue
        name, _, file = text.rpartition("=")
        if not name and len(wanted) != 1:
            raise UsageError(f"--input must be NAME=FILE.npy for a network with {len(wanted)} inputs ({', '.join(wanted)}), not {text!r}")
        name = name or next(iter(wanted))
        if name not in wanted:
            raise UsageError(f"--input must name one of the inputs {', '.join(wanted)}, not {name!r}")
        given[name] = read(file)
    rng = np.random.default_rng(number)
    return {name: given[name] if name in given else _random(rng, tensor) for name, tensor in wanted.items()}


def _sample(network: Path, wanted: dict[str, Tensor], number: int) -> dict[str, np.ndarray]:
    """One of the samples that lie beside a network, by input."""
    path = next((path for suffix in (".npz", ".npy") if (path := network.with_suffix(suffix)).is_file()), None)
    if path is None:
        raise UsageError(f"--input dataset must find {network.stem}.npy or {network.stem}.npz beside {network}")
    if path.suffix == ".npy":
        if len(wanted) != 1:
            raise UsageError(f"--input dataset must have a .npz file for a network with {len(wanted)} inputs ({', '.join(wanted)})")
        arrays = {next(iter(wanted)): _array(str(path))}
    else:
        with np.load(path, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
    for name in arrays:
        if name not in wanted:
            raise UsageError(f"{path} must have arrays of the inputs {', '.join(wanted)}, not of {name!r}")
    stacks = {name: stacked(f"{name} in {path}", array, wanted[name].shape) for name, array in arrays.items()}
    return {name: stack[number % len(stack)] for name, stack in stacks.items()}


def _shapes(texts: list[str]) -> dict[str, int | tuple[int, ...]]:
    """Lengths of dimensions and shapes of inputs by name."""
    shapes: dict[str, int | tuple[int, ...]] = {}
    for text in texts:
        name, _, numbers = text.rpartition("=")
        try:
            lengths = tuple(int(number) for number in numbers.split(","))
        except ValueError:
            lengths = ()
        if not name or not lengths:
            raise UsageError(f"--shape must be NAME=LENGTH[,LENGTH…], not {text!r}")
        shapes[name] = lengths[0] if len(lengths) == 1 else lengths
    return shapes


def _shapes_of_inputs(options: argparse.Namespace, read: Callable[[str], np.ndarray]) -> dict[str, int | tuple[int, ...]]:
    """Shapes of the inputs that files give, by name; they bind open dimensions of an ONNX file."""
    if file_path(options.file).suffix.lower() != ".onnx":
        return {}
    files = (text.rpartition("=") for text in options.input if text not in ("random", "dataset"))
    return {name: read(file).shape for name, _, file in files}


def _samples(options: argparse.Namespace, shapes: dict[str, int | tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Samples by input; a file without a name is that of the only one."""
    texts = options.calibrate
    if "random" in texts:
        if len(texts) > 1:
            raise UsageError(f"--calibrate must be random for all inputs, or a file for each, not {', '.join(texts)}")
        graph, rng = read_source(file_path(options.file), shapes).graph, np.random.default_rng(options.seed)
        return {name: np.stack([_random(rng, graph.tensors[name]) for _ in range(_RANDOM_SAMPLES)]) for name in graph.inputs}
    return {text.rpartition("=")[0]: _array(text.rpartition("=")[2]) for text in texts}


def _array(file: str) -> np.ndarray:
    try:
        found = np.load(file_path(file), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise UsageError(f"{file} must hold an array in numpy's format: {error}") from None
    if not isinstance(found, np.ndarray):
        raise UsageError(f"{file} must hold one array (.npy), not several")
    return found


def _random(rng: np.random.Generator, tensor: Tensor) -> np.ndarray:
    """Elements over the whole range of a type of 8 or 16 bits, 0 to 1 of a wider integer, of a normal distribution."""
    kind = tensor.dtype
    if kind.kind in "iu" and kind.itemsize <= 2:
        limits = np.iinfo(kind)
        return rng.integers(limits.min, limits.max, tensor.shape, kind, endpoint=True)
    if kind.kind == "f":
        return rng.standard_normal(tensor.shape).astype(kind)
    return rng.integers(0, 2, tensor.shape).astype(kind)
