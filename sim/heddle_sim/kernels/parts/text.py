"""Text of a kernel, written piece by piece."""

__all__ = ["KernelText"]


class KernelText:
    """Assembly text that grows: calling it adds lines, in which ``{name}`` stands for a uniform register.

    Parameters
    ----------
    names : list of str
        Names of ur0, ur1 …
    """

    def __init__(self, names):
        self._registers = {name: f"ur{number}" for number, name in enumerate(names)}
        self._lines = []
        self._labels = 0

    @classmethod
    def of(cls, lines):
        """Text of some lines, without names."""
        text = cls(())
        text(*lines)
        return text

    def __call__(self, *lines):
        self._lines += [line.format_map(self._registers) for line in lines]

    @property
    def instructions(self):
        """Instructions so far."""
        return sum(not line.endswith(":") for line in self._lines)

    def label(self, stem):
        """A label that is used nowhere else."""
        self._labels += 1
        return f"{stem}_{self._labels}"

    def select(self, predicates, emit, chosen=()):
        """Run ``emit(*values)`` for the present values of uniform predicates, then go on behind it."""
        end = self.label("selected")
        self._select(predicates, emit, chosen, end)
        self(f"{end}:")

    def _select(self, predicates, emit, chosen, end):
        if not predicates:
            emit(*chosen)
            self(f"    bra {end}")
            return
        true = self.label("case")
        self(f"    @{predicates[0]} bra {true}")
        self._select(predicates[1:], emit, (*chosen, False), end)
        self(f"{true}:")
        self._select(predicates[1:], emit, (*chosen, True), end)

    def __str__(self):
        return "\n".join(self._lines) + "\n"
