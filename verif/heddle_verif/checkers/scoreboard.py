"""Compares what a design did with what a golden model says."""

from collections import defaultdict, deque

__all__ = ["Scoreboard"]


class Scoreboard:
    """Expected and observed items, in order, or in order for each tag.

    Parameters
    ----------
    name : str
        Appears in messages.
    key : callable or None
        The tag of an item; items of different tags may come in any order. All items share one order when None.
    describe : callable or None
        Text of an item for messages; ``repr`` when None.

    Either side may come first unless ``strict`` is true: then an item observed before it was expected is surplus.
    """

    def __init__(self, name, *, key=None, describe=None, strict=False):
        self.name = name
        self.compared = 0
        self._key = key or (lambda item: None)
        self._describe = describe or repr
        self._strict = strict
        self._expected = defaultdict(deque)
        self._observed = defaultdict(deque)

    def expect(self, *items):
        """Add expected items."""
        for item in items:
            self._expected[self._key(item)].append(item)
            self._compare(self._key(item))

    def observe(self, *items):
        """Add items that the design produced; raises ``AssertionError`` at the first difference."""
        for item in items:
            tag = self._key(item)
            assert self._expected[tag] or not self._strict, f"{self.name}: surplus item {self._describe(item)}{self._where(tag)}"
            self._observed[tag].append(item)
            self._compare(tag)

    def _where(self, tag):
        return "" if tag is None else f" with tag {tag}"

    def _compare(self, tag):
        if self._expected[tag] and self._observed[tag]:
            expected, observed = self._expected[tag].popleft(), self._observed[tag].popleft()
            assert expected == observed, (f"{self.name}: item {self.compared}{self._where(tag)} must be {self._describe(expected)}, "
                                          f"not {self._describe(observed)}")
            self.compared += 1

    @property
    def outstanding(self):
        """Items expected and not yet observed."""
        return sum(map(len, self._expected.values()))

    def finish(self, min_items=1):
        """Raises ``AssertionError`` for missing or surplus items and for fewer than ``min_items`` comparisons."""
        for problem, side in (("missing", self._expected), ("surplus", self._observed)):
            for tag, items in side.items():
                assert not items, f"{self.name}: {len(items)} items {problem}{self._where(tag)}, first {self._describe(items[0])}"
        assert self.compared >= min_items, f"{self.name}: at least {min_items} items must be compared, not {self.compared}"
