"""Kinds of shared memory behind a unit: keyword arguments of ``BankMemory``."""

__all__ = ["SHARED"]

SHARED = {
    "least": {"grant_chance": 1},                                       # the least latency, no conflict
    "refusing": {"grant_chance": 0.5},                                  # refuses as the hardware does
    "late": {"grant_chance": 0.8, "delay": 7, "places": 4},             # any latency
}
