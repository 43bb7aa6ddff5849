"""Cache of plans: a network that runs again meets the same problems, which need no second plan."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from heddle.config import Config

__all__ = ["PlanCache", "cached_plan", "caching_plans"]

Made = TypeVar("Made")
PlanCache = dict[tuple[str, Config, bytes], Any]
_MOST_BYTES = 1 << 16           # of a problem: those with operands are not met again
_CACHE: ContextVar[PlanCache | None] = ContextVar("plan cache", default=None)


@contextmanager
def caching_plans(cache: PlanCache) -> Iterator[None]:
    """Plans that are made within the context are put into ``cache``; problems that are met again get theirs from there."""
    token = _CACHE.set(cache)
    try:
        yield
    finally:
        _CACHE.reset(token)


def cached_plan(what: str, cfg: Config, problem: Any, make: Callable[[], Made]) -> Made:
    """``make()``; within ``caching_plans`` once for each ``what``, configuration and problem."""
    cache = _CACHE.get()
    if cache is None:
        return make()
    key = what, cfg, pickle.dumps(problem)
    if len(key[2]) > _MOST_BYTES:
        return make()
    if key not in cache:
        cache[key] = make()
    return cache[key]
