"""Operands of recurrent operators for tests: the node cases of ONNX by their parameters, and the operators in float64."""

import numpy as np

__all__ = ["NODE_CASES", "node_case", "reference"]

GATES = {"lstm": 4, "gru": 3, "rnn": 1}

# Parameters of the published cases: operator, steps or batch by layout, hidden size, value of all weights (None: drawn), further operands.
_ONE, _TWO = (1, 3, 2), (1, 3, 3)
NODE_CASES = {
    "test_lstm_defaults": ("lstm", _ONE, 3, 0.1, {}),
    "test_lstm_with_initial_bias": ("lstm", _TWO, 4, 0.1, dict(bias=0.1)),
    "test_lstm_with_peepholes": ("lstm", (1, 2, 4), 3, 0.1, dict(bias=0.0, lengths=True, states=True, peepholes=0.1)),
    "test_lstm_batchwise": ("lstm", (3, 1, 2), 7, 0.3, dict(layout=1)),
    "test_lstm_reverse": ("lstm", _ONE, 7, 0.3, dict(direction="reverse")),
    "test_lstm_bidirectional": ("lstm", _ONE, 7, 0.3, dict(direction="bidirectional")),
    "test_gru_defaults": ("gru", _ONE, 5, 0.1, {}),
    "test_gru_with_initial_bias": ("gru", _TWO, 3, 0.1, dict(bias=0.1)),
    "test_gru_seq_length": ("gru", (2, 3, 3), 5, None, {}),
    "test_gru_batchwise": ("gru", (3, 1, 2), 6, 0.2, dict(layout=1)),
    "test_gru_reverse": ("gru", _ONE, 5, 0.1, dict(direction="reverse")),
    "test_gru_bidirectional": ("gru", _ONE, 5, 0.1, dict(direction="bidirectional")),
    "test_simple_rnn_defaults": ("rnn", _ONE, 4, 0.1, {}),
    "test_simple_rnn_with_initial_bias": ("rnn", _TWO, 5, 0.1, dict(bias=0.1)),
    "test_rnn_seq_length": ("rnn", (2, 3, 3), 5, None, {}),
    "test_simple_rnn_batchwise": ("rnn", (3, 1, 2), 4, 0.5, dict(layout=1)),
    "test_simple_rnn_reverse": ("rnn", _ONE, 4, 0.1, dict(direction="reverse")),
    "test_simple_rnn_bidirectional": ("rnn", _ONE, 4, 0.1, dict(direction="bidirectional")),
}


def node_case(name):
    """Operator, operands in ONNX's order, attributes. Inputs count 1, 2, 3 … in the order in which they lie."""
    kind, shape, hidden, value, more = NODE_CASES[name]
    x = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
    directions, gates = 1 + (more.get("direction") == "bidirectional"), GATES[kind]
    rng = np.random.default_rng(0)

    def weights(*shape):
        return rng.standard_normal(shape).astype(np.float32) if value is None else np.full(shape, value, np.float32)

    operands = [x, weights(directions, gates * hidden, shape[2]), weights(directions, gates * hidden, hidden)]
    if value is None:
        operands.append(weights(directions, 2 * gates * hidden))
    elif "bias" in more:
        first = np.full((directions, gates * hidden), more["bias"], np.float32)
        operands.append(np.concatenate((first, np.zeros_like(first)), 1))
    if "peepholes" in more:
        batch = shape[1]
        zeros = np.zeros((directions, batch, hidden), np.float32)
        operands += [np.full(batch, shape[0], np.int32), zeros, zeros, np.full((directions, 3 * hidden), more["peepholes"], np.float32)]
    return kind, operands, {name: more[name] for name in ("layout", "direction") if name in more}


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
