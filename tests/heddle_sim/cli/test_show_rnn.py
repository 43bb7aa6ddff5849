"""``heddle show rnn``: the picture is that of the cycle model, which the hardware agrees with (tests/heddle/rnn/test_timing.py)."""

import xml.etree.ElementTree as ElementTree

import pytest
from heddle import load_config
from heddle_sim.draw.timeline_text import draw
from heddle_sim.rnn.network import Network
from heddle_sim.rnn.reference import FloatLayer
from heddle_sim.rnn.timeline import model_timeline
from heddle_sim.rnn.timing import task_cycles
from heddle_verif.command_line import answer, call
from numpy import ones, zeros

SHOW = ["show", "rnn", "--config", "recurrent64"]
CFG = load_config("recurrent64")


def rows(capsys, *arguments):
    found = answer(capsys, *SHOW, *arguments)
    assert (found["bench"], found["config"]) == ("show rnn", "recurrent64") and found["rows"][0]["kind"] == "timeline"
    return found["rows"][0], found["rows"][1:]


def timeline(threads=1, steps=5, size=8):
    network = Network.of_layer(FloatLayer("lstm", ones((4, size, 3)), ones((4, size, size)), *zeros((2, 4, size)),
                                           ("Sigmoid", "Tanh", "Tanh")))
    return model_timeline(CFG, network.model(CFG), threads, steps)


@pytest.mark.parametrize("cell, threads", [("lstm", 1), ("lstm", 2), ("gru", 1), ("gru", 4), ("gru_linear", 3), ("rnn", 2)])
def test_every_sweep_once(capsys, cell, threads):
    """One thread at a time has the lanes; a sweep takes what its columns take; jobs follow their sweeps and do not overlap."""
    about, sweeps = rows(capsys, "--cell", cell, "--threads", str(threads), "--steps", "6")
    count = {"lstm": 2, "gru": 4, "gru_linear": 3, "rnn": 2}[cell]
    assert sorted((row["thread"], row["step"], row["sweep"]) for row in sweeps) == [
        (thread, step, sweep) for thread in range(threads) for step in range(6) for sweep in range(count)]
    columns = [tuple(run) for row in sweeps for run in row["columns"]]
    assert all(before[1] <= after[0] for before, after in zip(columns, columns[1:]))
    assert about["lanes_busy"] == sum(end - begin for begin, end in columns)
    gaps = sum(end - begin for begin, end in about["gaps"])
    assert about["lanes_busy"] + gaps == columns[-1][1] - columns[0][0]
    jobs = [row for row in sweeps if row["job_begin"] is not None]
    assert all(row["columns"][-1][0] < row["job_begin"] < row["job_end"] < row["written"] for row in jobs)
    assert all(before["job_end"] <= after["job_begin"] for before, after in zip(jobs, jobs[1:]))
    assert about["cycles"] == max(row["written"] for row in jobs) and about["tail_busy"] == sum(r["job_end"] - r["job_begin"] for r in jobs)
    for thread in range(threads):
        written = [row["written"] for row in jobs if row["thread"] == thread]
        assert written == sorted(written)
    assert len({row["symbol"] for row in sweeps}) == count


def test_threads_fill_the_gaps(capsys):
    """A GRU of 16 elements waits for half of the time alone, hardly at all with four threads."""
    paces = [rows(capsys, "--cell", "gru", "--threads", str(threads), "--steps", "8")[0]["cycles_per_step"] for threads in (1, 2, 4)]
    assert paces[0] > 50 and paces[1] < 0.6 * paces[0] and 24 <= paces[2] < 28


def test_text_has_a_place_for_every_cycle(capsys):
    found = timeline(threads=2)
    assert found.cycles == task_cycles(CFG, [(found.model, 5)] * 2, 2)
    lines = draw(found, columns=10_000)
    assert [line[:10].strip() for line in lines] == ["cycle", "lanes", "thread 0", "tail", "thread 1", "tail"]
    places = [line[10:].ljust(found.cycles) for line in lines[1:]]
    assert max(map(len, places)) == found.cycles
    symbols = found.symbols()
    assert symbols == ["x", "h"] and sum(places[0].count(name) for name in "01") == found.busy
    for span in found.spans:
        for begin, end in span.columns:
            assert places[0][begin:end] == str(span.context) * (end - begin)
            assert places[1 + 2 * span.context][begin:end] == symbols[span.sweep] * (end - begin)
        if span.job:
            begin, end, written = span.job
            assert places[2 + 2 * span.context][begin:end] == str(span.step) * (end - begin)
            assert set(places[2 + 2 * span.context][end:written]) <= set("-01234")


def test_long_runs_are_cut_and_shrunk():
    found = timeline()
    whole = draw(found, columns=60)
    stretches = sum(line.startswith("cycle") for line in whole)
    assert stretches == -(-found.cycles // 50) and max(map(len, whole)) <= 60
    short = draw(found, columns=60, limit=2)
    assert short[:-1] == whole[:len(short) - 1] and short[-1] == f"and {found.cycles - 100} more cycles (--lines {stretches} shows all)"
    assert sum(line.startswith("cycle") for line in draw(found, columns=60, scale=4)) == -(-found.cycles // 200)
    plain, coloured = "".join(draw(found)), "".join(draw(found, colour=True))
    assert "\x1b" not in plain and "\x1b[38;5;16;48;5;" in coloured


def test_terminal_output(capsys):
    code, out, _ = call(capsys, *SHOW, "--hidden", "16", "--threads", "2", "--steps", "5")
    lines = out.splitlines()
    assert code == 0 and lines[0] == "lstm of 16 elements, 16 inputs, 5 steps, 2 threads; lanes of recurrent64: 16 x 4 multipliers, cat 1"
    assert "h  sweep 1: y.h times the weights of icfo, 4 columns of 4 cycles; job of 4 operations for 2 groups of elements" in lines[2]
    assert "between the first and the last column nobody has the lanes in 0" in lines[3]


def test_svg(capsys, tmp_path):
    path = tmp_path / "threads.svg"
    code, out, _ = call(capsys, *SHOW, "--cell", "gru", "--threads", "2", "--steps", "3", "--svg", str(path))
    _, sweeps = rows(capsys, "--cell", "gru", "--threads", "2", "--steps", "3")
    assert code == 0 and out.endswith(f"wrote {path}\n")
    name = "{http://www.w3.org/2000/svg}"
    titles = [item.text for item in ElementTree.parse(path).getroot().iter(f"{name}title")]
    jobs = [row for row in sweeps if row["job_begin"] is not None]
    assert sum(": job, " in title for title in titles) == len(jobs) == 2 * 3 * 2
    for row in sweeps:
        about = f"thread {row['thread']}, step {row['step']}, sweep {row['sweep']} ({row['vector']})"
        assert all(f"{about}: cycles {begin} to {end - 1}" in titles for begin, end in row["columns"])


@pytest.mark.parametrize("arguments, says", [
    (["--threads", "9"], "--threads must be at most 8, not 9"),
    (["--hidden", "0"], "invalid number of elements from 1 to 8192 value: '0'"),
    (["--hidden", "512"], "weights must fit 2048 (factor_words of configuration recurrent64)"),
    (["--cell", "cnn"], "invalid choice: 'cnn'"),
])
def test_wrong_use(capsys, arguments, says):
    code, out, err = call(capsys, *SHOW, *arguments)
    assert code == 2 and not out and err.count("\n") == 1 and says in err
