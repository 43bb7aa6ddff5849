"""Proofs of the control units, and that a broken unit is refuted."""

from dataclasses import replace

import pytest
from heddle_verif.formal.addresses import RequestRangeSpec
from heddle_verif.formal.proofs import PROOFS
from heddle_verif.formal.prove import ProofFailure, run_proof
from heddle_verif.formal.strength import mutants, still_proved


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.nightly] * proof.nightly) for name, proof in PROOFS.items()])
def test_proof(name):
    assert run_proof(PROOFS[name])["bounded"] >= 0


def test_requests_wrap_without_the_check():
    """What ``ExtentCheck`` finds out is what the proof of the requests needs."""
    proof = replace(PROOFS["tensor_range"], make=lambda: RequestRangeSpec(checked=False))
    with pytest.raises(ProofFailure, match="tensor_range: bounded failed"):
        run_proof(proof)


def test_broken_unit_is_refuted():
    results = [still_proved(PROOFS["queue_3"], mutant) for mutant in mutants(PROOFS["queue_3"], 4)]
    assert len(results) == 4
    assert results.count(False) >= 3
