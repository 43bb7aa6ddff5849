"""Groups of channels of a compiled convolution: how many runs they take.

Few filters a group would leave lanes idle. As many groups as the lanes hold are made one, with weights of zero between them. Where each of
these fills the lanes, all of them share a run. The place of x then moves on with the tiles of filters. Few channels are filled up to a word
with zeros where words, which several lanes a filter need, are faster than bytes.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
from heddle.config import Config
from heddle.errors import UsageError

from .compiled_convolution import CompiledConvolutionKernel, CompiledConvolutionProblem
from .parts.fitting import Unfit

__all__ = ["expanded_weights", "expected_cycles", "merged_groups", "runs_of"]


def merged_groups(cfg: Config, problem: CompiledConvolutionProblem) -> CompiledConvolutionProblem:
    """The problem of a whole convolution, all of whose groups are one run, or its ``group`` is the first one; with ``filled`` channels
    where that takes fewer cycles.

    Raises ``ValueError`` for what the method cannot do.
    """
    geometry = problem.geometry
    filled = -geometry.channels % cfg.dot
    if not filled or geometry.group > 1 or not problem.layout.channels_last:
        return _merged(cfg, problem)
    candidates, failure = [], None
    for channels in (0, filled):
        try:
            candidates.append(_merged(cfg, replace(problem, filled=channels, geometry=replace(
                geometry, channels=geometry.channels + channels))))
        except (UsageError, Unfit) as error:
            failure = failure or error
    if not candidates:
        assert failure is not None
        raise failure
    return min(candidates, key=lambda candidate: expected_cycles(cfg, candidate))


def _merged(cfg: Config, problem: CompiledConvolutionProblem) -> CompiledConvolutionProblem:
    """``merged_groups`` of the channels that there are: the most groups at once that memories hold; where they do not hold any, the
    fastest."""
    geometry, vector = problem.geometry, problem.layout.vector
    filters, channels = geometry.outputs // geometry.group, geometry.group_channels
    failure: Exception | None = None
    others = []
    if split := _split(cfg, problem):
        return split
    for merged in sorted((count for count in range(1, geometry.group + 1) if not geometry.group % count), reverse=True):
        if merged > 1 and merged * filters > cfg.threads:
            continue
        groups = geometry.group // merged
        moves = problem.layout.channels_last or merged * channels % vector == 0
        together = groups == 1 or (merged * filters == cfg.threads and moves)
        candidate = replace(problem, geometry=replace(geometry, group=groups), group=None if together else 0, merged=merged)
        try:
            if CompiledConvolutionKernel(cfg, candidate).resident:
                return candidate
        except (UsageError, Unfit) as error:
            failure = error
            continue
        others.append(candidate)
    if others:
        return min(others, key=lambda other: expected_cycles(cfg, other))
    assert failure is not None
    raise failure


def _split(cfg: Config, problem: CompiledConvolutionProblem) -> CompiledConvolutionProblem | None:
    """With several lanes for each filter, which share its pixels, or None: where all filters are few, or those of a word of channels."""
    geometry, layout = problem.geometry, problem.layout
    merged = 1 if geometry.group == 1 else cfg.dot // geometry.group_channels
    filters = geometry.outputs // geometry.group * merged
    ka = next((count for count in (4, 2) if filters * count <= cfg.threads), 1)
    words = geometry.group == 1 or (
        merged * geometry.group_channels == cfg.dot and filters * ka == cfg.threads and not geometry.group % merged)
    packs = problem.requantise is None or cfg.packs_groups
    if ka == 1 or not words or not packs or not (layout.channels_last or layout.vector == cfg.threads):
        return None
    if not layout.channels_last and geometry.group > merged * ka and ka * cfg.dot % layout.vector:      # a tile is a part of a block
        return None
    found = []
    # Bytes of four filters are a word: those of more than eight are stored without conflicts in two parts.
    for lanes, parts in ((ka, 1), *[(4, 2)] * (ka == 2 and geometry.group == 1 and problem.requantise is not None)):
        candidate = replace(problem, geometry=replace(geometry, group=geometry.group // merged), group=None, merged=merged, ka=lanes,
                            parts=parts)
        with suppress(UsageError, Unfit):
            if CompiledConvolutionKernel(cfg, candidate).by_word:
                found.append(candidate)
    if len(found) > 1:
        return min(found, key=lambda candidate: expected_cycles(cfg, candidate))
    return found[0] if found else None


def runs_of(problem: CompiledConvolutionProblem) -> list[CompiledConvolutionProblem]:
    """One for all groups, or one for each."""
    groups, spec = problem.geometry.group, problem.requantise
    if problem.group is None:
        return [problem]
    return [replace(problem, group=group, requantise=spec and spec.of_group(group, groups)) for group in range(groups)]


def expected_cycles(cfg: Config, problem: CompiledConvolutionProblem) -> int:
    """Of a problem of ``merged_groups``, over all its runs and images, by the cycle model."""
    return CompiledConvolutionKernel.estimate(cfg, problem) * problem.geometry.images * len(runs_of(problem))


def expanded_weights(w: np.ndarray, groups: int, problem: CompiledConvolutionProblem) -> np.ndarray:
    """Filters (outputs, channels / ``groups``, positions…) for the channels of a problem of ``merged_groups``: zeros for those of other
    groups, and for those that fill a word."""
    merged = problem.merged
    if problem.filled:
        return np.pad(w, ((0, 0), (0, problem.filled), *[(0, 0)] * (w.ndim - 2)))
    if merged == 1:
        return w
    parts = w.reshape(groups // merged, merged, -1, *w.shape[1:])
    wide = np.zeros((*parts.shape[:3], merged, *w.shape[1:]), w.dtype)
    for group in range(merged):
        wide[:, group, :, group] = parts[:, group]
    return wide.reshape(len(w), merged * w.shape[1], *w.shape[2:])
