"""``heddle bench rnn``: its options, and which rows they ask for."""

import argparse

from heddle.config import Config
from heddle.errors import UsageError

from ..device import Device
from .bench_rnn import CELLS, layer_row, print_rnn
from .bench_rnn_deepbench import deepbench_rows, holds_layers, print_deepbench
from .bench_rnn_skipping import ZEROS, print_skipping, skipping_row, suite_rows
from .bench_rnnoise import FRAMES, load_weights, print_rnnoise, rnnoise_row
from .common import MOST_ELEMENTS, elements, open_device, positive, progress_for, steps, variant_name

__all__ = ["add_rnn", "numbers", "run_rnn", "sizes"]

# What each suite takes beside --seed, --config and the options of the device, with defaults.
_LAYERS = {"cell": "lstm", "hidden": (16, 32, 64), "threads": (1, 2, 4), "inputs": None, "cat": None, "steps": None, "skip_zeros": False,
           "threshold": None}
_OPTIONS = {None: _LAYERS, "deepbench": {}, "skipping": {}, "rnnoise": {"threads": (1, 2, 4), "weights": None, "frames": FRAMES}}


def numbers(text: str) -> list[int]:
    """Type of an option: positive integers with commas between them."""
    return [positive(part) for part in text.split(",")]


def sizes(text: str) -> list[int]:
    """Type of an option: elements of vectors with commas between them."""
    return [elements(part) for part in text.split(",")]


def _threshold(text: str) -> float:
    """Type of an option: a number from 0 on."""
    value = float(text)
    if not 0 <= value < float("inf"):
        raise UsageError(text)
    return value


_threshold.__name__ = "number from 0 on"
numbers.__name__, sizes.__name__ = "positive integers", f"numbers of elements from 1 to {MOST_ELEMENTS}"


def add_rnn(what: argparse._SubParsersAction) -> argparse.ArgumentParser:
    """The parser of the verb; the caller adds what all benches have."""
    rnn = what.add_parser("rnn", help="recurrent layers; a configuration without the engine gets it, as small+rnn")
    rnn.add_argument("--suite", choices=[name for name in _OPTIONS if name], help="deepbench: its layers by the cycle model beside "
                     "published figures, and on the hardware where --config holds them; rnnoise: with --threads streams; skipping: two "
                     "layers of 16 units on 8 multipliers, elements left out that hardly changed, on the engine's RTL")
    rnn.add_argument("--weights", metavar="FILE", help="rnnoise: .npz file of the published weights (docs/recurrent.md)")
    rnn.add_argument("--frames", type=steps, help=f"rnnoise: of each stream (default {FRAMES})")
    rnn.add_argument("--cell", choices=CELLS, help="kind of layer (default lstm)")
    rnn.add_argument("--hidden", type=sizes, help="sizes of the layer, as 16,32,64 (the default)")
    rnn.add_argument("--threads", type=numbers, help="sequences that take turns, as 1,2,4 (the default)")
    rnn.add_argument("--inputs", type=elements, help="elements of the input (default: as many as the layer has)")
    rnn.add_argument("--cat", type=int, choices=(1, 2, 4), help="dot products of a lane (default: chosen by the cycle model; the largest "
                     "that fits where elements are left out)")
    rnn.add_argument("--steps", type=steps, help="of each sequence (default: what fits shared memory, at most 48)")
    rnn.add_argument("--skip-zeros", action="store_true", default=None,
                     help=f"leave out columns of zeros; {round(100 * ZEROS)} of 100 inputs are then zero")
    rnn.add_argument("--threshold", type=_threshold, metavar="X", help="leave out elements that changed by less than X, of inputs that "
                     "change slowly (the configuration gets rnn_differences)")
    return rnn


def run_rnn(options: argparse.Namespace, cfg: Config) -> None:
    """Print the rows that the options ask for."""
    _check(options)
    if options.suite == "skipping":
        if options.config is not None:
            raise UsageError("--config must not be given with --suite skipping, whose engine has 8 multipliers")
        print_skipping(options, *suite_rows(options.seed))
    elif options.suite == "deepbench":
        _deepbench(options, cfg)
    else:
        contexts = 1 << (max(options.threads) - 1).bit_length()
        if contexts > 8:
            raise UsageError(f"--threads must be at most 8, not {max(options.threads)}")
        with_engine = cfg.replace(rnn=True, rnn_contexts=max(cfg.rnn_contexts, contexts),
                                  rnn_differences=cfg.rnn_differences or getattr(options, "threshold", None) is not None)
        (_rnnoise if options.suite else _layers)(options, with_engine, variant_name(with_engine, cfg))


def _check(options: argparse.Namespace) -> None:
    """Options that the suite does not take are refused, others get their defaults."""
    known = _OPTIONS[options.suite]
    for suite_options in _OPTIONS.values():
        for name in suite_options:
            if name not in known and getattr(options, name) is not None:
                where = f"with --suite {options.suite}" if options.suite else "without --suite rnnoise"
                raise UsageError(f"--{name.replace('_', '-')} must not be given {where}")
    for name, default in known.items():
        if getattr(options, name) is None:
            setattr(options, name, default)


def _golden(options: argparse.Namespace, cfg: Config) -> Device | None:
    return None if options.no_check else Device(cfg, "golden", memory_bytes=options.memory_mib << 20)


def _deepbench(options: argparse.Namespace, cfg: Config) -> None:
    if not (cfg.rnn and holds_layers(cfg)):
        print_deepbench(options, "model", deepbench_rows())
        return
    with progress_for(options) as progress, open_device(options, cfg, progress) as device:
        print_deepbench(options, cfg.name, deepbench_rows(device, _golden(options, cfg), options.seed))


def _layers(options: argparse.Namespace, cfg: Config, name: str) -> None:
    skipping = options.skip_zeros or options.threshold is not None
    if skipping and options.steps is not None:
        raise UsageError("--steps must not be given with --skip-zeros or --threshold")
    with progress_for(options) as progress, open_device(options, cfg, progress) as device:
        golden = Device(cfg, "golden", memory_bytes=options.memory_mib << 20) if skipping else _golden(options, cfg)
        progress.stage("recurrent layers", len(options.hidden) * len(options.threads))
        rows = []
        for hidden in options.hidden:
            for threads in options.threads:
                shape = device, golden, options.cell, hidden, options.inputs or hidden, threads, options.seed
                rows.append(skipping_row(*shape, cat=options.cat, threshold=options.threshold, skip_zeros=options.skip_zeros) if skipping
                            else layer_row(*shape, cat=options.cat, steps=options.steps))
                progress.step()
    (print_skipping if skipping else print_rnn)(options, name, rows)


def _rnnoise(options: argparse.Namespace, cfg: Config, name: str) -> None:
    arrays = load_weights(options.weights)
    with progress_for(options) as progress, open_device(options, cfg, progress) as device:
        golden = _golden(options, cfg)
        progress.stage("RNNoise", len(options.threads))
        rows = []
        for threads in options.threads:
            rows.append(rnnoise_row(device, golden, arrays, threads, options.seed, options.frames))
            progress.step()
    print_rnnoise(options, name, rows)
