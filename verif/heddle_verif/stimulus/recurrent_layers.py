"""Operands of recurrent layers, and the layers in float64 as ONNX defines them, written apart from those of the quantiser."""

import numpy as np

__all__ = ["GATES", "layer_operands", "reference"]

GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def layer_operands(rng, kind, hidden, inputs, steps, batch=2, directions=1, bias=True):
    """X, W, R and B as a framework initialises them: weights within ±1/√hidden, inputs normal."""
    gates = GATES[kind]

    def uniform(*shape):
        return rng.uniform(-1, 1, shape) / np.sqrt(hidden)

    return [rng.standard_normal((steps, batch, inputs)), uniform(directions, gates * hidden, inputs),
            uniform(directions, gates * hidden, hidden), *([uniform(directions, 2 * gates * hidden)] if bias else [])]


def reference(kind, x, w, r, b=None, lengths=None, h0=None, c0=None, p=None, *, direction="forward", layout=0, linear_before_reset=0,
              activations=None):
    """The operator in float64, all batch elements at once: (Y, Y_h) or (Y, Y_h, Y_c)."""
    x = np.asarray(x, np.float64)
    if layout:
        x = x.swapaxes(0, 1)
        h0, c0 = (None if state is None else state.swapaxes(0, 1) for state in (h0, c0))
    steps, batch, _ = x.shape
    directions, hidden = len(w), r.shape[-1]
    lengths = np.full(batch, steps) if lengths is None else np.asarray(lengths)
    y, finals = np.zeros((steps, directions, batch, hidden)), []
    for d in range(directions):
        bias = np.zeros(2 * len(w[d])) if b is None else b[d].astype(np.float64)
        h = np.zeros((batch, hidden)) if h0 is None else h0[d].astype(np.float64)
        c = np.zeros((batch, hidden)) if c0 is None else c0[d].astype(np.float64)
        peep = np.zeros(3 * hidden) if p is None else p[d].astype(np.float64)
        backwards = direction == "reverse" or d == 1
        for t in range(steps):
            at = lengths - 1 - t if backwards else np.full(batch, t)
            alive = t < lengths
            row = x[np.where(alive, at, 0), np.arange(batch)]
            new_h, new_c = _step(kind, row, h, c, w[d], r[d], *np.split(bias, 2), np.split(peep, 3), linear_before_reset, activations)
            h, c = np.where(alive[:, None], new_h, h), np.where(alive[:, None], new_c, c)
            for element in np.flatnonzero(alive):
                y[at[element], d, element] = h[element]
        finals.append((h, c))
    results = [y, *(np.stack(states) for states in zip(*finals))][:3 if kind == "lstm" else 2]
    if layout:
        results = [results[0].transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in results[1:])]
    return results


def _sigmoid(v):
    return 1 / (1 + np.exp(-v))


def _step(kind, x, h, c, w, r, wb, rb, peep, linear, activations):
    functions = dict(sigmoid=_sigmoid, tanh=np.tanh, relu=lambda v: v.clip(0))
    defaults = {"lstm": ("sigmoid", "tanh", "tanh"), "gru": ("sigmoid", "tanh"), "rnn": ("tanh",)}
    f, *more = (functions[name.lower()] for name in activations or defaults[kind])
    first, second = x @ w.T + wb, h @ r.T + rb
    if kind == "rnn":
        return f(first + second), c
    if kind == "lstm":
        i, o, forget, cell = np.split(first + second, 4, 1)
        c = f(forget + peep[2] * c) * c + f(i + peep[0] * c) * more[0](cell)
        return f(o + peep[1] * c) * more[1](c), c
    size = h.shape[1]
    z, reset = np.split(f((first + second)[:, :2 * size]), 2, 1)
    hidden = reset * second[:, 2 * size:] if linear else (reset * h) @ r[2 * size:].T + rb[2 * size:]
    return (1 - z) * more[0](first[:, 2 * size:] + hidden) + z * h, c
