"""Mutants of one unit: what its benches and the prover say of each, step by step."""

import threading
import time

from heddle_sim.toolchain.cocotb_runner import BenchFailure, run_bench

from .module_proof import equal_module
from .mutants import SELECT, describe, differs, equal_registers, make_mutants
from .targets import UNITS, waivers

__all__ = ["SEED", "STEPS", "UnitMutants"]

SEED = 1
SLOWER, SLACK_S = 4, 30         # a mutant whose tests take longer than so many times those of the unit, and seconds, hangs
STEPS = ("first_tests", "registers", "other_tests", "all_cycles")       # cheap and telling ones first


class UnitMutants:
    """The mutants of a unit and what is known of each.

    Parameters
    ----------
    name : str
        A unit of ``targets.UNITS``.
    count : int
        Mutants.
    seed : int
        Of the choice of mutants.
    outcomes : list or None
        What an earlier run found, by mutant.

    Attributes
    ----------
    outcomes : list of str or None
        ``"killed"`` (a test failed), ``"waived"``, ``"equivalent"`` (proved) or ``"survives"`` (neither); the name of the step that is
        to come; or None before the first one.
    """

    def __init__(self, name, count, seed=SEED, outcomes=None):
        self.name, self.count, self.seed = name, count, seed
        self.outcomes = list(outcomes) if outcomes else [None] * count
        self.seconds = 0        # of all steps, also where two ran at a time
        self._target = UNITS[name]
        self._lock, self._limits, self._made = threading.Lock(), {}, None

    def open(self, step):
        """Numbers of the mutants that a step has to look at, from 0 on."""
        wanted = None if step == STEPS[0] else step
        return [number for number, outcome in enumerate(self.outcomes) if outcome == wanted]

    def judge(self, step, number):
        """Do a step of a mutant.

        Raises ``BenchFailure`` when a bench fails on the unit as it is.
        """
        started = time.monotonic()
        self.outcomes[number] = getattr(self, f"_{step}")(number)
        self.seconds += time.monotonic() - started

    def result(self):
        """Numbers of the table: ``run``, ``killed``, ``equivalent``, ``waived``, ``survivors`` (descriptions) and ``score``.

        The score is the share of killed mutants in those that are neither equivalent nor waived: the least that it can be while some are
        not judged. What no test noticed survives until it is proved equivalent.
        """
        numbers = {outcome: self.outcomes.count(outcome) for outcome in ("killed", "equivalent", "waived")}
        survivors = [describe(self._command(number)) for number, outcome in enumerate(self.outcomes)
                     if outcome in ("survives", "all_cycles")]
        judged, counted = numbers["killed"] + len(survivors), self.count - numbers["equivalent"] - numbers["waived"]
        return {"run": judged + numbers["equivalent"] + numbers["waived"], **numbers, "survivors": survivors,
                "score": round(numbers["killed"] / counted, 3) if counted else 0, "seconds": round(self.seconds)}

    def _first_tests(self, number):
        return self._run_tests(number, self._target.tests[:1]) or "registers"

    def _registers(self, number):
        command = self._command(number)
        if describe(command) in waivers(self.name):
            return "waived"
        texts = self._mutants()[2]
        return "equivalent" if equal_module(texts, command) or equal_registers(texts, command) else "other_tests"

    def _other_tests(self, number):
        return self._run_tests(number, self._target.tests[1:]) or "all_cycles"

    def _all_cycles(self, number):
        return "equivalent" if differs(self._mutants()[2], self._command(number)) is False else "survives"

    def _mutants(self):
        """What ``make_mutants`` returns, made by the first that asks."""
        with self._lock:
            if self._made is None:
                self._made = make_mutants(self._target.make, self.count, self.seed, self._target.modules)
            return self._made

    def _command(self, number):
        return self._mutants()[0][number]

    def _run_tests(self, number, groups):
        return "killed" if any(self._fails(number, tests) for tests in groups) else None

    def _fails(self, number, tests):
        limit_s = self._limit(tests)
        try:
            self._run(number + 1, tests, limit_s)
        except BenchFailure:
            return True
        return False

    def _limit(self, tests):
        """Seconds after which a mutant hangs, from the time of the unit as it is."""
        self._mutants()     # not under the lock, which it takes
        with self._lock:
            if tests not in self._limits:
                self._limits[tests] = SLOWER * self._run(0, tests, self._target.limit_s)["seconds"] + SLACK_S
            return self._limits[tests]

    def _run(self, selected, tests, limit_s):
        bench, test_filter = tests
        target = self._target
        return run_bench(
            target.make(), bench=f"heddle_verif.bench.{bench}", cfg=target.configuration, parameters=target.parameters,
            verilog=self._made[1], plusargs=[f"+{SELECT}={selected}"], seed=SEED, name=f"mutants_{self.name}", test_filter=test_filter,
            timeout_s=limit_s, simulator=target.simulator, max_failures=1, report=lambda line: None)
