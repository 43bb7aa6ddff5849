"""Placement of the nodes of a network: device or host, and why, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from heddle.config import Config

from .candidates import candidates
from .chains import Chain, chains
from .errors import MISFITS, Refusal
from .graph import Graph, Node, Tensor
from .operations import DeviceOperation
from .rehearsal import Rehearsal
from .source import Source

__all__ = ["PlacedNode", "placed_nodes"]


@dataclass(frozen=True, eq=False)
class PlacedNode:
    """A node and where it runs.

    Attributes
    ----------
    node : Node
    where : str
        "device" or "host".
    why : str
        A sentence: the method of ``Device``, or the rule that the node breaks.
    operation : DeviceOperation or None
        None on the host.
    macs : int
        Multiply-accumulates on the device.
    chain : Chain or None
        Of nodes that run together, of which it is one; ``operation`` is what it is alone.
    """

    node: Node
    where: str
    why: str
    operation: DeviceOperation | None = None
    macs: int = 0
    chain: Chain | None = None


def placed_nodes(cfg: Config, source: Source, memory_bytes: int) -> list[PlacedNode]:
    """``PlacedNode`` of each node of a network, in their order, for a device of ``cfg`` with ``memory_bytes`` of global memory."""
    with Rehearsal(cfg, memory_bytes) as rehearsal:
        placement = [_placed(rehearsal, source, node) for node in source.graph.nodes]
        in_chains = {name: chain for chain in chains(rehearsal, source.graph, placement) for name in chain.nodes}
    return [_chained(placed, in_chains[placed.node.name]) if placed.node.name in in_chains else placed for placed in placement]


def _chained(placed: PlacedNode, chain: Chain) -> PlacedNode:
    why = f"Runs as Device.{chain.operation.method} with the nodes from {chain.first} to {chain.last}."
    return replace(placed, why=why, chain=chain)


def _placed(rehearsal: Rehearsal, source: Source, node: Node) -> PlacedNode:
    """The node where it is placed alone."""
    why = ""
    try:
        for operation in candidates(source.lowered(node)):
            activations = [_activation(source.graph, node, index) for index in operation.operands]
            try:
                stats = rehearsal.check(operation, activations, len(node.outputs))
            except Refusal as error:
                why = f"{error}."
            else:
                return PlacedNode(node, "device", f"Runs as Device.{operation.method}.", operation, stats.macs)
    except Refusal as error:
        why = f"{error}."
    except MISFITS as error:
        why = f"attributes and operands of {node.op} must fit each other: {error}."
    return PlacedNode(node, "host", why)


def _activation(graph: Graph, node: Node, index: int) -> Tensor:
    return graph.operand(node, index, f"operand {index}")
