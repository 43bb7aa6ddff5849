"""An LSTM with a dense layer behind its last step, trained by back-propagation through time, in numpy only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..rnn.reference import FloatLayer

if TYPE_CHECKING:
    from ..progress import Progress

__all__ = ["Classifier", "train_classifier"]

BATCH = 32
RATE, DECAY = 0.02, 0.03        # of Adam in the first epoch; part of it in the last
MOMENTS = 0.9, 0.999
FORGET_BIAS = 1.0
LARGEST_GRADIENT = 5.0          # norm of all gradients of a batch


def _sigmoid(values: np.ndarray) -> np.ndarray:
    return 0.5 * (1.0 + np.tanh(0.5 * values))


@dataclass(frozen=True)
class Classifier:
    """``w`` [4 hidden, inputs], ``r`` [4 hidden, hidden], ``b`` [4 hidden]: gates i, o, f, c; ``v`` [classes, hidden], ``u`` [classes]."""

    w: np.ndarray
    r: np.ndarray
    b: np.ndarray
    v: np.ndarray
    u: np.ndarray

    @classmethod
    def drawn(cls, rng: np.random.Generator, inputs: int, hidden: int, classes: int) -> Self:
        """Before the training: weights within ±1/√hidden, gates f open."""
        def uniform(*shape: int) -> np.ndarray:
            return rng.uniform(-1, 1, shape) / np.sqrt(hidden)

        b = np.repeat([0.0, 0.0, FORGET_BIAS, 0.0], hidden)
        return cls(uniform(4 * hidden, inputs), uniform(4 * hidden, hidden), b, uniform(classes, hidden), np.zeros(classes))

    @property
    def hidden(self) -> int:
        return self.r.shape[1]

    def layers(self) -> tuple[FloatLayer, FloatLayer]:
        """``FloatLayer`` of the LSTM and of the dense layer."""
        hidden = self.hidden
        w, r, b = (array.reshape(4, hidden, *array.shape[1:]) for array in (self.w, self.r, self.b))
        lstm = FloatLayer("lstm", w, r, b, np.zeros((4, hidden)), ("Sigmoid", "Tanh", "Tanh"))
        return lstm, FloatLayer("dense", self.v[None], None, self.u[None], np.zeros((1, len(self.u))), ("Affine",))

    def logits(self, x: np.ndarray) -> np.ndarray:
        """Of sequences [batch, steps, inputs]: [batch, classes]."""
        return self._forward(x)[0]

    def accuracy(self, x: np.ndarray, labels: np.ndarray) -> float:
        return float(np.mean(self.logits(x).argmax(axis=1) == labels))

    def _forward(self, x: np.ndarray) -> tuple[np.ndarray, list[tuple[Any, ...]], np.ndarray, np.ndarray]:
        h = c = np.zeros((len(x), self.hidden))
        trace: list[tuple[Any, ...]] = []
        for t in range(x.shape[1]):
            i, o, f, g = np.split(x[:, t] @ self.w.T + h @ self.r.T + self.b, 4, axis=1)
            i, o, f, g = _sigmoid(i), _sigmoid(o), _sigmoid(f), np.tanh(g)
            trace.append((h, c, i, o, f, g))
            c = f * c + i * g
            h = o * np.tanh(c)
        return h @ self.v.T + self.u, trace, h, c

    def gradients(self, x: np.ndarray, labels: np.ndarray) -> tuple[float, tuple[np.ndarray, ...]]:
        """(mean cross-entropy, its gradients in the order of the fields)."""
        logits, trace, last, c = self._forward(x)
        shifted = logits - logits.max(axis=1, keepdims=True)
        chances = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
        rows = np.arange(len(x))
        loss = -np.mean(np.log(chances[rows, labels] + 1e-12))
        chances[rows, labels] -= 1
        d_logits = chances / len(x)
        d_w, d_r, d_b = np.zeros_like(self.w), np.zeros_like(self.r), np.zeros_like(self.b)
        d_h, d_c = d_logits @ self.v, 0.0
        for t in reversed(range(x.shape[1])):
            h, before, i, o, f, g = trace[t]
            bent = np.tanh(c)
            d_c = d_c + d_h * o * (1 - bent * bent)
            d_sums = np.concatenate([d_c * g * i * (1 - i), d_h * bent * o * (1 - o), d_c * before * f * (1 - f), d_c * i * (1 - g * g)],
                                    axis=1)
            d_w += d_sums.T @ x[:, t]
            d_r += d_sums.T @ h
            d_b += d_sums.sum(axis=0)
            d_h, d_c, c = d_sums @ self.r, d_c * f, before
        return loss, (d_w, d_r, d_b, d_logits.T @ last, d_logits.sum(axis=0))


def train_classifier(x: np.ndarray, labels: np.ndarray, hidden: int, epochs: int, seed: int,
                     progress: Progress | None = None) -> Classifier:
    """``Classifier`` of sequences [count, steps, inputs] with labels 0 …, trained by Adam; the same for the same ``seed``."""
    rng = np.random.default_rng(seed)
    classifier = Classifier.drawn(rng, x.shape[2], hidden, int(labels.max()) + 1)
    values = [classifier.w, classifier.r, classifier.b, classifier.v, classifier.u]       # changed in place
    means, squares = ([np.zeros_like(value) for value in values] for _ in range(2))
    steps = 0
    for epoch in range(epochs):
        rate = RATE * DECAY ** (epoch / max(1, epochs - 1))
        for rows in np.array_split(rng.permutation(len(x)), max(1, len(x) // BATCH)):
            _, gradients = classifier.gradients(x[rows], labels[rows])
            norm = np.sqrt(sum(np.sum(gradient * gradient) for gradient in gradients))
            steps += 1
            for value, mean, square, gradient in zip(values, means, squares, gradients):
                gradient = gradient * min(1.0, LARGEST_GRADIENT / (norm + 1e-12))
                mean += (1 - MOMENTS[0]) * (gradient - mean)
                square += (1 - MOMENTS[1]) * (gradient * gradient - square)
                unbiased = mean / (1 - MOMENTS[0] ** steps)
                value -= rate * unbiased / (np.sqrt(square / (1 - MOMENTS[1] ** steps)) + 1e-8)
        if progress is not None:
            progress.step()
    return classifier
