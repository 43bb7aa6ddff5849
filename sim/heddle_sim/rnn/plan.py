"""placeholder"""
__all__ = ["choose_cats"]


def choose_cats(cfg, step):
    return 1
