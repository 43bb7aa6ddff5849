"""Progress of long commands: what is being built, and how far it is."""

import sys
from typing import Self, TextIO

from tqdm import tqdm

__all__ = ["BarProgress", "Progress", "default_progress"]


class Progress:
    """Receives the stages of a long piece of work; this one is silent."""

    def stage(self, name: str, total: int = 1) -> None:
        """A stage called ``name`` begins; it consists of ``total`` steps."""

    def step(self, count: int = 1) -> None:
        """``count`` steps of the stage are done."""

    def close(self) -> None:
        """The work is over, also after an error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class BarProgress(Progress):
    """Shows a bar per stage on standard error, so that standard output stays free for results."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._bar = None

    def stage(self, name: str, total: int = 1) -> None:
        self.close()
        self._bar = tqdm(
            total=total,
            desc=f"{name:<28}",
            file=self._stream,
            leave=True,
            dynamic_ncols=True,
            mininterval=0.2,
            bar_format="{desc} |{bar:24}| {n_fmt}/{total_fmt} {elapsed}",
        )

    def step(self, count: int = 1) -> None:
        if self._bar is not None:
            self._bar.update(count)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def default_progress() -> Progress:
    """Bars where somebody watches, else silence."""
    return BarProgress() if sys.stderr.isatty() else Progress()
