"""Coverage of the tile scheduler: which core is served among how many, and what a new run cuts off."""

from .model import Exclusion, Group

__all__ = ["CLEARED", "HANDED", "sample_clear", "sample_number"]

HANDED = Group(
    "control.tile", "A number that the tile scheduler hands out, in its bench.",
    {"core": ("first", "other", "last"), "waiting": ("one core", "some", "all cores"), "turn": ("its own", "of one that does not wait")},
    crosses=[("core", "waiting"), ("waiting", "turn")],
    exclude=[Exclusion("each core has its own turn", waiting="all cores", turn="of one that does not wait")])

CLEARED = Group("control.tiles_cleared", "A new run of the tile scheduler, in its bench.",
                {"during": ("nothing", "cores wait", "a number is handed out")})


def sample_number(core, waiting, count, turn):
    """Count a number for ``core`` while ``waiting`` of ``count`` cores wait; ``turn``: the core whose turn it is."""
    HANDED.sample(core="first" if core == 0 else "last" if core == count - 1 else "other",
                  waiting="all cores" if waiting == count else "one core" if waiting == 1 else "some",
                  turn="its own" if core == turn else "of one that does not wait")


def sample_clear(waiting, served):
    """Count a new run with ``waiting`` cores, or where a core is ``served``."""
    CLEARED.sample(during="a number is handed out" if served else "cores wait" if waiting else "nothing")
