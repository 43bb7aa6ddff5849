"""Rules of the Trace Event Format (its JSON object form) as far as traces of devices use it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

__all__ = ["trace_faults"]

_NUMBERS = (int, float)
_METADATA = ("process_name", "thread_name")


def trace_faults(trace: dict[str, Any]) -> list[str]:
    """What is wrong with a trace, a sentence each; an empty list where it is well formed.

    Each event has the fields of its phase; slices of a track lie within each other or apart; each track of a slice has a name.
    """
    if not isinstance(trace.get("traceEvents"), list):
        return ["traceEvents must be a list"]
    faults, slices, named = [], defaultdict(list), set()
    for event in trace["traceEvents"]:
        phase = event.get("ph")
        if not isinstance(event.get("name"), str) or not all(isinstance(event.get(field), int) for field in ("pid", "tid")):
            faults.append(f"an event must have name, pid and tid: {event}")
        elif phase == "M":
            if event["name"] not in _METADATA or not isinstance(event.get("args", {}).get("name"), str):
                faults.append(f"metadata must name a process or thread: {event}")
            named.add((event["name"], event["pid"], event["tid"]))
        elif phase not in ("X", "i", "C"):
            faults.append(f"phase must be one of M, X, i, C, not {phase}")
        elif not isinstance(event.get("ts"), _NUMBERS) or event["ts"] < 0:
            faults.append(f"ts must be a number from 0: {event}")
        elif phase == "X":
            if not isinstance(event.get("dur"), _NUMBERS) or event["dur"] <= 0:
                faults.append(f"dur must be a number above 0: {event}")
            else:
                slices[event["pid"], event["tid"]].append((event["ts"], -event["dur"], event["name"]))
        elif phase == "C" and not all(isinstance(value, _NUMBERS) for value in event.get("args", {"": ""}).values()):
            faults.append(f"counters must be numbers: {event}")
        elif phase == "i" and event.get("s") not in ("g", "p", "t"):
            faults.append(f"scope of an instant must be g, p or t: {event}")
    for (process, track), found in slices.items():
        if ("thread_name", process, track) not in named:
            faults.append(f"track {process}.{track} must have a name")
        faults += _overlaps(sorted(found), f"{process}.{track}")
    return faults


def _overlaps(found: list[tuple[float, float, str]], track: str) -> list[str]:
    """Slices, sorted by begin and then the longest first, that end behind one that they begin in."""
    faults, ends = [], []
    for begin, negative, name in found:
        end = begin - negative
        while ends and ends[-1] <= begin:
            ends.pop()
        if ends and end > ends[-1]:
            faults.append(f"slice {name} of track {track} must end within the slice in which it begins")
        ends.append(end)
    return faults
