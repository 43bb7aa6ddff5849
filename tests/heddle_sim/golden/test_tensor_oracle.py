"""The golden model of tensor copies against an independent reading of the documents, where its generator is at hand.

``HOPPER_ORACLE`` names its folder; without it the test looks beside the repository and is skipped when nothing is there.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from heddle.isa.encoding import Reduction, Swizzle
from heddle.isa.tensor_descriptor import FILL_NAN, FORMAT_BYTES, Fill, TensorFormat, TensorMode
from heddle.isa.tensor_rules import REDUCTION_FORMATS
from heddle_sim.golden.tensor_copy import load_tensor, store_tensor
from heddle_sim.golden.tensor_fields import TensorFields

ORACLE = Path(os.environ.get("HOPPER_ORACLE", Path(__file__).resolve().parents[4] / "shared" / "hopper-oracle"))
FORMATS = {"f32ftz": TensorFormat.F32_FTZ, "tf32ftz": TensorFormat.TF32_FTZ} | {kind.name.lower(): kind for kind in TensorFormat}
# The reading knows no NaNs of hardware (test_hopper.py): its fill gets them, TF32 is left out. Loads of FTZ formats change nothing.
ROUNDED = {"tf32", "tf32ftz"}
FILLS = {nbytes: int.from_bytes(FILL_NAN.to_bytes(2, "little") * (nbytes // 2), "little") for nbytes in (2, 4, 8)}
CHOICES = {"documented", "mode=copy", *(f"{mode}nan={fill:x}" for mode in ("", "mode=copy+") for fill in FILLS.values())}


def _fields(case):
    rank, im2col = case["rank"], case["enc"] == "im2col"
    return TensorFields(
        mode=TensorMode.IM2COL if im2col else TensorMode.TILE, format=FORMATS[case["dtype"]], address=case["base_off"],
        sizes=tuple(case["gdim"][:rank]), strides=tuple(case["gstride"][:rank - 1]), box=() if im2col else tuple(case["box"][:rank]),
        element_strides=tuple(case["estride"][:rank]), swizzle=Swizzle(case["swizzle"]), fill=Fill(case["oobfill"]),
        lower_corner=tuple(case["lower"][:rank - 2]) if im2col else (), upper_corner=tuple(case["upper"][:rank - 2]) if im2col else (),
        pixels_per_column=case["ppc"] or 1, channels_per_pixel=case["cpp"] or 1)


def _load(naive, case):
    shared = np.full(case["dump_off"] + case["dump_len"], 0xA5, np.uint8)
    load_tensor(naive.gbuf(), shared, _fields(case), case["coord"][:case["rank"]], case["smem_off"], case["i2off"])
    return shared[case["dump_off"]:]


def _store(naive, case):
    memory = np.zeros(case["gwin_off"] + case["gwin_len"], np.uint8)
    memory[case["gwin_off"]:] = naive.fill(case["gfill_mode"], case["gfill_seed"], case["fill_dtype"], case["gwin_len"])
    shared = np.zeros(case["smem_off"] + case["smem_len"], np.uint8)
    shared[case["smem_off"]:] = naive.fill(case["sfill_mode"], case["sfill_seed"], case["fill_dtype"], case["smem_len"])
    reduction = Reduction[(case["redop"] or "none").upper()]
    store_tensor(memory, shared, _fields(case), case["coord"][:case["rank"]], case["smem_off"], reduction)
    return memory[case["gwin_off"]:]


@pytest.mark.skipif(not (ORACLE / "gen.py").exists(), reason="the oracle's generator is not here; HOPPER_ORACLE names its folder")
def test_golden_model_agrees_with_the_oracles_reading(tmp_path, monkeypatch):
    command = [sys.executable, "-B", str(ORACLE / "gen.py"), str(tmp_path), "--seed", "1"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    cases = [json.loads(line) for line in (tmp_path / "cases.jsonl").read_text().splitlines()]
    monkeypatch.syspath_prepend(str(ORACLE))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec = importlib.util.spec_from_file_location("oracle_naive", ORACLE / "naive.py")
    naive = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(naive)
    generator = __import__("gen")
    for name, known in naive.NAN.items():
        known.append(FILLS[FORMAT_BYTES[FORMATS[name]]])
    compared, different = 0, []
    for case in cases:
        case = {**generator.DEFAULTS, **case}
        run = {"tile_load": _load, "im2col_load": _load, "tile_store": _store, "im2col_store": _store, "tile_reduce": _store,
               "im2col_reduce": _store}.get(case["op"])
        if run is None or case["interleave"] or case["cat"].startswith("risky") or case["dtype"] not in FORMATS.keys() - ROUNDED:
            continue
        if case["redop"] and FORMATS[case["dtype"]] not in REDUCTION_FORMATS[Reduction[case["redop"].upper()]]:
            continue
        compared += 1
        name = naive.classify(case, run(naive, case))
        if name not in CHOICES:
            different.append((case["id"], case["cat"], case["note"], name))
    assert compared > 3000
    assert not different, f"{len(different)} of {compared}: {different[:10]}"
