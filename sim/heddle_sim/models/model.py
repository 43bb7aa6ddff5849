"""A network on a device: nodes one after the other, those that it refuses on the host."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import NamedTuple, Self

import numpy as np
from heddle.config import Config
from heddle.errors import UsageError, UsageTypeError

from ..arguments import check_mask
from ..device import Device, Stats
from ..device.device_array import DeviceArray, PlacedConstants, placing_constants
from ..device.recording import record_layer
from ..kernels.plan_cache import PlanCache, caching_plans
from .errors import MISFITS, ModelError, Refusal
from .graph import Graph, Tensor
from .operations import DeviceOperation
from .placement import PlacedNode, placed_nodes
from .source import Source

__all__ = ["LoadedModel", "Model", "ModelResult", "NodeResult"]


@dataclass(frozen=True, eq=False)
class NodeResult:
    """A node that has run.

    Attributes
    ----------
    placed : PlacedNode
    arrays : list of numpy.ndarray or None
        Operands.
    results : list of numpy.ndarray
        Empty within a chain, but for its last node.
    stats : Stats or None
        Of its runs on the device; None on the host. Those of a chain are those of its first node.
    seconds : float
        Wall time.
    """

    placed: PlacedNode
    arrays: list[np.ndarray | None]
    results: list[np.ndarray]
    stats: Stats | None
    seconds: float


class ModelResult(NamedTuple):
    """Of a run of a network: ``outputs`` by name, ``stats`` added up over all runs of the device, and a ``NodeResult`` for each node."""

    outputs: dict[str, np.ndarray]
    stats: Stats
    nodes: list[NodeResult]

    @property
    def host_seconds(self) -> float:
        """Wall time of the nodes on the host."""
        return sum(node.seconds for node in self.nodes if node.stats is None)


class Model:
    """A network from a file, placed on a configuration; a context manager.

    The device is made when the first node runs on it. State of the network (resource variables) is kept between runs until ``reset``.

    Parameters
    ----------
    source : Source
        Graph and operators.
    cfg : Config
        Of the device.
    opened : function
        Gives the device; called when the first node runs on it.
    memory_bytes : int
        Of global memory of that device.
    owned : bool
        ``close`` closes the device.

    Attributes
    ----------
    source : Source
    cfg : Config
    placement : list of PlacedNode
        Where each node runs, and why.
    """

    def __init__(self, source: Source, cfg: Config, opened: Callable[[], Device], memory_bytes: int, owned: bool = True) -> None:
        self.source, self.cfg = source, cfg
        self._opened, self._owned = opened, owned
        self._device: Device | None = None
        self._plans: PlanCache = {}
        with caching_plans(self._plans):
            self.placement: list[PlacedNode] = placed_nodes(self.cfg, source, memory_bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the device, unless it was given."""
        if self._owned and self._device is not None:
            self._device.close()
        self._device = None

    @property
    def graph(self) -> Graph:
        """Tensors and nodes."""
        return self.source.graph

    @property
    def device(self) -> Device:
        """What runs the network; made when it is first asked for."""
        if self._device is None:
            self._device = self._opened()
        return self._device

    def reset(self) -> None:
        """State of the network as before the first run."""
        self.source.reset()

    def inputs(self) -> dict[str, Tensor]:
        """Tensors that ``run`` needs, by name."""
        return {name: self.graph.tensors[name] for name in self.graph.inputs}

    def run(self, inputs: Mapping[str, np.ndarray] | np.ndarray) -> ModelResult:
        """Run the network once.

        Parameters
        ----------
        inputs : dict of str to array, or an array where the network has one input
            Of the types and shapes of ``Model.inputs()``.

        Returns ``ModelResult``. Raises ``ValueError`` or ``TypeError``, which names the input, for what does not fit.
        """
        return self._run(self.checked(inputs), False)

    def _run(self, values: dict[str, np.ndarray], keep: bool) -> ModelResult:
        """``run`` with checked inputs; ``keep``: results stay on the device where they can."""
        nodes = list(self.steps(values, keep))
        stats = [node.stats for node in nodes if node.stats is not None]
        total = reduce(add, stats, Stats(0, 0, 0)) if stats else Stats(None, 0, self.cfg.peak_macs_per_cycle)
        return ModelResult({name: np.asarray(values[name]) for name in self.graph.outputs}, total, nodes)

    def checked(self, inputs: Mapping[str, np.ndarray] | np.ndarray) -> dict[str, np.ndarray]:
        """Inputs by name, checked. Raises as ``run``."""
        wanted = self.inputs()
        if not isinstance(inputs, Mapping):
            if len(wanted) != 1:
                raise UsageError(f"inputs must be a dictionary of {', '.join(wanted)}, not {type(inputs).__name__}")
            inputs = {next(iter(wanted)): inputs}
        if set(inputs) != set(wanted):
            raise UsageError(f"inputs must be {', '.join(wanted) or 'none'}, not {', '.join(map(str, inputs)) or 'none'}")
        values = {}
        for name, tensor in wanted.items():
            array = inputs[name]
            check_mask(f"input {name}", array)
            if isinstance(array, np.generic):       # numpy's scalar is an array without dimensions
                array = np.asarray(array)
            if not isinstance(array, np.ndarray) or array.dtype != tensor.dtype:
                found = getattr(array, "dtype", type(array).__name__)
                raise UsageTypeError(f"input {name} must be an array of {tensor.dtype}, not {found}")
            if array.shape != tensor.shape:
                raise UsageError(f"input {name} must have shape {tensor.shape}, not {array.shape}")
            values[name] = np.asarray(array, order="C")
        return values

    def steps(self, values: dict[str, np.ndarray], keep: bool = False) -> Iterator[NodeResult]:
        """Run one node after the other from checked inputs; ``values`` gets all that they compute. ``keep``: results stay on the device
        where they can."""
        values.update((name, tensor.data) for name, tensor in self.graph.tensors.items() if tensor.data is not None)
        in_chain: list[np.ndarray] = []         # results of the last node of a chain
        for placed in self.placement:
            arrays = [None if name is None else values.get(name) for name in placed.node.inputs]
            chain, name = placed.chain, placed.node.name
            if chain is not None and name != chain.first:
                results = in_chain if name == chain.last else []
                values.update(zip(placed.node.outputs, results))
                yield NodeResult(placed, arrays, results, self._no_cycles(), 0.0)
                continue
            with record_layer(name if chain is None else chain.name, placed.node.op, placed.where) as layer:
                if chain is None:
                    result = self.run_node(placed, arrays, keep)
                else:
                    in_chain, stats, seconds = self._on_device(chain.operation, arrays, False)
                    result = NodeResult(placed, arrays, [], stats, seconds)
            if layer is not None:
                layer.seconds = result.seconds if result.stats is None else 0.0
                layer.macs = None if result.stats is None else result.stats.macs
            values.update(zip(placed.node.outputs, result.results))
            yield result

    def run_node(self, placed: PlacedNode, arrays: Sequence[np.ndarray | None], keep: bool = False) -> NodeResult:
        """Run a node alone with operands; None for those that are left out. ``keep``: results stay on the device where they can."""
        if placed.operation is None:
            begin = time.perf_counter()
            results = self._on_host(placed, [None if array is None else np.asarray(array) for array in arrays])
            return NodeResult(placed, list(arrays), results, None, time.perf_counter() - begin)
        results, stats, seconds = self._on_device(placed.operation, arrays, keep)
        return NodeResult(placed, list(arrays), results, stats, seconds)

    def _no_cycles(self) -> Stats:
        """Figures of a node that runs with another one."""
        return Stats(None if self.device.simulator == "golden" else 0, 0, self.cfg.peak_macs_per_cycle)

    def _on_device(self, operation: DeviceOperation, arrays: Sequence[np.ndarray | None],
                   keep: bool) -> tuple[list[np.ndarray], Stats, float]:
        """Results of an operation with the operands of its node, figures, and wall time."""
        device = self.device
        begin = time.perf_counter()
        activations = [array for index in operation.operands if (array := arrays[index]) is not None]
        with caching_plans(self._plans):
            results, stats = operation.run(device, activations, keep)
        return results, stats, time.perf_counter() - begin

    def load_on(self, device: Device) -> LoadedModel:
        """See ``Device.load``."""
        if self.device is not device:
            raise UsageError("network must be one of load_model(path, device) for this device, not for another one")
        return LoadedModel(self)

    def _on_host(self, placed: PlacedNode, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        """Results of a node on the host, of the shapes that the graph says."""
        node = placed.node
        try:
            results = self.source.host(node, arrays)
        except ModelError:
            raise
        except (*MISFITS, Refusal) as error:
            raise ModelError(f"operands of {node.op} {node.name} must fit each other: {error}") from None
        if len(results) != len(node.outputs):
            raise ModelError(f"{node.op} {node.name} must have as many results as the operator gives ({len(results)}), not "
                             f"{len(node.outputs)}")
        for name, array in zip(node.outputs, results):
            tensor = self.graph.tensors[name]
            if array.shape != tensor.shape:
                raise ModelError(f"tensor {name} must have the shape {array.shape} that {node.op} gives, not {tensor.shape}")
        return results


class LoadedModel:
    """A network whose weights stay in global memory between calls, and activations between the layers that can read them there; a context
    manager, made by ``Device.load``.

    Attributes
    ----------
    model : Model
    weight_bytes : int
        What the first call has placed: weights, biases, and tables of the kernels.
    stayed : list of str
        Tensors of the last call that the host has not read.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._constants: PlacedConstants | None = PlacedConstants(model.device.memory)
        self.stayed: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the weights; safe to call twice."""
        if self._constants is not None:
            self._constants.close()
            self._constants = None

    @property
    def weight_bytes(self) -> int:
        """See above."""
        return 0 if self._constants is None else self._constants.nbytes

    @property
    def weight_cycles(self) -> int:
        """Least cycles in which the bus of a core takes the weights."""
        return -(-self.weight_bytes // self.model.cfg.axi_bytes)

    def __call__(self, inputs: Mapping[str, np.ndarray] | np.ndarray) -> ModelResult:
        """``Model.run``. Operands and results of its nodes may be ``DeviceArray``s; outputs of the network are arrays."""
        if self._constants is None:
            raise UsageError("network must be loaded, not closed")
        values = self.model.checked(inputs)
        with placing_constants(self._constants):
            result = self.model._run(values, True)
        self.stayed = [name for name, array in values.items() if isinstance(array, DeviceArray) and not array.fetched]
        self.stayed += [name for placed in self.model.placement if placed.chain is not None and placed.node.name != placed.chain.last
                        for name in placed.node.outputs]
        return result
