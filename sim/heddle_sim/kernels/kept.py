"""Plans that are kept: a network that runs again meets the same problems, which need no second plan."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from heddle.config import Config

__all__ = ["Kept", "kept_plans", "remembered"]

Made = TypeVar("Made")
Kept = dict[tuple[str, Config, bytes], Any]
_MOST_BYTES = 1 << 16           # of a problem: those with operands are not met again
_KEPT: ContextVar[Kept | None] = ContextVar("kept plans", default=None)


@contextmanager
def kept_plans(kept: Kept) -> Iterator[None]:
    """Plans that are made within the context are put into ``kept``; problems that are met again get theirs from there."""
    token = _KEPT.set(kept)
    try:
        yield
    finally:
        _KEPT.reset(token)


def remembered(what: str, cfg: Config, problem: Any, make: Callable[[], Made]) -> Made:
    """``make()``; within ``kept_plans`` once for each ``what``, configuration and problem."""
    kept = _KEPT.get()
    if kept is None:
        return make()
    key = what, cfg, pickle.dumps(problem)
    if len(key[2]) > _MOST_BYTES:
        return make()
    if key not in kept:
        kept[key] = make()
    return kept[key]
