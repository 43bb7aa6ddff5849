"""Functional coverage: groups of coverpoints with closed bins, crosses of them, and exclusions with a reason."""

import itertools
from collections import Counter
from dataclasses import dataclass, field

from heddle.errors import UsageError
from heddle.isa.encoding import Swizzle

__all__ = ["SWIZZLES", "Exclusion", "Group", "Tally"]

TIMES = " × "
SWIZZLES = tuple("none" if mode is Swizzle.NONE else f"{mode.name[1:]}B" for mode in Swizzle)       # bins, by number


class Exclusion:
    """Combinations that cannot occur, with the reason.

    Parameters
    ----------
    reason : str
        Why the hardware, or its contract, does not reach them.
    where : str or sequence of str
        For each coverpoint that is named, the bins. A combination is excluded when it lies in all of them.
    """

    def __init__(self, reason, **where):
        if not reason or not where:
            raise UsageError(f"an exclusion must have a reason and name a coverpoint, not {reason!r} and {where}")
        self.reason = reason
        self.where = {point: frozenset([bins] if isinstance(bins, str) else bins) for point, bins in where.items()}

    def covers(self, cell):
        """Whether a cell, a dictionary of coverpoint to bin, is excluded."""
        return all(point in cell and cell[point] in bins for point, bins in self.where.items())

    def __str__(self):
        return ", ".join(f"{point.replace('_', ' ')} {' or '.join(sorted(bins))}" for point, bins in self.where.items())


@dataclass
class Tally:
    """What became of the bins of a coverpoint or of the combinations of a cross.

    Attributes
    ----------
    name : str
        The coverpoint, or its coverpoints with ``×`` between them.
    cross : bool
    hit : dict of tuple to int
        How often each was sampled.
    holes : list of tuple
        Neither sampled nor excluded.
    excluded : dict of tuple to str
        The reason of each that is excluded.
    """

    name: str
    cross: bool
    hit: dict = field(default_factory=dict)
    holes: list = field(default_factory=list)
    excluded: dict = field(default_factory=dict)

    @property
    def total(self):
        """Bins or combinations that are wanted: all but the excluded ones."""
        return len(self.holes) + len(self.hit) - len(self.refuted)

    @property
    def refuted(self):
        """What was sampled although it is excluded: the reason is wrong."""
        return [cell for cell in self.hit if cell in self.excluded]

    @property
    def covered(self):
        """Bins or combinations that are wanted and were sampled."""
        return len(self.hit) - len(self.refuted)


class Group:
    """A covergroup: coverpoints that are sampled together, and their crosses.

    Parameters
    ----------
    name : str
        ``unit.what``.
    title : str
        What a sample is, and when it is taken.
    points : dict of str to sequence of str
        The bins of each coverpoint. They are closed: another value is an error.
    crosses : sequence of tuple of str
        Coverpoints of each cross.
    exclude : sequence of Exclusion
        Each counts for the coverpoint it names alone, and for crosses of all coverpoints that it names.

    ``samples`` counts the combinations that were sampled in this process.
    """

    def __init__(self, name, title, points, crosses=(), exclude=()):
        self.name, self.title = name, title
        self.unit = name.split(".")[0]
        self.points = {point: tuple(bins) for point, bins in points.items()}
        self.crosses = [tuple(cross) for cross in crosses]
        self.exclude = list(exclude)
        self.samples = Counter()
        self._check_declaration()

    def _check_declaration(self):
        for point, bins in self.points.items():
            if not bins or len(set(bins)) != len(bins) or not all(isinstance(name, str) for name in bins):
                raise UsageError(f"bins of {self.name}.{point} must be different texts, not {bins}")
        for cross in self.crosses:
            if len(cross) < 2 or len(set(cross)) != len(cross) or not set(cross) <= set(self.points):
                raise UsageError(f"a cross of {self.name} must have different coverpoints of it, not {cross}")
        for exclusion in self.exclude:
            for point, bins in exclusion.where.items():
                if point not in self.points or not bins <= set(self.points[point]):
                    raise UsageError(f"an exclusion of {self.name} must name bins of it, not {point} {sorted(bins)}")

    def key(self, **values):
        """The combination that a sample stands for; ``UsageError`` for what was not declared."""
        if values.keys() != self.points.keys():
            raise UsageError(f"a sample of {self.name} must have {', '.join(self.points)}, not {', '.join(values)}")
        key = tuple(values[point] for point in self.points)
        return self.checked(key)

    def checked(self, key):
        """The same combination; ``UsageError`` when a value is no bin."""
        for (point, bins), value in zip(self.points.items(), key, strict=True):
            if value is not None and value not in bins:
                raise UsageError(f"{point} of {self.name} must be one of {', '.join(bins)}, not {value!r}")
        return key

    def sample(self, **values):
        """Count a bin of every coverpoint; None where a coverpoint does not apply."""
        self.samples[self.key(**values)] += 1

    # -- evaluation -------------------------------------------------------------------------

    def tallies(self, samples=None):
        """A ``Tally`` of each coverpoint and then of each cross; of ``samples`` in place of those of this process."""
        samples = self.samples if samples is None else samples
        return [self._tally(names, samples) for names in [*((point,) for point in self.points), *self.crosses]]

    def _tally(self, names, samples):
        places = [list(self.points).index(name) for name in names]
        tally = Tally(TIMES.join(name.replace("_", " ") for name in names), len(names) > 1)
        for key, count in samples.items():
            cell = tuple(key[place] for place in places)
            if None not in cell:
                tally.hit[cell] = tally.hit.get(cell, 0) + count
        exclusions = [exclusion for exclusion in self.exclude if set(exclusion.where) <= set(names)]
        for cell in itertools.product(*(self.points[name] for name in names)):
            named = dict(zip(names, cell))
            reason = next((exclusion.reason for exclusion in exclusions if exclusion.covers(named)), None)
            if reason is not None:
                tally.excluded[cell] = reason
            elif cell not in tally.hit:
                tally.holes.append(cell)
        return tally
