"""What a format of files gives: the graph, its operators on the device and on the host, and the reference."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from .graph import Graph, Node
from .operations import DeviceOperation

__all__ = ["Source"]


class Source(ABC):
    """A network as its file gives it.

    Attributes
    ----------
    graph : Graph
    reference_name : str
        Of the interpreter whose results ``reference`` gives.
    """

    graph: Graph
    reference_name: str

    @abstractmethod
    def lowered(self, node: Node) -> DeviceOperation:
        """What a node is on the device. Raises ``Refusal`` with the rule that it breaks."""

    @abstractmethod
    def host(self, node: Node, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        """Results of a node on the host."""

    @abstractmethod
    def reference(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Values of the tensors of the graph by the format's reference interpreter. Raises ``MissingPackage`` without its package."""

    def reads_state(self, node: Node) -> bool:
        """Whether results of a node depend on more than its operands."""
        return False

    def reset(self) -> None:  # noqa: B027 - most formats keep no state
        """State as before the first run."""
