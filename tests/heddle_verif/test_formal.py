"""Proofs of the control units, and that a broken unit is refuted."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from heddle_verif.formal import prove
from heddle_verif.formal.addresses import RequestRangeSpec
from heddle_verif.formal.proofs import PROOFS
from heddle_verif.formal.prove import ProofFailure, run_proof
from heddle_verif.formal.strength import mutants, still_proved

PAGE = Path(__file__).parents[2] / "docs" / "verification.md"


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.nightly] * proof.nightly + [pytest.mark.soak] * proof.soak)
                                  for name, proof in PROOFS.items()])
def test_proof(name):
    assert run_proof(PROOFS[name])["bounded"] >= 0


def test_the_page_lists_every_proof():
    """With its bounds; a proof that is not unbounded is said to be none."""
    page = PAGE.read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in page.split("## Proofs")[1].split("###")[0].splitlines() if line.startswith("| `")]
    listed = {name: [bound.strip() for bound in row[2:]] for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert listed == {name: [str(proof.bounded), str(proof.cover)] for name, proof in PROOFS.items()}
    bounded = [name for name, proof in PROOFS.items() if proof.unbounded == "no"]
    assert bounded == ["local_dma_shared", "tensor_range", "tensor_range_strided", "tensor_range_pixels"]
    assert "but for those of `tensor_range` and `local_dma_shared`, which hold for" in page


def test_the_page_gives_the_strength_of_every_proof():
    """Or says that it was not measured."""
    page = PAGE.read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.split("### Strength of the proofs")[1].split("##")[0].splitlines() if line.startswith("| ")]
    names = [name for row in rows[1:] for name in re.findall(r"\w+", row)]
    assert sorted(names) == sorted(PROOFS)


def test_requests_wrap_without_the_check():
    """What ``ExtentCheck`` finds out is what the proof of the requests needs."""
    proof = replace(PROOFS["tensor_range"], make=lambda: RequestRangeSpec(checked=False))
    with pytest.raises(ProofFailure, match="tensor_range: bounded failed"):
        run_proof(proof)


def test_a_proof_that_passed_is_not_run_again(tmp_path, monkeypatch):
    """But with another bound, or another design, it is; one that fails leaves nothing."""
    monkeypatch.setenv("HEDDLE_BUILD", str(tmp_path))
    proof = PROOFS["slice_full"]
    seconds = run_proof(proof)
    assert seconds.keys() == {"prepare", "bounded", "cover", "unbounded"}
    monkeypatch.setattr(prove, "_run", lambda *arguments: "nothing is proved")
    assert run_proof(proof) == seconds
    for other in (replace(proof, bounded=proof.bounded - 1), replace(proof, make=PROOFS["slice_forward"].make)):
        for _ in range(2):
            with pytest.raises(ProofFailure, match="slice_full: bounded failed"):
                run_proof(other)


def test_broken_unit_is_refuted():
    results = [still_proved(PROOFS["queue_3"], mutant) for mutant in mutants(PROOFS["queue_3"], 4)]
    assert len(results) == 4
    assert results.count(False) >= 3


@pytest.mark.nightly
def test_broken_memory_is_refuted():
    """Mutants leave out what the memory holds after configuration, which must be constant."""
    results = [still_proved(PROOFS["offset_memory_8"], mutant) for mutant in mutants(PROOFS["offset_memory_8"], 12)]
    assert results == [False] * 11
