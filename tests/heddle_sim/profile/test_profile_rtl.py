"""Traces and reports of runs of the hardware: same figures as without, on the command line and from Python."""

import json
import os
import shutil
import subprocess

import numpy as np
import pytest
from heddle_sim import Device
from heddle_sim.device.recording import recording
from heddle_verif.command_line import answer, call
from heddle_verif.stimulus.tflite_files import pooling_network
from heddle_verif.trace_checks import trace_faults

TINY = ["--config", "tiny", "--memory-mib", "1", "--quiet"]


def test_samples_change_nothing():
    """The same cycles and counters with samples, which add up to them."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(-128, 128, (24, 40), np.int8), rng.integers(-128, 128, (40, 24), np.int8)
    with Device("tiny", memory_bytes=1 << 20) as device:
        plain = device.matmul(a, b)
        with recording(64) as recorder:
            sampled = device.matmul(a, b)
        again = device.matmul(a, b)
    assert np.array_equal(plain.c, sampled.c) and plain.stats == sampled.stats == again.stats
    ((run,),) = [layer.runs for layer in recorder.layers]
    assert run.stats == plain.stats and len(run.samples.cycles) > 4
    for earlier, later in zip(run.samples.counters, run.samples.counters[1:-1]):
        assert all(earlier[name] <= later[name] for name in earlier)
    exact = run.stats.breakdown | run.stats.counters
    assert all(value <= exact[name] for name, value in run.samples.counters[-2].items())
    traffic = run.samples.ports[-1][0]
    assert (traffic["read_beats"], traffic["write_beats"]) == (exact["read_beats"], exact["write_beats"])


def test_run_with_trace_and_report(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    network, trace, page = pooling_network(tmp_path / "network.tflite"), tmp_path / "t.json", tmp_path / "t.html"
    *_, whole = answer(capsys, "run", str(network), *TINY, "--trace", str(trace), "--report", str(page), "--compare")["rows"]
    found = json.loads(trace.read_text())
    assert trace_faults(found) == [] and found["otherData"]["cycles"] == whole["cycles"]
    layers = [event["name"].split()[0] for event in found["traceEvents"] if (event["pid"], event["tid"]) == (1, 1) and event["ph"] in "Xi"]
    assert layers == ["MAX_POOL_2D", "LOGISTIC"]
    assert f"{whole['cycles']:,}" in page.read_text() and f"{whole['macs']:,}" in page.read_text()


@pytest.mark.parametrize("what", [["matmul", "--m", "8", "--n", "8", "--k", "8"],
                                  ["conv", "--size", "5,4", "--channels", "3", "--outputs", "2", "--filter", "3,2"], ["program"]])
def test_other_runs(capsys, tmp_path, what):
    if what == ["program"]:
        (tmp_path / "program.s").write_text("halt\n")
        what = ["program", str(tmp_path / "program.s")]
    trace = tmp_path / "t.json"
    rows = answer(capsys, "run", *what, *TINY, "--trace", str(trace))["rows"]
    found = json.loads(trace.read_text())
    assert trace_faults(found) == [] and found["otherData"]["cycles"] == rows[0]["cycles"]


@pytest.mark.parametrize("words, says", [
    (["--trace", "t.json", "--simulator", "golden"], "--trace must be used with --simulator verilator, not golden, which has no cycles"),
    (["--report", "none/t.html"], "--report must name a file in a folder that exists, not 'none/t.html'"),
    (["--trace", "t.json", "--sample-cycles", "7"], "--sample-cycles must be 0 or at least 64, not 7"),
    (["--wave", "t.wav"], "--wave must name a file that ends in .fst or .vcd, not 't.wav'"),
    (["--wave-cycles", "0:5"], "--wave-cycles must be used with --wave FILE"),
])
def test_wrong_use(capsys, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, "run", "matmul", "--m", "1", "--n", "1", "--k", "1", *TINY, *words)
    assert (code, out, err) == (2, "", f"heddle run: error: {says}\n")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("words, says", [
    ([], "--wave must be used with --wave-layer NODE or --wave-cycles FIRST:COUNT for a network"),
    (["--wave-layer", "1"], "--wave-layer must name a node on the device, not LOGISTIC 1 y on the host"),
    (["--wave-layer", "2"], "--wave-layer must be the name or the number of a node, as its row has them, not '2'"),
])
def test_wrong_waves_of_networks(capsys, tmp_path, words, says):
    network = pooling_network(tmp_path / "network.tflite")
    code, _, err = call(capsys, "run", str(network), *TINY, "--wave", str(tmp_path / "t.vcd"), *words)
    assert (code, err) == (2, f"heddle run: error: {says}\n")


def test_devices_without_waves(tmp_path):
    with Device("tiny", "golden", memory_bytes=1 << 20) as device:
        with pytest.raises(ValueError, match="device must be made with waves for wave, not without"):
            device.wave(tmp_path / "t.vcd")
    for simulator, waves, says in (("golden", "fst", "waves must be None with simulator 'golden', not 'fst'"),
                                   ("verilator", "wav", "waves must be one of fst, vcd, not 'wav'")):
        with pytest.raises(ValueError, match=says):
            Device("tiny", simulator, waves=waves)


@pytest.mark.nightly
@pytest.mark.parametrize("form", ["vcd", pytest.param("fst", marks=pytest.mark.soak)])
def test_waves(capsys, tmp_path, form):
    """Waves of a layer and of a range of its cycles, by the same run as without them."""
    network, wave = pooling_network(tmp_path / "network.tflite"), tmp_path / f"t.{form}"
    plain = answer(capsys, "run", str(network), *TINY)["rows"]
    try:
        rows = answer(capsys, "run", str(network), *TINY, "--wave", str(wave), "--wave-layer", "0")["rows"]
    except AssertionError:
        code, _, err = call(capsys, "run", str(network), *TINY, "--wave", str(wave), "--wave-layer", "0")
        if form == "fst" and "need the header" in err:
            pytest.skip(err.strip())
        raise
    assert [row["cycles"] for row in rows] == [row["cycles"] for row in plain]
    whole = wave.stat().st_size
    answer(capsys, "run", str(network), *TINY, "--wave", str(wave), "--wave-layer", "0", "--wave-cycles", "20:50")
    assert 0 < wave.stat().st_size < whole
    if form == "vcd":
        times = [int(line[1:]) for line in wave.read_text().splitlines() if line.startswith("#")]
        assert len(times) == len(set(times)) <= 100 and max(times) - min(times) <= 99
        assert "$scope module core_0" in wave.read_text() or "core" in wave.read_text()


def test_report_in_a_browser(capsys, tmp_path):
    """The page opens in headless Chromium without a message of its console, and its picture is drawn."""
    pytest.importorskip("matplotlib")
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("chromium is not installed")
    page, picture = tmp_path / "t.html", tmp_path / "t.png"
    answer(capsys, "run", str(pooling_network(tmp_path / "network.tflite")), *TINY, "--report", str(page))
    options = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr"]
    drawn = subprocess.run([*options, f"--screenshot={picture}", "--window-size=1200,1600", page.as_uri()], capture_output=True, text=True,
                           timeout=120)
    assert drawn.returncode == 0 and picture.stat().st_size > 10_000 and "CONSOLE" not in drawn.stderr
    tree = subprocess.run([*options, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120)
    assert "Where the rest went" in tree.stdout and "<svg" in tree.stdout
