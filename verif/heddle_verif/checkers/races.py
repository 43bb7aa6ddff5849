"""Which memory accesses of a program may still be under way, so that a generator can keep its programs free of races."""

from dataclasses import dataclass, replace

__all__ = ["Access", "Races"]


@dataclass(frozen=True)
class Access:
    """Bytes ``first`` to ``end`` (exclusive) of memory ``space`` that ``unit`` reads or writes; ``barrier`` of a copy or None.

    ``stores``: of a copy from shared to global memory; ``group``: that of a store, None before the commit."""

    unit: str       # thread, matrix or copy
    space: str      # shared or global
    first: int
    end: int
    writes: bool
    barrier: int | None = None
    stores: bool = False
    group: int | None = None

    def conflicts(self, other):
        """Both touch a byte, one of them writes it, and nothing keeps them in order: the thread unit and the
        matrix unit work in order, copies do not."""
        return ((self.unit != other.unit or self.unit == "copy") and (self.writes or other.writes) and self.space == other.space
                and self.first < other.end and other.first < self.end)


class Races:
    """The accesses since the last instruction that waited for them."""

    def __init__(self):
        self.under_way = set()
        self.groups = 0         # committed so far

    def add(self, *accesses):
        self.under_way.update(accesses)

    def conflicts(self, *accesses):
        """Accesses under way that must be over before these may start."""
        return {old for old in self.under_way for new in accesses if old.conflicts(new)}

    def wait(self, *units):
        """``wait`` for units: all of them without an argument."""
        self.under_way = {access for access in self.under_way if units and access.unit not in units}

    def wait_barrier(self, barrier):
        """``barrier.wait``."""
        self.under_way = {access for access in self.under_way if access.barrier != barrier}

    def commit(self):
        """``commit_group``, on every path of the program."""
        self.under_way = {replace(access, group=self.groups) if access.stores and access.group is None else access
                          for access in self.under_way}
        self.groups += 1

    def wait_group(self, most, read=False):
        """``wait_group``."""
        def passed(access):
            return access.group is not None and access.group < self.groups - most and not (read and access.writes)
        self.under_way = {access for access in self.under_way if not passed(access)}

    def merge(self, other):
        """Two paths of the program meet: what is under way on either of them."""
        self.under_way |= other

    def snapshot(self):
        return set(self.under_way)
