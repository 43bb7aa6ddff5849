"""Random legal configurations in which every pair of boolean parameters occurs."""

import itertools

import numpy as np
from heddle.config import Config, ConfigError
from heddle_sim.isa.features import BOOLEANS

__all__ = ["pairs_of", "possible_pairs", "random_configurations"]

_TRIALS = 30            # settings of the booleans of which the one with the most new pairs is taken
_WITH_ALL = {"cores": 2, "l2_kib": 64, "compiled_offsets": 64}      # numbers with which every boolean may be true
_ASK_FOR_SLOTS = ("sparse", "gather_offsets", "output_stage")        # every eighth configuration has none of them
_OF_SPARSE = {"thread_slots": 8, "shared_writes": 8}
# Values of the numbers. Each is used before one comes again.
_VALUES = {
    "threads": (8, 16, 32, 64), "dot": (4, 8, 16), "shared_memory_kib": (4, 8, 16, 32, 64, 128), "factor_words": (32, 64, 128, 256, 512),
    "instruction_words": (64, 128, 256, 512, 512, 1024, 1024, 2048, 4096), "cores": (1, 1, 2, 3, 4), "axi_data_bits": (64, 128, 256, 512),
    "axi_address_bits": (20, 24, 32), "axi_reads": (2, 3, 4, 8, 24, 128), "axi_writes": (2, 3, 4, 6, 32), "thread_slots": (1, 2, 4, 8, 16),
    "thread_multipliers": (1, 2, 4, 8), "matrix_queue": (2, 3, 8, 16), "thread_queue": (2, 4, 7), "copy_queue": (2, 5, 8),
    "fetch_words": (1, 2, 4, 8, 16), "compiled_offsets": (0, 64, 128, 512, 4096),
    "shared_writes": (1, 8), "l2_kib": (0, 4, 16, 64), "l2_ways": (1, 2, 4, 8),
    "rnn_contexts": (1, 2, 4, 8), "rnn_elements": (256, 1024, 8192), "rnn_records": (8, 32, 64), "rnn_tap_registers": (16, 64, 256),
    "front_end_slices": (0, 1),
}
# Of devices that Verilator builds in a minute.
_SMALL = {"threads": (8,), "dot": (4, 4, 8), "shared_memory_kib": (4, 8, 16, 32), "factor_words": (32, 64, 128),
          "instruction_words": (256, 512, 512, 1024), "axi_data_bits": (64, 128), "axi_reads": (2, 3, 4, 8), "axi_writes": (2, 3, 4),
          "fetch_words": (1, 2, 4), "compiled_offsets": (0, 64, 128, 256),
          "cores": (1,), "l2_kib": (0, 4, 8), "l2_ways": (1, 2), "rnn_contexts": (1, 2),
          "rnn_elements": (256, 512), "rnn_records": (8, 16), "rnn_tap_registers": (16, 32)}


def pairs_of(cfg):
    """The values of each two boolean parameters: a set of ((name, value), (name, value))."""
    return set(itertools.combinations([(name, getattr(cfg, name)) for name in BOOLEANS], 2))


def _legal(values):
    try:
        return Config(**values)
    except ConfigError:
        return None


def possible_pairs():
    """All pairs of values of two boolean parameters that a legal configuration has."""
    others = [dict.fromkeys(BOOLEANS, True), dict.fromkeys(BOOLEANS, False) | dict.fromkeys(("mm16", "reductions"), True),
              dict.fromkeys(BOOLEANS, False)]
    return {pair for flags in others for names in itertools.combinations(BOOLEANS, 2)
            for pair in itertools.product(*([(name, chosen) for chosen in (False, True)] for name in names))
            if _legal(_WITH_ALL | flags | dict(pair))}


class _Numbers:
    """Draws the values of each number in a random order."""

    def __init__(self, rng, values):
        self._rng, self._values = rng, values
        self._left = {name: [] for name in values}

    def draw(self, fixed, least):
        """A value of each number but ``fixed``, of those that are left. Of a number in ``least`` it is at least that; where that is 0 the
        smallest that is left most often, which other configurations cannot have.
        """
        chosen = {}
        for name, values in self._values.items():
            left = self._left[name]
            if name not in fixed:
                if not any(value >= least.get(name, value) for value in left):
                    left += [values[index] for index in self._rng.permutation(len(values))]
                fitting = [value for value in left if value >= least.get(name, value)]
                chosen[name] = max(sorted(fitting), key=left.count) if least.get(name) == 0 else fitting[-1]
                left.remove(chosen[name])
        return chosen


def _settings(rng):
    """Values of the booleans that some configuration has."""
    while True:
        flags = {name: bool(rng.integers(2)) for name in BOOLEANS}
        if _legal(_WITH_ALL | flags):
            return flags


def _fitted(rng, numbers, flags):
    """The numbers changed as little as the rules demand."""
    changed = numbers | {}
    if flags["sparse"]:
        changed |= _OF_SPARSE
    if flags["multicast"]:
        changed["cores"] = max(2, changed["cores"])
    if flags["reductions"]:
        changed["l2_kib"] = max(4, changed["l2_kib"])
    if changed["l2_kib"] and changed["cores"] == 3:
        changed["cores"] = 2
    if changed["shared_writes"] == 1:
        changed["axi_data_bits"] = min(128, changed["axi_data_bits"])
    if flags["output_stage"]:
        changed["thread_slots"] = max(4, changed["thread_slots"] if changed["threads"] == 8 else min(8, changed["thread_slots"]))
        changed["thread_multipliers"] = max(changed["thread_multipliers"], min(changed["thread_slots"], changed["threads"]))
    if flags["gather_offsets"]:
        changed["compiled_offsets"], changed["thread_slots"] = max(64, changed["compiled_offsets"]), max(4, changed["thread_slots"])
    if changed["l2_kib"]:
        changed["l2_kib"] = max(changed["l2_kib"], 256 * changed["cores"] * changed["l2_ways"] // 1024)
    return changed


def random_configurations(seed, count=40, *, small=False):
    """``count`` legal ``Config``s, the same for the same seed; number i of them does not depend on ``count``.

    Booleans are chosen so that 40 have all of ``possible_pairs``; numbers come from lists of values, each value in its turn.
    ``small``: of sizes that the Verilated device builds in a minute; only every fourth may have two cores, for ``multicast``.
    """
    rng = np.random.default_rng([seed, int(small)])
    numbers, missing, found = _Numbers(rng, _VALUES | (_SMALL if small else {})), possible_pairs(), []
    while len(found) < count:
        held = {"multicast": False} if small and len(found) % 4 else {}
        held |= dict.fromkeys(_ASK_FOR_SLOTS, False) if len(found) % 8 == 7 else {}
        trials = [_settings(rng) | held for _ in range(_TRIALS)]
        flags = max(trials, key=lambda flags: len(missing & set(itertools.combinations(flags.items(), 2))))
        kind = "small" if small else "random"
        least = {"thread_slots": 4 if flags["output_stage"] or flags["gather_offsets"] else 0}
        drawn = numbers.draw(_OF_SPARSE if flags["sparse"] else {}, least)
        cfg = Config(name=f"{kind}_{seed}_{len(found)}", **_fitted(rng, drawn, flags), **flags)
        missing -= pairs_of(cfg)
        found.append(cfg)
    return found
