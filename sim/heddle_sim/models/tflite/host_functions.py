"""TFLite's functions of elements and reductions, on the host: in real numbers, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .host_call import HostCall
from .options import activation_of

__all__ = ["FUNCTIONS", "activated"]

Handler = Callable[[HostCall], list[np.ndarray]]
_GREATEST = {"RELU": (0.0, np.inf), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}


def activated(call: HostCall, values: np.ndarray) -> np.ndarray:
    """Real values behind the activation function of an operator."""
    name = activation_of(call.node.attributes)
    if name == "TANH":
        return np.tanh(values)
    return np.clip(values, *_GREATEST[name]) if name in _GREATEST else values


def _softmax(call: HostCall) -> list[np.ndarray]:
    values = call.real(0) * call.get("beta", 1.0)
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return [call.quantise(powers / powers.sum(axis=-1, keepdims=True))]


def _log_softmax(call: HostCall) -> list[np.ndarray]:
    values = call.real(0) - call.real(0).max(axis=-1, keepdims=True)
    return [call.quantise(values - np.log(np.exp(values).sum(axis=-1, keepdims=True)))]


def _logistic(values: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * values))


def _of_one(function: Callable[[np.ndarray], np.ndarray]) -> Handler:
    return lambda call: [call.quantise(function(call.real(0)))]


def _of_two(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Handler:
    return lambda call: [call.quantise(activated(call, function(call.real(0), call.real(1))))]


def _leaky(call: HostCall) -> list[np.ndarray]:
    x = call.real(0)
    return [call.quantise(np.where(x < 0, x * call.get("alpha", 0.0), x))]


def _prelu(call: HostCall) -> list[np.ndarray]:
    x = call.real(0)
    return [call.quantise(np.where(x < 0, x * call.real(1), x))]


def _reduction(function: Callable[..., np.ndarray]) -> Handler:
    return lambda call: [call.quantise(function(call.real(0), axis=call.integers(1))).reshape(call.result().shape)]


def _add_n(call: HostCall) -> list[np.ndarray]:
    return [call.quantise(sum((call.real(index) for index in range(1, len(call))), call.real(0)))]


def _compared(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Handler:
    return lambda call: [function(call.real(0), call.real(1))]


def _select(call: HostCall) -> list[np.ndarray]:
    chosen, a = call.raw(0), call.raw(1)
    if call.node.op == "SELECT" and chosen.ndim < a.ndim:       # one for each row
        chosen = chosen.reshape(-1, *[1] * (a.ndim - 1))
    return [np.where(chosen, a, call.raw(2))]


def _gelu(call: HostCall) -> list[np.ndarray]:
    x = call.real(0)
    inner = (np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)) if call.get("approximate") else
             np.vectorize(math.erf, otypes=[np.float64])(x / np.sqrt(2)))
    return [call.quantise(0.5 * x * (1 + inner))]


def _normalised(call: HostCall) -> list[np.ndarray]:
    x = call.real(0)
    return [call.quantise(activated(call, x / np.sqrt(np.maximum((x ** 2).sum(axis=-1, keepdims=True), 1e-6))))]


def _running_sum(call: HostCall) -> list[np.ndarray]:
    x, axis = call.raw(0), call.integers(1)[0]
    x = np.flip(x, axis) if call.get("reverse") else x
    sums = np.cumsum(x, axis=axis, dtype=x.dtype)
    sums = sums - x if call.get("exclusive") else sums
    return [np.flip(sums, axis) if call.get("reverse") else sums]


def _cast(call: HostCall) -> list[np.ndarray]:
    return [call.raw(0).astype(call.result().dtype)]


FUNCTIONS: dict[str, Handler] = {
    "SOFTMAX": _softmax, "LOG_SOFTMAX": _log_softmax, "LOGISTIC": _of_one(_logistic), "TANH": _of_one(np.tanh),
    "QUANTIZE": _of_one(lambda x: x), "DEQUANTIZE": _of_one(lambda x: x), "CAST": _cast,
    "RELU": _of_one(lambda x: np.maximum(x, 0)), "RELU6": _of_one(lambda x: np.clip(x, 0, 6)),
    "RELU_N1_TO_1": _of_one(lambda x: np.clip(x, -1, 1)), "HARD_SWISH": _of_one(lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "LEAKY_RELU": _leaky, "PRELU": _prelu, "ELU": _of_one(lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x)),
    "EXP": _of_one(np.exp), "LOG": _of_one(np.log), "SQRT": _of_one(np.sqrt), "RSQRT": _of_one(lambda x: 1 / np.sqrt(x)),
    "NEG": _of_one(np.negative), "ABS": _of_one(np.abs), "SQUARE": _of_one(np.square), "SIN": _of_one(np.sin), "COS": _of_one(np.cos),
    "FLOOR": _of_one(np.floor), "CEIL": _of_one(np.ceil), "ADD": _of_two(np.add), "SUB": _of_two(np.subtract),
    "MUL": _of_two(np.multiply), "DIV": _of_two(np.divide), "MAXIMUM": _of_two(np.maximum), "MINIMUM": _of_two(np.minimum),
    "POW": _of_two(np.power), "SQUARED_DIFFERENCE": _of_two(lambda a, b: (a - b) ** 2), "ADD_N": _add_n,
    "MEAN": _reduction(np.mean), "SUM": _reduction(np.sum), "REDUCE_MAX": _reduction(np.max), "REDUCE_MIN": _reduction(np.min),
    "REDUCE_PROD": _reduction(np.prod), "REDUCE_ANY": _reduction(np.any), "REDUCE_ALL": _reduction(np.all),
    "EQUAL": _compared(np.equal), "NOT_EQUAL": _compared(np.not_equal), "LESS": _compared(np.less),
    "LESS_EQUAL": _compared(np.less_equal), "GREATER": _compared(np.greater), "GREATER_EQUAL": _compared(np.greater_equal),
    "LOGICAL_AND": _compared(np.logical_and), "LOGICAL_OR": _compared(np.logical_or),
    "LOGICAL_NOT": lambda call: [np.logical_not(call.raw(0))], "SELECT": _select, "SELECT_V2": _select,
    "FLOOR_DIV": lambda call: [np.floor_divide(call.raw(0), call.raw(1))], "FLOOR_MOD": lambda call: [np.mod(call.raw(0), call.raw(1))],
    "SIGN": _of_one(np.sign), "GELU": _gelu, "RELU_0_TO_1": _of_one(lambda x: np.clip(x, 0, 1)),
    "L2_NORMALIZATION": _normalised, "CUMSUM": _running_sum}
