"""Coverage of streams: how their items come and are held back; levels of queues; what stalls the front end."""

import re

from .model import Exclusion, Group

__all__ = ["QUEUE", "TRANSFER", "StreamSampler", "sample_level"]

EVENTS = ("back to back", "held back", "after idle, ready before", "after idle, ready with it")
PORT = ("read_request", "read_data", "write_request", "write_data", "write_response")
# Streams of the units whose benches watch them, without the numbers of ports that are alike.
STREAMS = {
    "RegisterSlice": ("i", "o"),
    "Queue": ("i", "o"),
    "RoundRobinArbiter": ("i", "o"),
    "FrontEnd": ("i_program", "o_thread", "o_matrix", "o_copy", "o_tensor", "o_error"),
    "MatrixUnit": ("i_operation",),
    "ThreadUnit": ("i_operation", "bank_read.request", "bank_write.request", *(f"global_port.{name}" for name in PORT)),
    "Tmau": ("i_operation", "i_tensor", "o_error", "o_arrival", *(f"global_port.{name}" for name in PORT)),
    "L2": (*(f"i.{name}" for name in PORT), *(f"o.{name}" for name in PORT)),
    "AxiMaster": tuple(f"i.{name}" for name in PORT),
}
NAMES = [f"{unit}.{stream}" for unit, streams in STREAMS.items() for stream in streams]
_ALWAYS_READY = [name for name in NAMES if name.endswith(("i_program", "o_error", "o_arrival"))]

TRANSFER = Group(
    "streams.transfer", "An item that passes on a stream: in the cycle after another, after it was held back, or after idle cycles.",
    {"stream": NAMES, "event": EVENTS},
    crosses=[("stream", "event")],
    exclude=[
        Exclusion("the stream is always ready", stream=_ALWAYS_READY, event=("held back", "after idle, ready with it")),
        Exclusion("an error ends the program", stream="FrontEnd.o_error", event="back to back"),
        Exclusion("a copy takes two cycles in decode", stream="FrontEnd.o_copy", event="back to back"),
        Exclusion("a bank is ready for a beat when it comes, not before", stream="L2.o.read_data", event="after idle, ready before"),
        Exclusion("the unit is ready for an answer when its request is out", stream="ThreadUnit.global_port.read_data",
                  event=("held back", "after idle, ready with it")),
    ])

QUEUE = Group(
    "streams.queue", "A cycle of a queue or register slice in its bench: how full it is, and what passes.",
    {"queue": ("register slice", "queue of 2", "queue of more", "queue in block memory", "queue without a register"),
     "level": ("empty", "partly", "full"), "passes": ("nothing", "in", "out", "in and out")},
    crosses=[("queue", "level", "passes")],
    exclude=[Exclusion("an empty queue offers nothing", level="empty", passes=("out", "in and out")),
             Exclusion("a full queue takes nothing", level="full", passes=("in", "in and out"))])

_PASSES = {(False, False): "nothing", (True, False): "in", (False, True): "out", (True, True): "in and out"}


class StreamSampler:
    """Counts how the items of a stream come: ``step`` in every cycle outside of reset; nothing for streams that are not declared."""

    def __init__(self, unit, stream):
        name = f"{unit}.{re.sub(r'__[0-9]+', '', stream).replace('__', '.')}"
        self._keys = {event: TRANSFER.key(stream=name, event=event) for event in EVENTS} if name in NAMES else None
        self.restart()

    @property
    def counts(self):
        """Whether the stream is declared."""
        return self._keys is not None

    def restart(self):
        """A reset: what was before does not count."""
        self._before = None     # valid and ready of the cycle before

    def step(self, valid, ready):
        """A cycle."""
        if valid and ready and self._before is not None:
            was_valid, was_ready = self._before
            event = "back to back" if was_valid and was_ready else "held back" if was_valid else (
                "after idle, ready before" if was_ready else "after idle, ready with it")
            TRANSFER.samples[self._keys[event]] += 1
        self._before = valid, ready


def sample_level(queue, level, depth, enters, leaves):
    """Count a cycle of a queue with ``level`` items of ``depth``."""
    QUEUE.sample(queue=queue, level="empty" if not level else "full" if level == depth else "partly",
                 passes=_PASSES[bool(enters), bool(leaves)])
