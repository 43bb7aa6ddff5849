"""Each unit in every variant that a preset builds has a bench: derived from ``configs/``, by what elaboration reads of a configuration."""

import pytest
from heddle_sim.toolchain.cocotb_runner import run_bench
from heddle_verif.formal.proofs import PROOFS
from heddle_verif.variants import unit_variants
from heddle_verif.variants.traced import kind, read_while_elaborated, structure
from heddle_verif.variants.unit_variants import PRESETS, PROVED, SCALED, UNITS, missing_variants, units_without_bench

QUICK = [(name, configuration) for name, unit in UNITS.items() for configuration in unit.quick]
ALL = [(name, configuration) for name, unit in UNITS.items() for configuration in unit.configurations]
# Their own tests run all of their benches on ``tiny`` and Verilator at night.
OWN = ("front_end", "matrix_unit", "thread_unit", "shared_lsu", "tmau", "engine", "sparse_engine")
# The longest; what ``large`` and ``recurrent64`` build differs from ``base`` in little else than sizes, and the whole devices run at night.
BY_SOAK = [(name, preset) for name in ("front_end", "matrix_unit", "thread_unit", "sparse_engine", "compiled_offsets")
           for preset in ("large", "recurrent64")] + [("front_end", "quad")]


@pytest.mark.parametrize("name", UNITS)
def test_every_variant_of_a_preset_has_a_bench(name):
    assert missing_variants(name) == {}


@pytest.mark.parametrize("preset", PRESETS)
def test_every_unit_of_a_preset_has_a_bench(preset):
    """Or a proof, of the variant that the preset builds. Units within units are run by the bench of these."""
    cfg = SCALED[preset]
    found = units_without_bench(cfg)
    assert found <= PROVED.keys() and all(PROVED[unit](cfg) in PROOFS for unit in found)


def test_a_unit_without_a_bench_is_found(monkeypatch):
    monkeypatch.delitem(UNITS, "engine")
    monkeypatch.delitem(UNITS, "control")
    assert {unit.__name__ for unit in units_without_bench(SCALED["tiny"])} == {
        "AxiLite", "ControlRegisters", "PerformanceCounters", "RecurrentEngine", "RowExpander", "RunControl"}


def test_a_variant_without_a_bench_is_found(monkeypatch):
    """``small`` without its bench of the front end, which differs from that of ``tiny`` in more than sizes."""
    unit = UNITS["front_end"]
    monkeypatch.setitem(UNITS, "front_end", unit_variants.Unit(make=unit.make, bench=unit.bench, configurations={"tiny": SCALED["tiny"]}))
    missing = missing_variants("front_end")
    assert "front_end_slices" in missing["small"] and "tiny" not in missing


@pytest.mark.parametrize("name", PRESETS)
def test_scaling_changes_sizes_only(name):
    """Everything but sizes stays: a bench of the scaled preset runs the structure that ships."""
    for unit in ("front_end", "scoreboard", "shared_lsu", "tmau", "axi_master"):
        names = read_while_elaborated(UNITS[unit].make, SCALED[name])
        assert names and structure(PRESETS[name], names) == structure(SCALED[name], names)


def test_every_parameter_has_a_class():
    """A parameter that a unit begins to read must be said to be a size, or what of it decides."""
    with pytest.raises(KeyError, match="cores_of_another_kind"):
        kind(type("Other", (), {"cores_of_another_kind": 3})(), "cores_of_another_kind")


@pytest.mark.parametrize("name, configuration", QUICK)
def test_some(name, configuration, seed):
    """The default preset's variants of the units that decide when an instruction begins."""
    run(name, configuration, "icarus", seed, UNITS[name].quick[configuration])


@pytest.mark.nightly
@pytest.mark.parametrize("name, configuration", [
    case for case in ALL if not (case[0] in OWN and case[1] == "tiny") and case not in BY_SOAK])
def test_all(name, configuration, seed):
    run(name, configuration, UNITS[name].simulator, seed, UNITS[name].night, fewer=3)


@pytest.mark.soak
@pytest.mark.parametrize("name, configuration", ALL)
def test_whole(name, configuration, seed):
    run(name, configuration, UNITS[name].simulator, seed)


def run(name, configuration, simulator, seed, tests=None, **rounds):
    unit = UNITS[name]
    cfg = unit.configurations[configuration]
    summary = run_bench(unit.make(cfg), bench=f"heddle_verif.bench.{unit.bench}", cfg=cfg, simulator=simulator, seed=seed,
                        parameters=unit.parameters(cfg) | rounds, test_filter=tests, timeout_s=800)
    assert summary["tests"] > 0
