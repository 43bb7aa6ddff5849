"""``heddle bench rnn --suite rnnoise``: a network of RNNoise's shape with drawn weights; the published ones are not part of the project."""


import numpy as np
import pytest
from heddle_sim.cli import bench_rnnoise
from heddle_sim.rnn.rnnoise import FEATURES, LAYERS
from heddle_verif.command_line import answer, call

COMMAND = ["bench", "rnn", "--suite", "rnnoise", "--config", "recurrent64", "--simulator", "golden", "--frames", "45"]


@pytest.fixture(scope="module")
def arrays():
    rng, sizes = np.random.default_rng(0), {"features": FEATURES} | {name: layer[1] for name, layer in LAYERS.items()}
    found = {}
    for name, (kind, units, _, inputs, _) in LAYERS.items():
        gates = 3 if kind == "gru" else 1
        shapes = {"weights": sum(sizes[source] for source in inputs) * gates * units, "bias": gates * units}
        if kind == "gru":
            shapes["recurrent_weights"] = units * gates * units
        for part, size in shapes.items():
            found[f"{name}_{part}"] = rng.integers(-40, 41, size, np.int8)
    return found


def test_rows(capsys, tmp_path, arrays):
    np.savez(tmp_path / "weights.npz", **arrays)
    rows = answer(capsys, *COMMAND, "--threads", "1,2", "--weights", str(tmp_path / "weights.npz"))["rows"]
    assert [tuple(row[name] for name in ("suite", "threads", "steps", "checked")) for row in rows] == [
        ("rnnoise", 1, 45, True), ("rnnoise", 2, 45, True)]
    for row in rows:
        # The weights of three dense layers and three GRUs are multiplied once a frame.
        assert row["macs"] == 45 * row["threads"] * sum(array.size for name, array in arrays.items() if name.endswith("weights"))
        assert row["bound"] * 64 * 45 * row["threads"] == row["macs"]
        assert row["gain_error"] < bench_rnnoise.GAIN_ERROR and row["cycles_per_frame"] is None


def test_a_large_error_fails(capsys, tmp_path, arrays, monkeypatch):
    np.savez(tmp_path / "weights.npz", **arrays)
    monkeypatch.setattr(bench_rnnoise, "GAIN_ERROR", 1e-9)
    code, out, err = call(capsys, *COMMAND, "--threads", "1", "--weights", str(tmp_path / "weights.npz"))
    assert code == 1 and not out and "gains must be within 1e-09 of float64" in err


def test_wrong_use(capsys, tmp_path, arrays):
    path = tmp_path / "weights.npz"
    for change, says in ((None, "--weights must be given with --suite rnnoise"), ("absent", "No such file"),
                         ("text", "--weights must be an .npz file"), ("name", "vad_gru_bias is missing"), ("size", "cannot reshape array")):
        given = dict(arrays)
        if change == "name":
            del given["vad_gru_bias"]
        if change == "size":
            given["vad_gru_bias"] = given["vad_gru_bias"][1:]
        if change == "text":
            path.write_text("no arrays")
        elif change in ("name", "size"):
            np.savez(path, **given)
        code, out, err = call(capsys, *COMMAND, *([] if change is None else ["--weights", str(path)]))
        assert code == 2 and not out and err.count("\n") == 1 and says in err, change
