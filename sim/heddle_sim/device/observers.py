"""Observers of runs: who wants to know what devices ran, such as a measurement of what tests cover."""

__all__ = ["observe_runs", "report_run"]

_OBSERVERS = []


def observe_runs(observer):
    """Call ``observer(cfg, simulator, program, code)`` after every run of a device of this process; ``code`` is None without an error.

    An observer that is there already is not added again.
    """
    if observer not in _OBSERVERS:
        _OBSERVERS.append(observer)


def report_run(cfg, simulator, program, code):
    """Tell the observers about a run."""
    for observer in _OBSERVERS:
        observer(cfg, simulator, program, code)
