"""Proofs of the control units, and that a broken unit is refuted."""

import pytest
from heddle_verif.formal.proofs import PROOFS
from heddle_verif.formal.prove import run_proof
from heddle_verif.formal.strength import mutants, still_proved


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.nightly] * proof.nightly) for name, proof in PROOFS.items()])
def test_proof(name):
    assert run_proof(PROOFS[name])["bounded"] >= 0


def test_broken_unit_is_refuted():
    results = [still_proved(PROOFS["queue_3"], mutant) for mutant in mutants(PROOFS["queue_3"], 4)]
    assert len(results) == 4
    assert results.count(False) >= 3
