"""How the tail goes through the jobs of a step."""

from dataclasses import dataclass

from heddle.rnn.layouts import operation_layout

from .step import Job, Operation, Step

__all__ = ["JobSchedule", "schedule_job"]

MAX_STRIDE = (1 << operation_layout["stride"].width) - 1


@dataclass(frozen=True)
class JobSchedule:
    """A job for ``tail_lanes`` elements at a time.

    Attributes
    ----------
    operations : tuple of (Operation, int)
        In order; the number is that of the element group in a pair, 0 without pairs.
    groups : int
        Element groups, or pairs of them.
    pairs : bool
        Operations of two groups take turns.
    settled : bool
        The job must wait until all that the job before it wrote can be read.
    """

    operations: tuple[tuple[Operation, int], ...]
    groups: int
    pairs: bool
    settled: bool

    @property
    def each(self) -> int:
        """Element groups that the operations work on before they begin again."""
        return 1 + self.pairs

    @property
    def slots(self) -> int:
        """Cycles of the tail."""
        return self.groups * len(self.operations)


def schedule_job(step: Step, number: int, groups: int) -> JobSchedule:
    """``JobSchedule`` of the job of sweep ``number`` of a ``Step``, of so many element groups. Where operations are idle because one waits
    for another, those of two groups take turns instead, if the number of groups is even."""
    job = step.sweeps[number].job
    works = [operation for operation in job.operations if operation != Operation()]
    stride = max((2 * step.rows[operation.rows].gates for operation in works if operation.rows), default=0)
    pairs = len(works) < len(job.operations) and groups % 2 == 0 and stride <= MAX_STRIDE
    operations = [(operation, group) for operation in works for group in (0, 1)] if pairs else [(each, 0) for each in job.operations]
    return JobSchedule(tuple(operations), groups // 2 if pairs else groups, pairs, _settled(step, number))


def _settled(step: Step, number: int) -> bool:
    """Not where the job reads nothing that others write, and what it reads of its own was waited for by a sweep."""
    sweep = step.sweeps[number]
    reads = {operation.operand for operation in sweep.job.operations}
    if any(reads & _writes(job) for job in step.jobs if job is not sweep.job):
        return True
    own = _writes(sweep.job)
    return bool(reads & own) and not any(before.vector in own for before in step.sweeps[:number + 1])


def _writes(job: Job) -> set[str | None]:
    return {operation.destination for operation in job.operations} - {None}
