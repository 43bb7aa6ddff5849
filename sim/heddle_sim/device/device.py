"""A device with a numpy interface."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Self, cast

import numpy as np
from heddle.config import Config, load_config
from heddle.constants import UNIFORM_REGISTERS
from heddle.errors import UsageError, UsageTypeError
from heddle.isa.error_codes import ErrorCode
from numpy.typing import ArrayLike, DTypeLike

from ..arguments import check_choice, check_flag, check_integer, check_operand
from ..backends.backend import GoldenBackend, VerilatorBackend
from ..backends.verilator_build import WAVES
from ..backends.verilator_device import MemorySettings
from ..compiled.representation import Representation
from ..golden.requantise import Requantise
from ..isa import assemble
from ..isa.features import lacking, unsupported_message
from ..isa.program import Program
from ..kernels.layer import LayerProblem
from ..kernels.parts.folding import fold
from ..kernels.planner import plan
from ..kernels.problem import Elements, Layout, MatmulProblem, Operands, Schedule
from ..progress import Progress, default_progress
from .convolution import convolve
from .elementwise import add
from .errors import DeviceError
from .execution import execute
from .host import Pads
from .layer_chain import Layer, linear_chain
from .memory import GlobalMemory, Placement
from .networks import RecurrentAccess
from .observers import report_run
from .pooling import average, global_average, max_pool
from .products import bias_of, check_elements, check_requantise, columns_of
from .recording import active_recorder
from .results import LayerResult, MatrixResult
from .sparse_access import SparseAccess
from .stats import Stats
from .tensors import TensorAccess

__all__ = ["Device", "SIMULATORS"]

SIMULATORS = ("verilator", "golden")


class Device(TensorAccess, RecurrentAccess, SparseAccess):
    """One device with its global memory; a context manager.

    Parameters
    ----------
    config : Config or str
        Configuration, or the name or path of one.
    simulator : str
        ``"verilator"``: the generated hardware, cycle by cycle (built once per configuration, then kept).
        ``"golden"``: the functional simulator; same results, no cycles.
    memory_bytes : int
        Size of global memory, a multiple of 4096 within the reach of AXI addresses.
    latency, bandwidth, jitter, seed
        Behaviour of the simulated memory: see ``MemorySettings``. A ``MemorySettings`` as ``memory_settings`` replaces all four.
    timeout_cycles : int
        Cycles that a run may take before it ends with ``DeviceError`` ``TIMEOUT``.
    wait_timeout_cycles : int
        Cycles that one ``wait``, ``barrier.wait``, ``wait_group`` or ``commit_group`` may take before the run ends with ``WAIT_TIMEOUT``
        (operand: mask of the units, barrier, number of groups); 0: any number. Without effect in the functional simulator.
    progress : Progress
        Told about the stages of a build; by default bars on a terminal.
    waves : str, optional
        "fst" or "vcd": ``wave`` writes files of this format. The hardware is built once more for it, and is slower.

    Attributes
    ----------
    cfg : Config
    memory : GlobalMemory
        ``allocate``/``free``, ``write``, ``read``, and the raw ``memory.bytes``.

    Copies of tensors and blocks (``copy_tensor``, ``store_tensor`` …) are described at ``TensorAccess``, recurrent networks (``lstm``,
    ``gru``, ``rnn``, ``run_tasks``) at ``RecurrentAccess``.
    """

    def __init__(
        self,
        config: Config | str | os.PathLike[str] = "base",
        simulator: str = "verilator",
        *,
        memory_bytes: int = 64 << 20,
        latency: int = 64,
        bandwidth: float = 1.0,
        jitter: int = 0,
        seed: int = 0,
        memory_settings: MemorySettings | None = None,
        timeout_cycles: int = 20_000_000,
        wait_timeout_cycles: int = 0,
        progress: Progress | None = None,
        waves: str | None = None,
    ) -> None:
        self.cfg = config if isinstance(config, Config) else load_config(config)
        check_choice("simulator", simulator, SIMULATORS)
        if waves is not None:
            check_choice("waves", waves, tuple(WAVES))
            if simulator != "verilator":
                raise UsageError(f"waves must be None with simulator {simulator!r}, not {waves!r}")
        memory_bytes = check_integer("memory_bytes", memory_bytes, 4096, 1 << self.cfg.axi_address_bits)
        if memory_bytes % 4096:
            raise UsageError(f"memory_bytes must be a multiple of 4096, not {memory_bytes}")
        timeout_cycles = check_integer("timeout_cycles", timeout_cycles, 1, (1 << 32) - 1)
        wait_timeout_cycles = check_integer("wait_timeout_cycles", wait_timeout_cycles, 0, (1 << 32) - 1)
        if wait_timeout_cycles and not self.cfg.wait_timeout:
            raise UsageError(f"wait_timeout_cycles must be 0 in configuration {self.cfg.name} ({lacking(self.cfg, 'wait_timeout')}), "
                             f"not {wait_timeout_cycles}")
        settings = memory_settings
        if settings is None:
            settings = MemorySettings(latency=latency, bandwidth=bandwidth, jitter=jitter, seed=seed)
        if not isinstance(settings, MemorySettings):
            raise UsageTypeError(f"memory_settings must be a MemorySettings, not {type(settings).__name__}")
        self.simulator, self.timeout_cycles, self.wait_timeout_cycles = simulator, timeout_cycles, wait_timeout_cycles
        self._waves, self.runs = waves, 0
        self.memory = GlobalMemory(memory_bytes)
        self._backend: VerilatorBackend | GoldenBackend | None
        if simulator == "verilator":
            with nullcontext(progress) if progress else default_progress() as shown:
                self._backend = VerilatorBackend(self.cfg, self.memory.bytes, settings, shown, waves=waves)
        else:
            self._backend = GoldenBackend(self.cfg, self.memory.bytes)

    def __repr__(self) -> str:
        cores = f"{self.cfg.cores} cores of " if self.cfg.cores > 1 else ""
        closed = "" if self._backend else ", closed"
        return (f"<Device {self.cfg.name}: {cores}{self.cfg.threads} x {self.cfg.dot} multipliers, {self.simulator}, "
                f"{self.memory.bytes.size >> 20} MiB of global memory{closed}>")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the simulator; safe to call twice. The device cannot run afterwards."""
        if self._backend is not None:
            self._backend.close()
            self._backend = None

    # -- memory -----------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> int:
        """Address of ``nbytes`` bytes of global memory, aligned to 128; ``OutOfMemory`` when there is no room."""
        return self.memory.allocator.allocate(nbytes)

    def free(self, address: int) -> None:
        """Give an allocation back."""
        self.memory.allocator.free(address)

    def write(self, address: int, data: ArrayLike) -> None:
        """Copy an array to global memory, in C order without padding."""
        self.memory.write(address, data)

    def read(self, address: int, shape: int | Sequence[int], dtype: DTypeLike) -> np.ndarray:
        """A copy of an array in global memory, in C order without padding."""
        return self.memory.read(address, shape, dtype)

    # -- runs -------------------------------------------------------------------------------

    def run(self, program: Program | str, uniform: Mapping[int, int] | None = None, macs: int = 0, element_bytes: int = 1) -> Stats:
        """Run a program from its first instruction to ``halt``, on all cores.

        Parameters
        ----------
        program : Program or str
            Program, or its text for the assembler.
        uniform : dict of int to int
            Uniform registers of every core to set before the run; the others keep their values.
        macs : int
            Multiply-accumulates of the problem, for ``Stats.utilization``.
        element_bytes : int
            Of its operands, for the peak that is the measure of it.

        Returns ``Stats``. Raises ``DeviceError`` when the run ends with an error; the device is usable afterwards.
        """
        if self._backend is None:
            raise UsageError("device must be open, not closed")
        if isinstance(program, str):
            program = assemble(program, self.cfg)
        if not isinstance(program, Program):
            raise UsageTypeError(f"program must be a Program or text, not {type(program).__name__}")
        if not 1 <= len(program) <= self.cfg.instruction_words:
            raise UsageError(f"program must have 1 to {self.cfg.instruction_words} instructions, not {len(program)}")
        macs = check_integer("macs", macs, 0, (1 << 63) - 1)
        element_bytes = check_integer("element_bytes", element_bytes, 1, 2)
        self.runs += 1
        recorder = active_recorder()
        outcome = self._backend.run(program, _uniform_values(uniform), self.timeout_cycles, self.wait_timeout_cycles,
                                    0 if recorder is None else recorder.sample_cycles)
        report_run(self.cfg, self.simulator, program, outcome.error and outcome.error[0])
        stats = Stats(outcome.cycles, macs, self.cfg.peak_macs(element_bytes), outcome.breakdown, outcome.counters)
        if recorder is not None:
            recorder.add_run(self.cfg, stats, outcome.samples)
        if outcome.error:
            code, pc, operand, core, dimension = outcome.error
            known = code is ErrorCode.UNSUPPORTED and pc < len(program)
            raise DeviceError(code, pc, operand, program.source_line(pc), stats, core=core if self.cfg.cores > 1 else None,
                              dimension=dimension, message=unsupported_message(program.words[pc], self.cfg) if known else None)
        return stats

    def wave(self, path: str | os.PathLike[str], first: int = 0, count: int | None = None) -> AbstractContextManager[None]:
        """A context in which runs write the waves of all signals to a file, for a device with ``waves``.

        Parameters
        ----------
        path : str or path
            Of the file, which is written anew.
        first, count : int
            Of the cycles of the runs, one behind the other, ``count`` (None: all) from number ``first`` on.

        A cycle is two units of time; between runs time passes without waves.
        """
        if self._waves is None:
            raise UsageError("device must be made with waves for wave, not without")
        if not isinstance(self._backend, VerilatorBackend):
            raise UsageError("device must be open, not closed")
        first = check_integer("first", first, 0, (1 << 63) - 1)
        count = (1 << 63) - 1 if count is None else check_integer("count", count, 1, (1 << 63) - 1)
        return self._backend.waves(os.fspath(path), first, count)

    def matmul(self, a: ArrayLike, b: ArrayLike, transpose: bool = False, b_layout: str = "nk", *, ka: int | None = None,
               kb: int | None = None, order: str | None = None, resident: bool = False) -> MatrixResult:
        """Matrix product of 8- or 16-bit integers, exact in 32 bits (sums wrap modulo 2**32) [S0.3, S0.15].

        Parameters
        ----------
        a : numpy.ndarray
            ``int8``, ``uint8``, ``int16`` or ``uint16``, shape (M, K).
        b : numpy.ndarray
            Of the same size of elements, signed or not, shape (K, N); with ``transpose`` (N, K).
        b_layout : str
            How B lies in global memory: ``"nk"``, each column of K elements together, or ``"kn"``, each row of N [S0.8].
        ka, kb : int or None
            Threads that share a row, and a dot product (1 to 4) [S0.5-S0.7]; None: what a cost model expects to be fastest.
        order : str, optional
            Loop order of ``mm`` [S0.4]: ``"k-outer"`` (Fig. 6) or ``"column-outer"`` (Fig. 7); the cost model chooses by default. B in
            rows is read in the order of Fig. 6 in either case, so that each byte is read once.
        resident : bool
            A, B and C lie in shared memory: loading and storing them are runs of their own, and ``stats`` are those of the
            product alone. One core; operands and program must fit (``ValueError``).

        Returns ``MatrixResult``: ``c`` is ``int32`` of shape (M, N). In global memory A lies row-major, B as ``b_layout`` says,
        C row-major, each with rows padded to 16 bytes; ``stats`` counts from operands there to results there.
        """
        a, b = check_operand("a", a), check_operand("b", b)
        transpose, b_layout = check_flag("transpose", transpose), check_choice("b_layout", b_layout, ("nk", "kn"))
        check_elements(self.cfg, a, b, b_layout)
        b = columns_of(a, b, transpose)
        problem = MatmulProblem(len(a), len(b), a.shape[1], Elements.of(a, b), schedule=Schedule(ka, kb, order),
                                layout=Layout(b_layout, resident))
        kernel, shape = plan(self.cfg, problem), (problem.m, problem.n)
        with Placement(self.memory) as places:
            a_address, b_address, *more = map(places.place, kernel.arranged(a, b))
            operands = Operands(a_address, b_address, places.reserve(shape, np.int32), *more)
            stats = execute(self, kernel, operands)
            return MatrixResult(self.memory.matrix(operands.c, shape, np.int32).copy(), stats)

    def linear(self, x: ArrayLike, w: ArrayLike, bias: ArrayLike | None = None, requantise: Requantise | None = None,
               transpose: bool = False) -> LayerResult:
        """One layer of a network on the device: x W + bias, requantised to 8 bits where asked for [S0.17].

        Parameters
        ----------
        x, w : numpy.ndarray
            ``int8`` or ``uint8``, shapes (M, K) and (K, N); with ``transpose`` w is (N, K).
        bias : array of integers, optional
            Of 32 bits and shape (N,), added to the sums modulo 2**32.
        requantise : Requantise, optional
            What becomes of the sums; without it they are the result.

        Returns ``LayerResult``: ``y`` of shape (M, N), ``int32`` or of the type of ``requantise``. Operands and results lie in global
        memory as for ``matmul``; biases and multipliers, one of each for a column, must fit a quarter of shared memory.
        """
        x, w, transpose = check_operand("x", x), check_operand("w", w), check_flag("transpose", transpose)
        for name, array in (("x", x), ("w", w)):
            if array.dtype.itemsize != 1:
                raise UsageTypeError(f"{name} must have dtype int8 or uint8, not {array.dtype}")
        w = columns_of(x, w, transpose, ("x", "w"))
        bias = bias_of(len(w), bias)
        check_requantise(len(w), requantise)
        problem = LayerProblem(MatmulProblem(len(x), len(w), x.shape[1], Elements.of(x, w)), bias, requantise)
        kernel, shape = plan(self.cfg, problem), (len(x), len(w))
        with Placement(self.memory) as places:
            x_address, w_address, *more = map(places.place, kernel.arranged(x, w))
            operands = Operands(x_address, w_address, places.reserve(shape, problem.result), *more)
            stats = execute(self, kernel, operands)
            return LayerResult(self.memory.matrix(operands.c, shape, problem.result).copy(), stats)

    def linear_chain(self, x: ArrayLike, layers: Sequence[Layer], transpose: bool = False) -> LayerResult:
        """Fully connected layers of few rows, one behind the other in one run [S0.17].

        Weights of the next layers are fetched during those before, and results of a layer stay in shared memory.

        Parameters
        ----------
        x : numpy.ndarray
            ``int8`` or ``uint8``, shape (M, K), with at most as many rows as threads.
        layers : list of (w, bias, requantise)
            As of ``linear``: w of shape (K, N), or with ``transpose`` (N, K), ``int8`` or ``uint8``; bias ``int32`` (N,) or None; a
            ``Requantise``. N of a layer is K of the next.

        Returns ``LayerResult``: ``y`` of shape (M, N) of the last layer and of the type of its ``requantise``. One core with an output
        stage; a tile of each layer must fit half of the factor registers, two tiles shared memory, and the program the instruction memory
        (``ConfigError``).
        """
        return linear_chain(self, x, layers, check_flag("transpose", transpose))

    def conv(self, x: ArrayLike, w: ArrayLike, bias: ArrayLike | None = None, *, strides: int | Sequence[int] = 1, pads: Pads = 0,
             dilations: int | Sequence[int] = 1, group: int = 1, layout: str = "NCHW", method: str = "auto", x_zero_point: int = 0,
             w_zero_point: int | Sequence[int] = 0, requantise: Requantise | None = None, keep: bool = False,
             representation: Representation | str | Path | None = None) -> LayerResult:
        """Convolution of 8- or 16-bit integers, exact in 32 bits (sums wrap modulo 2**32) [S1.16, S2].

        Parameters
        ----------
        x : numpy.ndarray or DeviceArray
            ``int8``, ``uint8``, ``int16`` or ``uint16``: images of ``layout``, with one to three spatial axes.
        w : numpy.ndarray
            Of 8 or 16 bits, shape (K, C / group, [T, [R,]] S): filters. Where only one of x and w has 16 bits the other is widened.
        bias : array of integers, optional
            Of 32 bits and shape (K,), added to the sums modulo 2**32.
        strides, dilations : int or tuple
            For all spatial axes, or for each of them; strides up to 8 with im2col.
        pads : int or tuple
            Padding around each image, which reads as ``x_zero_point``: for all axes, for each spatial axis, a pair (begin, end) for each,
            or first all begins and then all ends.
        group : int
            Output k sees the channels of group k div (K / group) only; a run each.
        layout : str
            Of x and of the result: "NCHW", "CNHW", "NHWC", or blocks of channels as "NCHWc8" (4, 8, 16 or 32), whose last axis they are.
            These names also stand for one and three spatial axes, as do "NCW" and "NCDHW".
        method : str
            "compiled": ``mm`` finds its elements by a list of offsets that is made before the run. "im2col": the TMAU makes the rows of the
            matrix product while it loads, from channels last, into which the host rearranges other layouts. "gather": the threads gather
            their windows by such a list, for planes ("NCHW"), one group and an image and all filters that fit shared memory. "depthwise":
            on the sparse engine, for channels last, filled up to a multiple of 16, with a filter each. "auto": what a cost model expects
            to be fastest.
            With ``requantise`` "gather" is refused. With ``bias`` or ``x_zero_point`` "depthwise" is left with ``requantise`` only; without
            it the host adds to the sums of "gather" and "im2col", which "auto" does not take then.
            16-bit elements have "im2col" and no output stage.
        x_zero_point : int
            What a zero of ``x`` is stored as.
        w_zero_point : int or tuple
            The same for ``w``: for all filters, or for each. Where ``w`` minus it fits neither int8 nor uint8, each element is multiplied
            twice, by two parts of it.
        requantise : Requantise, optional
            What becomes of the sums, also with a shift for each filter and ``double_rounding``; needs ``output_stage`` and at least 16
            threads.
        keep : bool
            ``y`` is a ``DeviceArray``, which stays in global memory, where method "depthwise", or one run with method "compiled", computes
            it. A convolution or pool that wants the planes that are there reads it in place; ``numpy.asarray`` gives a copy.
        representation : Representation or path, optional
            What ``heddle_sim.compiled`` made or saved, for method "compiled": a damaged file, or one for another tensor, layout or
            geometry, is refused before anything runs. The tables of the device have the addresses of its bands, by the same geometry.

        Returns ``LayerResult``: ``y`` is ``int32`` or of the type of ``requantise``, of ``layout``. Operands and result lie in global
        memory with pixels (im2col, and results with channels last) or planes (compiled) at multiples of 16 bytes; ``stats`` counts from
        operands there to the result there.
        Raises ``ValueError`` for what does not fit together, ``TensorMapError`` for what a descriptor cannot say.
        """
        y, stats = convolve(self, x, w, strides=strides, pads=pads, dilations=dilations, group=group, layout=layout, method=method,
                            bias=bias, x_zero_point=x_zero_point, w_zero_point=w_zero_point, requantise=requantise, keep=keep,
                            representation=representation)
        return LayerResult(cast(np.ndarray, y), stats)

    def max_pool(self, x: ArrayLike, kernel: int | Sequence[int], *, strides: int | Sequence[int] = 1, pads: Pads = 0,
                 dilations: int | Sequence[int] = 1, layout: str = "NCHW", minimum: int | None = None, maximum: int | None = None,
                 keep: bool = False) -> LayerResult:
        """Maximum of each window of images; padding never wins.

        Parameters
        ----------
        x : numpy.ndarray
            ``int8`` or ``uint8``: images of ``layout``, with one or two spatial axes.
        kernel, strides, dilations : int or tuple
            For all spatial axes, or for each of them, in elements. Strides are 1 by default, as ONNX has them, not those of the kernel.
        pads : int or tuple
            Padding, in the forms of ``conv``; less than the window on each side.
        layout : str
            Of x and of the result, as of ``conv``. Channels last, and blocks of 16 or 32, go to the device as they are, channels filled
            up to a multiple of 16; the host rearranges others into channels last.
        minimum, maximum : int, optional
            Least and greatest result, values of the type of x.
        keep : bool
            ``y`` stays on the device as that of ``conv``, with channels last that are a multiple of 16.

        Returns ``LayerResult``: ``y`` of the type of x. ``stats`` counts from x in global memory to the result there.
        Raises ``ValueError`` for what does not fit together, and where the configuration lacks ``tensors``; ``ConfigError`` where shared
        memory has no room for the rows of a window with 16 channels.
        """
        y, stats = max_pool(self, x, kernel=kernel, strides=strides, pads=pads, dilations=dilations, layout=layout,
                           bounds=(minimum, maximum), keep=keep)
        return LayerResult(cast(np.ndarray, y), stats)

    def average_pool(self, x: ArrayLike, kernel: int | Sequence[int], *, strides: int | Sequence[int] = 1, pads: Pads = 0,
                     layout: str = "NCHW", count_include_pad: bool = False, x_zero_point: int = 0,
                     requantise: Requantise | None = None, minimum: int | None = None, maximum: int | None = None,
                     keep: bool = False) -> LayerResult:
        """Average of each window of images, rounded: halves away from zero, as TFLite's AVERAGE_POOL_2D does.

        Parameters
        ----------
        x, kernel, strides, pads, layout, keep
            As of ``max_pool``.
        count_include_pad : bool
            Padding counts as elements that read as ``x_zero_point``; else a window has the elements of x only.
        x_zero_point : int
            Zero point of x. Without ``requantise`` the result has the same scale and zero point.
        requantise : Requantise, optional
            What becomes of the average of x minus ``x_zero_point``: multiplier / 2**shift is the scale of x by that of the result. One
            multiplier for all channels. ``golden.pooling.average_factors`` has the integers; halves are rounded up.
        minimum, maximum : int, optional
            Least and greatest result without ``requantise``, values of the type of x.

        Returns ``LayerResult``: ``y`` of the type of x or of ``requantise``. Where all windows count the same number of elements it is
        computed as a depthwise convolution if the cycle models expect that to be faster; the bytes are the same. Raises as ``max_pool``.
        """
        y, stats = average(self, x, kernel=kernel, strides=strides, pads=pads, layout=layout, count_include_pad=count_include_pad,
                           x_zero_point=x_zero_point, requantise=requantise, bounds=(minimum, maximum), keep=keep)
        return LayerResult(cast(np.ndarray, y), stats)

    def global_average_pool(self, x: ArrayLike, *, layout: str = "NCHW", x_zero_point: int = 0,
                            requantise: Requantise | None = None, keep: bool = False) -> LayerResult:
        """Average of each channel of each image: ``average_pool`` with windows as large as the images.

        Returns ``LayerResult``: ``y`` with spatial axes of length 1. Raises as ``max_pool``.
        """
        y, stats = global_average(self, x, layout=layout, x_zero_point=x_zero_point, requantise=requantise, keep=keep)
        return LayerResult(cast(np.ndarray, y), stats)

    def add(self, a: ArrayLike, b: ArrayLike, multipliers: Sequence[int], shift: int, *, a_zero_point: int = 0, b_zero_point: int = 0,
            zero_point: int = 0, minimum: int | None = None, maximum: int | None = None, relu: bool = False,
            dtype: DTypeLike | None = None, exact: bool = True, keep: bool = False) -> LayerResult:
        """Sum of two quantised tensors, element by element.

        y = clamp(floor((ma (a - a_zero_point) + mb (b - b_zero_point)) / 2**shift + 1/2) + zero_point, minimum, maximum), exact: one
        rounding, halves up. By the sparse engine or the thread unit, whichever is expected to be faster.

        Parameters
        ----------
        a, b : numpy.ndarray
            ``int8`` or ``uint8``, of one shape and of any layout.
        multipliers : (int, int)
            ma and mb, from 1; ma / 2**shift is the scale of a by that of the result. ``golden.pooling.add_factors`` makes them.
        shift : int
            0 to 23. The sums, with zero_point · 2**shift, must fit 32 bits.
        zero_point, minimum, maximum, relu, dtype
            Of the result, as of ``Requantise``; the type is that of a by default.
        exact : bool
            False: a sum less than 1/8192 from a half may be rounded either way, where only so the sparse engine can make it.
        keep : bool
            ``y`` stays on the device as that of ``conv``, where its elements are a multiple of 16.

        Returns ``LayerResult``: ``y`` of the shape of a. ``stats`` counts from operands in global memory to the result there.
        Raises ``ValueError`` for what does not fit together, and where the configuration lacks ``tensors``.
        """
        y, stats = add(self, a, b, multipliers=multipliers, shift=shift, a_zero_point=a_zero_point, b_zero_point=b_zero_point,
                       zero_point=zero_point, minimum=minimum, maximum=maximum, relu=relu, dtype=dtype, exact=exact, keep=keep)
        return LayerResult(cast(np.ndarray, y), stats)

    def tensordot(self, a: ArrayLike, b: ArrayLike, axes: int | Sequence[int | Sequence[int]] = 1, *, b_layout: str = "nk",
                  ka: int | None = None, kb: int | None = None, order: str | None = None, resident: bool = False) -> MatrixResult:
        """``numpy.tensordot`` of 8- or 16-bit integers over one axis, exact in 32 bits (sums wrap modulo 2**32) [S0.16].

        Parameters
        ----------
        a, b : numpy.ndarray
            Types as for ``matmul``, of one and more dimensions.
        axes : int or pair
            1: the last axis of ``a`` with the first of ``b``; or an axis of ``a`` and one of ``b``.
        b_layout, ka, kb, order, resident
            As for ``matmul``.

        Returns ``MatrixResult``: ``c`` is ``int32``, its axes those of ``a`` and then those of ``b`` without the contracted ones.
        """
        folded_a, folded_b, shape = fold(a, b, axes)
        c, stats = self.matmul(folded_a, folded_b, transpose=True, b_layout=b_layout, ka=ka, kb=kb, order=order, resident=resident)
        return MatrixResult(c.reshape(shape), stats)


def _uniform_values(uniform: Mapping[int, int] | None) -> dict[int, int]:
    if uniform is None:
        return {}
    if not isinstance(uniform, Mapping):
        raise UsageTypeError(f"uniform must be a dictionary of register numbers to values, not {uniform!r}")
    values = {}
    for number, value in uniform.items():
        number = check_integer("uniform register number", number, 0, UNIFORM_REGISTERS - 1)
        values[number] = check_integer(f"value of ur{number}", value, -(1 << 31), (1 << 32) - 1) & 0xFFFFFFFF
    return values
