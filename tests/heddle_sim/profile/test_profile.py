"""Traces, figures and reports from records made by hand, and records of the functional simulator."""

import json
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from heddle import load_config
from heddle.isa.counter_table import BREAKDOWN, COUNTERS
from heddle_sim import Device, Stats
from heddle_sim.backends.sampling import PORT_COUNTERS, CounterSamples, sampled_counters
from heddle_sim.device.recording import LayerRecord, Recorder, RunRecord, record_layer, recording
from heddle_sim.profile.advice import advice
from heddle_sim.profile.figures import LOSSES, layer_figures, total_figures
from heddle_sim.profile.report import report
from heddle_sim.profile.trace_events import trace_events
from heddle_sim.profile.windows import windows_of
from heddle_verif.trace_checks import trace_faults

BASE = load_config("base")


def run_of(rng, cycles, interval, counted=True):
    """A run whose counters advance at random."""
    names = sampled_counters(BASE)
    ends = [*range(interval, cycles, interval), cycles + 40]
    parts = rng.multinomial(cycles, np.ones(len(BREAKDOWN)) / len(BREAKDOWN))
    exact = dict(zip(BREAKDOWN, map(int, parts))) | {name: int(rng.integers(0, cycles)) for name in COUNTERS}
    samples = CounterSamples()
    for number, end in enumerate(ends):
        share = min(end / cycles, 1)
        samples.cycles.append(end)
        samples.counters.append({} if number == len(ends) - 1 else {name: int(exact[name] * share) for name in names})
        samples.ports.append([{name: int(share * exact["read_beats"] / 2) for name in PORT_COUNTERS}])
    macs = cycles * BASE.peak_macs(1) // 2
    stats = Stats(cycles, macs, BASE.peak_macs(1), {name: exact[name] for name in BREAKDOWN}, {name: exact[name] for name in COUNTERS})
    return RunRecord("made up", stats, counted, samples)


@pytest.fixture
def recorder():
    rng = np.random.default_rng(0)
    layers = [LayerRecord("first & <foremost>", "CONV_2D", runs=[run_of(rng, 5000, 256), run_of(rng, 777, 256)]),
              LayerRecord("soft", "SOFTMAX", "host", seconds=0.001),
              LayerRecord("last", "ADD", runs=[run_of(rng, 64, 256, counted=False), run_of(rng, 1000, 64)])]
    return Recorder(256, cfg=BASE, layers=layers)


@pytest.mark.parametrize("interval", [64, 100, 256, 2000])
@pytest.mark.parametrize("cycles", [1, 63, 300, 1999])
def test_windows_cover_a_run(cycles, interval):
    run = run_of(np.random.default_rng(cycles), cycles, interval)
    windows = list(windows_of(run))
    assert windows[0].begin == 0 and windows[-1].end == cycles
    assert all(first.end == second.begin and first.cycles > 0 for first, second in zip(windows, windows[1:]))
    exact = run.stats.breakdown | run.stats.counters
    assert all(sum(window.counts[name] for window in windows) == exact[name] for name in sampled_counters(BASE))


def test_trace(recorder):
    """Layers and runs lie one behind the other with their cycles; work of units within them."""
    trace = json.loads(json.dumps(trace_events(recorder, "net")))
    assert trace_faults(trace) == []
    events = trace["traceEvents"]
    layers = [event for event in events if event["ph"] == "X" and (event["pid"], event["tid"]) == (1, 1)]
    assert [(event["name"], event["ts"], event["dur"]) for event in layers] == [
        ("CONV_2D first & <foremost>", 0, 5777), ("ADD last", 5777, 1064)]
    assert [event["ts"] for event in events if event["ph"] == "i"] == [5777]
    assert trace["otherData"]["cycles"] == 6841
    tracks = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert {"net", "layers", "runs", "matrix unit", "core 0", "cycles go to"} <= tracks
    shares = [event["args"] for event in events if event["ph"] == "C"]
    assert all(abs(sum(share.values()) - 100) < 12 for share in shares)


def test_what_traces_must_not_have(recorder):
    trace = trace_events(recorder, "net")
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    slices[0]["dur"], slices[-1]["tid"] = 0, 99
    assert len(trace_faults(trace)) >= 2


def test_figures_add_up(recorder):
    layers = layer_figures(recorder)
    assert [layer.cycles for layer in layers] == [5777, 0, 1000]     # the run of 64 does not count
    for layer in layers:
        assert set(layer.losses) in (set(LOSSES), set()) and all(value >= 0 for value in layer.losses.values())
    whole = total_figures(layers, "net")
    assert (whole.cycles, whole.runs, whole.seconds) == (6777, 3, 0.001)
    found = advice(BASE, layers)
    assert found and all(one.cycles >= other.cycles for one, other in zip(found, found[1:]))


def test_report(recorder):
    """One page that is well formed, loads nothing, and has each layer and the roofline."""
    pytest.importorskip("matplotlib")
    page = report(recorder, "net <1>", "heddle run net")
    assert not re.search(r"(src|href)=\"(?!data:|#)", page) and "<script" not in page and "url(http" not in page
    body = page[page.index("<body>"):page.index("</html>")]
    ElementTree.fromstring(body.replace("<br>", "<br/>").replace("xlink:href", "href"))
    for text in ("net &lt;1&gt;", "first &amp; &lt;foremost&gt;", "<svg", "5,777", "6,777", "What would help"):
        assert text in page, text
    assert page == report(recorder, "net <1>", "heddle run net")


def test_nothing_is_recorded_without_a_clock():
    with Device("tiny", "golden", memory_bytes=1 << 20) as device, recording() as recorder:
        with record_layer("product", "MATMUL"):
            device.matmul(np.ones((4, 4), np.int8), np.ones((4, 4), np.int8))
        device.add(np.ones(16, np.int8), np.ones(16, np.int8), (1, 1), 0)
    assert [(layer.name, [run.name for run in layer.runs]) for layer in recorder.layers] == [("product", ["streaming"]), ("sum", ["sum"])]
    assert trace_faults(trace_events(recorder, "golden")) == [] and layer_figures(recorder)[0].cycles == 0
    assert "no device" not in report(recorder, "golden", "") and "Nothing ran on a device with a clock" in report(recorder, "golden", "")


@pytest.mark.parametrize("cycles", [1, 63, -1, 2.5, True])
def test_intervals(cycles):
    with pytest.raises((ValueError, TypeError), match="sample_cycles must be"), recording(cycles):
        pass
