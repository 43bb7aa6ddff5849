"""Recipes: the sweeps and tail operations of LSTM, GRU, plain recurrent and dense layers (docs/units/rnn.md, Recipes) [S3.2, S3.5]."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from heddle.errors import UsageError
from heddle.rnn.layouts import ACTIVATION_FRACTION, SUM_FRACTION, Cell, Function, Pre

from .quantise import BOUNDED, HEADROOM, QuantisedLayer
from .step import Job, Operation, Rows, Step, Sweep, Vector

__all__ = ["add_layer"]

try:
    from heddle.rnn.tail import GATED_DISTANCE
except ImportError:
    GATED_DISTANCE = 8

_TO_CELL = ACTIVATION_FRACTION - SUM_FRACTION       # shift of an activation to the fraction of a cell state


def add_layer(step: Step, name: str, layer: QuantisedLayer, inputs: Sequence[str], order: Sequence[str] | None = None) -> str:
    """Add a layer to a step; its result is vector ``<name>.h``, the cell state of an LSTM ``<name>.c``.

    Parameters
    ----------
    step : Step
    name : str
    layer : QuantisedLayer
    inputs : sequence of str
        Vectors of the step that are inputs "x0", "x1" … of the layer, of the same fractions.
    order : sequence of str, optional
        In which the inputs and "h" are multiplied. Default: inputs, then "h". With "h" first an input that another layer makes in the same
        step is waited for while the hidden vector is multiplied.

    Returns the name of the result.
    """
    _Recipe(step, name, layer, tuple(inputs), order).add()
    return f"{name}.h"


class _Recipe:
    def __init__(self, step: Step, name: str, layer: QuantisedLayer, inputs: Sequence[str], order: Sequence[str] | None) -> None:
        self.step, self.name, self.layer = step, name, layer
        self.result = layer.fractions["h"]
        if len(inputs) != len(layer.widths):
            raise UsageError(f"inputs of {name} must be {len(layer.widths)}, not {len(inputs)}")
        local = [f"x{number}" for number in range(len(inputs))]
        self.vectors = dict(zip(local, inputs)) | {"h": f"{name}.h", "rh": f"{name}.rh"}
        for vector, width in zip(local, layer.widths):
            self._check(vector, width)
        hidden = [] if layer.kind == "dense" else ["h"]
        self.order = list(order or [*local, *hidden])
        if sorted(self.order) != sorted(local + hidden):
            raise UsageError(f"order of {name} must name {', '.join(local + hidden)} once each, not {', '.join(self.order)}")

    def _check(self, vector: str, width: int) -> None:
        found = self.step.vectors.get(self.vectors[vector])
        if found is None:
            raise UsageError(f"inputs of {self.name} must be vectors of the step, not {self.vectors[vector]!r}")
        if (found.size, found.fraction) != (width, self.layer.fractions[vector]):
            raise UsageError(f"{self.vectors[vector]} must have {width} elements of {self.layer.fractions[vector]} fraction bits "
                             f"for {self.name}, not {found.size} of {found.fraction}")

    def add(self) -> None:
        layer, recurrent = self.layer, self.layer.kind != "dense"
        self.step.add_vector(self.vectors["h"], Vector(layer.size, "state" if recurrent else "work", self.result, layer.limits["h"]))
        if layer.kind == "lstm":
            self.step.add_vector(f"{self.name}.c", Vector(layer.size, "state", layer.cell_fraction))
            self._peephole_lstm() if layer.peepholes is not None else self._lstm()
        elif layer.kind == "gru":
            self._linear_gru() if layer.linear_before_reset else self._gru()
        else:
            job = self._job(self._operation("i", "i", shift_activation=self._result_shift("i"), destination=self.vectors["h"]))
            self._rows("i", "i")
            for vector in self.order:
                self._sweep(vector, ("i",), job if vector == self.order[-1] else None)

    # -- parts ------------------------------------------------------------------------------

    def _rows(self, rows: str, gates: str) -> None:
        """A set of rows of interleaved gates."""
        bias = np.stack([self.layer.gates[gate].bias for gate in gates])
        self.step.rows[f"{self.name}.{rows}"] = Rows(len(gates), self.layer.size, bias, self.name)

    def _sweep(self, vector: str, sets: Sequence[str], job: Job | None = None) -> None:
        """Multiply a vector with sets of rows, named after their gates; a set begins with its first sweep, those that begin apart from
        the others."""
        used = {name for sweep in self.step.sweeps for name in sweep.rows}
        parts = [list(part) for _, part in itertools.groupby(sets, lambda rows: f"{self.name}.{rows}" in used)]
        for part in parts:
            names = tuple(f"{self.name}.{rows}" for rows in part)
            weights = tuple(np.stack([self.layer.gates[gate].weights[vector] for gate in rows]) for rows in part)
            self.step.sweeps.append(Sweep(names, self.vectors[vector], weights, names[0] not in used, job if part is parts[-1] else None))

    def _job(self, *operations: Operation) -> Job:
        return Job(tuple(operations), self.layer.size)

    def _operation(self, rows: str, gate: str, **fields: Any) -> Operation:
        """An operation on the sums of a gate in a set of rows."""
        quantised = self.layer.gates[gate]
        return Operation(f"{self.name}.{rows}", rows.index(gate), quantised.shift, quantised.multiplier, self._function(gate), **fields)

    def _function(self, gate: str) -> Function:
        kind, functions = self.layer.kind, self.layer.functions
        return functions[{"lstm": "c", "gru": "nk"}.get(kind, "").find(gate) >= 0]

    def _result_shift(self, gate: str) -> int:
        """Of an activation to the fraction of the result."""
        return ACTIVATION_FRACTION - self.result if self._function(gate) in BOUNDED else HEADROOM

    # -- recipes ----------------------------------------------------------------------------

    def _output(self, rows: str, **fields: Any) -> Operation:
        """The operation of gate o: h = o x second(c)."""
        second = self.layer.functions[2]
        shift = (ACTIVATION_FRACTION if second in BOUNDED else SUM_FRACTION) - self.result
        return self._operation(rows, "o", cell=Cell.OUTPUT, second=second, shift_second=shift, destination=self.vectors["h"], **fields)

    def _cell(self, rows: str, i_fields: dict[str, Any], f_fields: dict[str, Any]) -> tuple[Operation, Operation, Operation]:
        """The operations of gates i, c and f: the new cell state."""
        shift = _TO_CELL if self._function("c") in BOUNDED else 0
        return (self._operation(rows, "i", keep_activation=True, **i_fields),
                self._operation(rows, "c", shift_activation=shift, cell=Cell.PRODUCT),
                self._operation(rows, "f", cell=Cell.STATE, destination=f"{self.name}.c", wide_result=True, **f_fields))

    def _lstm(self) -> None:
        self._rows("icfo", "icfo")
        cell = self._cell("icfo", {}, dict(operand=f"{self.name}.c", load_state=True, wide_state=True))
        job = self._job(*cell, self._output("icfo"))
        for vector in self.order:
            self._sweep(vector, ("icfo",), job if vector == self.order[-1] else None)

    def _peephole_lstm(self) -> None:
        for gate, values in zip("iof", self.layer.peepholes):
            self.step.add_vector(f"{self.name}.p{gate}", Vector(self.layer.size, "constant", values=values))

        def fields(gate: str) -> dict[str, Any]:
            return dict(pre=Pre.PEEPHOLE, operand=f"{self.name}.p{gate}")

        self._rows("icf", "icf")
        self._rows("o", "o")
        state = Operation(operand=f"{self.name}.c", load_state=True, wide_state=True)
        cell = self._job(state, *self._cell("icf", fields("i"), fields("f")))
        output = self._job(state, self._output("o", **fields("o")))
        for vector in self.order[:-1]:
            if vector == self.order[0] or vector != "h":
                self._sweep(vector, ("icf", "o"))
            else:
                self._sweep(vector, ("icf",))
                self._sweep(vector, ("o",))
        self._sweep(self.order[-1], ("icf",), cell)
        self._sweep(self.order[-1], ("o",), output)

    def _blend(self, rows: str, **fields: Any) -> Operation:
        """The operation of gate n: h = n + z (h - n)."""
        return self._operation(rows, "n", shift_activation=self._result_shift("n"), cell=Cell.BLEND, operand=self.vectors["h"],
                               load_state=True, destination=self.vectors["h"], **fields)

    def _gru(self) -> None:
        size, state = self.layer.size, self.vectors["h"]
        self.step.add_vector(self.vectors["rh"], Vector(size, "work", self.result, self.layer.limits["h"]))
        for gate in "rzn":
            self._rows(gate, gate)
        reset = self._job(self._operation("r", "r", cell=Cell.GATE, operand=state, load_state=True, destination=self.vectors["rh"]))
        blend = self._job(self._operation("z", "z", keep_activation=True), self._blend("n"))
        for vector in self.order[:-1]:
            self._sweep(vector, ("r", "z") if vector == "h" else ("r", "z", "n"))
        last = self.order[-1]
        self._sweep(last, ("r",), reset)
        self._sweep(last, ("z",) if last == "h" else ("z", "n"))
        self._sweep("rh", ("n",), blend)

    def _linear_gru(self) -> None:
        for rows in ("n", "zr", "k"):
            self._rows(rows, rows)
        # The operations that are kept for n lie far enough before it.
        operations = [self._operation("zr", "r", keep_gate=True), self._operation("k", "k", pre=Pre.KEEP),
                      self._operation("zr", "z", keep_activation=True)]
        operations += [Operation()] * max(0, GATED_DISTANCE - 2)
        job = self._job(*operations, self._blend("n", pre=Pre.GATED))
        for vector in self.order:
            end = job if vector == self.order[-1] else None
            if end is None:
                self._sweep(vector, ("zr", "k") if vector == "h" else ("n", "zr"))
            elif vector == "h":
                self._sweep(vector, ("zr",))
                self._sweep(vector, ("k",), end)
            else:
                self._sweep(vector, ("n",))
                self._sweep(vector, ("zr",), end)
