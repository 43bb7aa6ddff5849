"""Functional coverage: closed bins and crosses of every unit, sampled in benches and on devices, merged and reported.

A process that has imported this package writes its samples into the folder of the variable ``HEDDLE_COVERAGE`` when it ends.
"""

from .groups import GROUPS
from .storage import save_at_exit

__all__ = ["GROUPS"]

save_at_exit(GROUPS)
