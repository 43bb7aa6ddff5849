"""Register groups of the scoreboard, as kernels lay out their registers in them."""

from __future__ import annotations

from heddle.config import Config
from heddle.constants import PRODUCT_REGISTERS, REGISTER_GROUPS

__all__ = ["GROUP_REGISTERS", "HALF_GROUPS", "half_words", "words_per_group"]

GROUP_REGISTERS = PRODUCT_REGISTERS // REGISTER_GROUPS      # product registers that the scoreboard treats as one
HALF_GROUPS = REGISTER_GROUPS // 2 - 1      # of the factor registers for one of two halves; the last group has the offsets of B


def words_per_group(cfg: Config) -> int:
    """Factor words that the scoreboard treats as one."""
    return cfg.factor_words // REGISTER_GROUPS


def half_words(cfg: Config) -> int:
    """Factor words of one of two halves of whole groups."""
    return HALF_GROUPS * words_per_group(cfg)
