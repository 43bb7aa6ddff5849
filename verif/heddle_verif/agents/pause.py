"""When the ends of a stream pause: patterns for sources and sinks."""

__all__ = ["PATTERNS", "Pause", "adversarial", "always", "bernoulli", "bursty", "none", "one_in_n", "pattern", "when_asked"]


class Pause:
    """A pattern: each cycle ``step(other)`` says whether to pause.

    ``other`` is what the other side did in the last cycle: ``valid`` for a sink, ``ready`` for a source.
    """

    def __init__(self, step):
        self.step = step


def none():
    """Never pauses."""
    return Pause(lambda other: False)


def always():
    """Pauses until it is replaced."""
    return Pause(lambda other: True)


def one_in_n(n):
    """Active in one cycle of ``n``."""
    count = 0

    def step(other):
        nonlocal count
        count = (count + 1) % n
        return count != 0
    return Pause(step)


def bernoulli(rng, share):
    """Pauses in a cycle with probability ``share``, whatever was before."""
    return Pause(lambda other: bool(rng.random() < share)) if share else none()


def when_asked(rng, share=0.0):
    """Active only in a cycle after the other side was; then pauses with probability ``share``."""
    return Pause(lambda other: not other or bool(rng.random() < share))


def bursty(rng, activity=0.5, mean_length=8):
    """Active and pausing bursts of random length, active for ``activity`` of the time."""
    paused, left = True, 0

    def step(other):
        nonlocal paused, left
        if left == 0:
            paused = not paused
            left = int(rng.geometric(1 / max(1.0, 2 * mean_length * ((1 - activity) if paused else activity))))
        left -= 1
        return paused
    return Pause(step)


def adversarial(rng):
    """Acts only after the other side did, for one cycle; sometimes waits very long, sometimes does not wait at all."""
    wait = free = 0
    acted = False

    def step(other):
        nonlocal wait, free, acted
        if free:
            free -= 1
            return False
        if wait:
            wait -= 1
            return True
        if acted or not other and rng.random() < 0.9:
            acted = False
            return True
        acted = True
        kind = rng.random()
        wait = int(rng.integers(20, 60)) if kind < 0.03 else 0
        free = int(rng.integers(8, 24)) if kind > 0.95 else 0
        return False
    return Pause(step)


PATTERNS = ("none", "bursty", "one_in_n", "adversarial")


def pattern(name, rng):
    """A pattern by its name in ``PATTERNS``."""
    return {"none": none, "bursty": lambda: bursty(rng), "one_in_n": lambda: one_in_n(int(rng.integers(2, 6))),
            "adversarial": lambda: adversarial(rng)}[name]()
