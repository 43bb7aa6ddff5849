"""Random quantised TFLite networks: layers of all kinds, one behind the other, with sums of what came before."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from .tflite_files import TfliteFile

__all__ = ["random_tflite_network"]

_SAME, _VALID = 0, 1
_ACTIVATIONS = (0, 1, 3)            # none, RELU, RELU6
_CHANNELS = (1, 2, 3, 4, 8, 10, 16, 24, 32, 40)
_FILTERS = (1, 2, 3, 5, 8, 16, 17, 24, 32, 33, 48, 64)
_OUTPUTS = (1, 2, 10, 12, 33, 64, 100)
_MOST_INPUTS = 6000                 # of a fully connected layer
_MOST_CLASSES = 512                 # of a softmax; LiteRT's kernel ends its process for thousands
_OF_IMAGES = ("convolution", "convolution", "pointwise", "depthwise", "depthwise", "average_pool", "max_pool", "add", "pad", "mean",
              "fully_connected", "concatenation", "relu", "reshape", "multiply")
_OF_ROWS = ("fully_connected", "fully_connected", "softmax", "logistic", "add")


@dataclass(frozen=True)
class _Value:
    """A tensor under construction: its number in the file, and what a layer behind it must know."""

    number: int
    shape: tuple[int, ...]
    scale: float
    zero_point: int


class _Network:
    """A network under construction."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.file, self.names = rng, TfliteFile(), 0
        self.dtype = str(rng.choice(("int8", "int8", "int8", "uint8")))
        self.least = int(np.iinfo(self.dtype).min)
        self.values: list[_Value] = []
        self.result((1, self.below(1, 20), self.below(3, 20), self.one_of(_CHANNELS)))

    @property
    def last(self) -> _Value:
        return self.values[-1]

    def below(self, first: int, end: int) -> int:
        return int(self.rng.integers(first, end))

    def one_of(self, choices: tuple[int, ...]) -> int:
        return int(self.rng.choice(choices))

    def name(self) -> str:
        self.names += 1
        return f"t{self.names}"

    def result(self, shape: tuple[int, ...], scale: float | None = None, zero_point: int | None = None) -> int:
        """A new tensor; its scale and zero point are random where they are not given."""
        scale = float(self.rng.uniform(0.02, 0.2)) if scale is None else scale
        zero_point = self.least + self.below(0, 256) if zero_point is None else zero_point
        number = self.file.tensor(self.name(), shape, self.dtype, scale, zero_point)
        self.values.append(_Value(number, shape, scale, zero_point))
        return number

    def alike(self, shape: tuple[int, ...]) -> int:
        """A new tensor with scale and zero point of the last one."""
        return self.result(shape, self.last.scale, self.last.zero_point)

    def integers(self, values: object) -> int:
        return self.file.constant(self.name(), values, "int32")

    def operator(self, op: str, x: _Value, others: list[int], y: int, options: str | None = None, **fields: object) -> None:
        self.file.operator(op, [x.number, *others], [y], options, **fields)

    def weights(self, shape: tuple[int, ...], axis: int, x_scale: float) -> list[int]:
        """Weights with a scale for each filter (uint8: one, and a zero point), and biases."""
        count = shape[axis]
        signed = self.dtype == "int8"
        scales = self.rng.uniform(0.002, 0.02, count) if signed else np.array([0.01])
        w = self.file.constant(self.name(), self.rng.integers(-127 if signed else 0, 128 if signed else 255, shape), self.dtype,
                               scale=scales, zero_point=0 if signed else 120, axis=axis if signed else 0)
        return [w, self.file.constant(self.name(), self.rng.integers(-2000, 2000, count), "int32", scale=x_scale * scales)]

    def window(self, sizes: tuple[int, ...], kernel: tuple[int, ...], strides: tuple[int, ...],
               gaps: tuple[int, ...] = (1, 1)) -> tuple[int, tuple[int, ...]]:
        """Padding, valid only where windows fit, and the size of the result."""
        spans = [(count - 1) * gap + 1 for count, gap in zip(kernel, gaps)]
        fits = all(span <= size for span, size in zip(spans, sizes))
        padding = _VALID if fits and self.rng.random() < 0.4 else _SAME
        return padding, tuple(-(-size // step) if padding == _SAME else (size - span) // step + 1
                              for size, span, step in zip(sizes, spans, strides))

    def layer(self, kind: str) -> None:
        """A layer of a kind, or one that takes any size where this one would be too large."""
        shape = self.last.shape
        if kind == "fully_connected" and prod(shape) > _MOST_INPUTS:
            kind = "mean" if len(shape) == 4 else "logistic"
        if kind == "softmax" and shape[-1] > _MOST_CLASSES:
            kind = "logistic"
        getattr(self, kind)()

    # -- layers: each takes the last value and makes the next one --------------------------------

    def convolution(self, most_kernel: int = 5, depthwise: bool = False) -> None:
        x = self.last
        kernel = self.below(1, most_kernel + 1), self.below(1, most_kernel + 1)
        strides = (self.below(1, 4), self.below(1, 4)) if most_kernel > 1 else (1, 1)
        gaps = (self.below(1, 3), self.below(1, 3)) if strides == (1, 1) and self.rng.random() < 0.3 else (1, 1)
        padding, size = self.window(x.shape[1:3], kernel, strides, gaps)
        channels = x.shape[3]
        times = self.one_of((1, 1, 1, 2))
        filters = channels * times if depthwise else self.one_of(_FILTERS)
        shape = (1, *kernel, filters) if depthwise else (filters, *kernel, channels)
        constants = self.weights(shape, 3 if depthwise else 0, x.scale)
        fields = {"padding": padding, "strideH": strides[0], "strideW": strides[1], "dilationHFactor": gaps[0],
                  "dilationWFactor": gaps[1], "fusedActivationFunction": self.one_of(_ACTIVATIONS)}
        if depthwise:
            fields["depthMultiplier"] = times
        op, options = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions") if depthwise else ("CONV_2D", "Conv2DOptions")
        self.operator(op, x, constants, self.result((1, *size, filters)), options, **fields)

    def pointwise(self) -> None:
        self.convolution(1)

    def depthwise(self) -> None:
        self.convolution(depthwise=True)

    def pool(self, op: str) -> None:
        x = self.last
        kernel = tuple(self.below(1, min(size, 6) + 1) for size in x.shape[1:3])
        strides = self.below(1, 4), self.below(1, 4)
        padding, size = self.window(x.shape[1:3], kernel, strides)
        self.operator(op, x, [], self.alike((1, *size, x.shape[3])), "Pool2DOptions", padding=padding, strideH=strides[0],
                      strideW=strides[1], filterHeight=kernel[0], filterWidth=kernel[1],
                      fusedActivationFunction=self.one_of(_ACTIVATIONS))

    def average_pool(self) -> None:
        self.pool("AVERAGE_POOL_2D")

    def max_pool(self) -> None:
        self.pool("MAX_POOL_2D")

    def of_two(self, op: str, options: str, activation: int) -> None:
        """With itself or an earlier value of the same shape."""
        x = self.last
        same = [value for value in self.values if value.shape == x.shape]
        other = same[self.below(0, len(same))]
        self.operator(op, x, [other.number], self.result(x.shape), options, fusedActivationFunction=activation)

    def add(self) -> None:
        self.of_two("ADD", "AddOptions", self.one_of(_ACTIVATIONS))

    def multiply(self) -> None:
        self.of_two("MUL", "MulOptions", 0)

    def pad(self) -> None:
        x = self.last
        pads = [[0, 0], *([self.below(0, 3), self.below(0, 3)] for _ in range(2)), [0, 0]]
        y = self.alike(tuple(size + sum(pair) for size, pair in zip(x.shape, pads)))
        self.operator("PAD", x, [self.integers(pads)], y, "PadOptions")

    def mean(self) -> None:
        x, keeps = self.last, bool(self.below(0, 2))
        y = self.result((1, 1, 1, x.shape[3]) if keeps else (1, x.shape[3]))
        self.operator("MEAN", x, [self.integers([1, 2])], y, "ReducerOptions", keepDims=keeps)

    def concatenation(self) -> None:
        x = self.last
        self.operator("CONCATENATION", x, [x.number], self.alike((*x.shape[:3], 2 * x.shape[3])), "ConcatenationOptions", axis=3,
                      fusedActivationFunction=0)

    def relu(self) -> None:
        x = self.last
        self.operator("RELU", x, [], self.alike(x.shape))

    def reshape(self) -> None:
        x = self.last
        shape = (1, prod(x.shape))
        self.operator("RESHAPE", x, [self.integers(shape)], self.alike(shape), "ReshapeOptions", newShape=list(shape))

    def fully_connected(self) -> None:
        x = self.last
        inputs, outputs = prod(x.shape), self.one_of(_OUTPUTS)
        signed = self.dtype == "int8"
        w = self.file.constant(self.name(), self.rng.integers(-127 if signed else 0, 128 if signed else 255, (outputs, inputs)),
                               self.dtype, scale=0.01, zero_point=0 if signed else 128)
        bias = self.file.constant(self.name(), self.rng.integers(-2000, 2000, outputs), "int32", scale=x.scale * 0.01)
        self.operator("FULLY_CONNECTED", x, [w, bias], self.result((1, outputs)), "FullyConnectedOptions",
                      fusedActivationFunction=self.one_of(_ACTIVATIONS))

    def softmax(self) -> None:
        x = self.last
        self.operator("SOFTMAX", x, [], self.result(x.shape, 1 / 256, self.least), "SoftmaxOptions", beta=1.0)

    def logistic(self) -> None:
        x = self.last
        self.operator("LOGISTIC", x, [], self.result(x.shape, 1 / 256, self.least))


def random_tflite_network(rng: np.random.Generator, path: Path, most_layers: int = 6) -> Path:
    """Write a file with one input, up to ``most_layers`` layers and one output; returns its path."""
    network = _Network(rng)
    for _ in range(network.below(1, most_layers + 1)):
        network.layer(str(rng.choice(_OF_IMAGES if len(network.last.shape) == 4 else _OF_ROWS)))
    return network.file.write(path, [network.values[0].number], [network.last.number])
