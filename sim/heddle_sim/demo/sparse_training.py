"""A small network with sparse weights: training on the host in floats, and with products of a device in integers [S4.9]."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..sparse.compressed import Compressed
from ..sparse.doubly import DCSR

__all__ = ["Device8", "Float", "Gradients", "Network", "Products", "quantised"]

_RATE, _DECAY = 1e-2, (0.9, 0.999)      # of Adam


@dataclass
class Gradients:
    """Gradients of the weights and biases of each layer."""

    weights: list[np.ndarray]
    biases: list[np.ndarray]


class Products(Protocol):
    """Products of a layer, forward and backward, whatever computes them."""

    def forward(self, w: np.ndarray, mask: np.ndarray, x: np.ndarray) -> np.ndarray:
        """w · x; w has elements where ``mask`` has."""

    def backward(self, w: np.ndarray, mask: np.ndarray, x: np.ndarray, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """wᵀ · dy, and dy · xᵀ where ``mask`` has elements."""


class Float:
    """Products on the host, in floats."""

    def forward(self, w: np.ndarray, mask: np.ndarray, x: np.ndarray) -> np.ndarray:
        """See ``Products``."""
        return w @ x

    def backward(self, w: np.ndarray, mask: np.ndarray, x: np.ndarray, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See ``Products``."""
        return w.T @ dy, np.where(mask, dy @ x.T, 0)


def quantised(values: np.ndarray) -> tuple[np.ndarray, float]:
    """int8 and the scale by which they are multiplied: the largest magnitude becomes 127."""
    scale = float(np.abs(values).max()) / 127 or 1.0
    return np.rint(values / scale).astype(np.int8), scale


@dataclass
class Device8:
    """Products on a device, of int8: each operand has one scale, found anew for every product.

    ``products`` counts them, ``macs`` their multiply-accumulates.
    """

    device: Any
    products: int = 0
    macs: int = 0

    def forward(self, w: np.ndarray, mask: np.ndarray, x: np.ndarray) -> np.ndarray:
        """See ``Products``."""
        (weights, of_w), (inputs, of_x) = self._weights(w, mask), quantised(x)
        y, _ = self.device.sparse_linear_forward(weights, inputs)
        self._count(1, mask, x)
        return y * (of_w * of_x)

    def backward(self, w: np.ndarray, mask: np.ndarray, x: np.ndarray, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See ``Products``."""
        (weights, of_w), (inputs, of_x), (gradient, of_y) = self._weights(w, mask), quantised(x), quantised(dy)
        dx, dw, _ = self.device.sparse_linear_backward(weights, inputs, gradient)
        self._count(2, mask, x)
        slopes = np.zeros(mask.shape)
        slopes[mask] = dw.data * (of_y * of_x)      # both have their elements row by row
        return dx * (of_w * of_y), slopes

    def _weights(self, w: np.ndarray, mask: np.ndarray) -> tuple[DCSR, float]:
        """The elements of the mask, also those that are zero."""
        values, scale = quantised(w)
        places = Compressed.of_dense(mask.astype(np.int8))
        return DCSR.of(places.with_data(values[mask])), scale

    def _count(self, products: int, mask: np.ndarray, x: np.ndarray) -> None:
        self.products += products
        self.macs += products * int(mask.sum()) * x.shape[1]


@dataclass
class Network:
    """Layers with ReLU between them; ``masks`` say which weights there are."""

    weights: list[np.ndarray]
    biases: list[np.ndarray]
    masks: list[np.ndarray]
    _moments: list[list[np.ndarray]] = field(default_factory=list)
    _step: int = 0

    @classmethod
    def drawn(cls, sizes: tuple[int, ...], seed: int) -> Network:
        """Random weights, all of them there."""
        rng = np.random.default_rng(seed)
        shapes = list(zip(sizes[1:], sizes))
        return cls([rng.standard_normal(shape) * np.sqrt(2 / shape[1]) for shape in shapes], [np.zeros((rows, 1)) for rows, _ in shapes],
                   [np.ones(shape, bool) for shape in shapes])

    def pruned(self, sparsity: float) -> Network:
        """The same network without the smallest weights of each layer: this share of them is left out."""
        masks = [np.abs(w) > np.quantile(np.abs(w), sparsity) for w in self.weights]
        return Network([np.where(mask, w, 0) for mask, w in zip(masks, self.weights)], [bias.copy() for bias in self.biases], masks)

    def logits(self, products: Products, x: np.ndarray) -> np.ndarray:
        """Results for inputs (elements, samples)."""
        return self._forward(products, x)[-1]

    def accuracy(self, products: Products, x: np.ndarray, labels: np.ndarray) -> float:
        """Share of the samples whose largest logit is that of their label."""
        return float(np.mean(self.logits(products, x).argmax(axis=0) == labels))

    def _forward(self, products: Products, x: np.ndarray) -> list[np.ndarray]:
        """Inputs of each layer, then the logits."""
        values = [x]
        for number, (w, mask, bias) in enumerate(zip(self.weights, self.masks, self.biases)):
            y = products.forward(w, mask, values[-1]) + bias
            values.append(y if number == len(self.weights) - 1 else np.maximum(y, 0))
        return values

    def gradients(self, products: Products, x: np.ndarray, labels: np.ndarray) -> Gradients:
        """Of the mean cross-entropy."""
        values = self._forward(products, x)
        shifted = np.exp(values[-1] - values[-1].max(axis=0))
        dy = shifted / shifted.sum(axis=0)
        dy[labels, np.arange(len(labels))] -= 1
        dy /= len(labels)
        found = Gradients([], [])
        for w, mask, inputs in zip(self.weights[::-1], self.masks[::-1], values[-2::-1]):
            found.biases.insert(0, dy.sum(axis=1, keepdims=True))
            dx, dw = products.backward(w, mask, inputs, dy)
            found.weights.insert(0, dw)
            dy = np.where(inputs > 0, dx, 0)
        return found

    def step(self, gradients: Gradients) -> None:
        """One step of Adam."""
        arrays, slopes = self.weights + self.biases, gradients.weights + gradients.biases
        if not self._moments:
            self._moments = [[np.zeros_like(array) for array in arrays] for _ in _DECAY]
        self._step += 1
        for number, (array, slope) in enumerate(zip(arrays, slopes)):
            for moments, decay, value in zip(self._moments, _DECAY, (slope, slope * slope)):
                moments[number] = decay * moments[number] + (1 - decay) * value
            first, second = (moments[number] / (1 - decay ** self._step) for moments, decay in zip(self._moments, _DECAY))
            array -= _RATE * first / (np.sqrt(second) + 1e-8)
        for w, mask in zip(self.weights, self.masks):
            w[~mask] = 0

    def train(self, products: Products, x: np.ndarray, labels: np.ndarray, epochs: int, batch: int, seed: int) -> None:
        """Some passes over the samples, in batches, in an order of its own each."""
        rng = np.random.default_rng(seed)
        for _ in range(epochs):
            order = rng.permutation(len(labels))
            for start in range(0, len(order), batch):
                part = order[start:start + batch]
                self.step(self.gradients(products, x[:, part], labels[part]))
