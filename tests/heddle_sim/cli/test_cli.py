"""The command line: exit codes, one line per error, JSON and nothing else on standard output."""

import json
from xml.etree import ElementTree

import pytest
from heddle import load_config
from heddle.config import preset_names
from heddle.isa.counter_table import BREAKDOWN
from heddle_sim.cli.bench_conv import conv_row
from heddle_sim.cli.convolution_suites import Layer
from heddle_sim.device import Device
from heddle_verif.command_line import answer, call

GOLDEN = ["--config", "tiny", "--simulator", "golden", "--memory-mib", "1"]


@pytest.mark.parametrize("verb", ["generate", "asm", "disasm", "run", "bench", "synth", "show", "doctor"])
def test_every_verb_has_help(capsys, verb):
    code, out, err = call(capsys, verb, "--help")
    assert code == 0 and out.startswith(f"usage: heddle {verb}") and not err


@pytest.mark.parametrize(
    "arguments, says",
    [
        ([], "see heddle --help"),
        (["weave"], "invalid choice: 'weave'"),
        (["run", "matmul", "--m", "4"], "the following arguments are required: --n, --k"),
        (["run", "matmul", "--m", "0", "--n", "1", "--k", "1"], "invalid positive integer value: '0'"),
        (
            ["run", "matmul", "--m", "1", "--n", "1", "--k", "1", "--config", "nope"],
            "configuration must be one of base, ",
        ),
        (["run", "matmul", "--m", "1", "--n", "1", "--k", "1", "--bandwidth", "2"], "bandwidth must be above 0"),
        (["run", "matmul", "--m", "2048", "--n", "2048", "--k", "1", *GOLDEN], "memory_bytes must leave room"),
        (["bench", "gemm", "--m", "4", "--n", "4", *GOLDEN], "--m, --n and --k must be given together"),
        (["bench", "gemm", "--m", "4", "--n", "4", "--k", "4", "--ka", "4", "--kb", "4", *GOLDEN],
         "ka and kb must give groups of at most 8 lanes, not 16 (ka 4, kb 4)"),
        (["bench", "gemm", "--m", "200", "--n", "200", "--k", "4", "--resident", *GOLDEN],
         "shared_memory_kib must be at least 256 for a resident product with threads = 8, dot = 4, m = 200, n = 200, k = 4, not 16"),
        (["generate", "--unit", "loom", "--config", "tiny"], "unit must be one of "),
        (["show", "threads"], "invalid choice: 'threads'"),
        (["synth", "--target", "paper"], "invalid choice: 'paper'"),
        (["bench", "rnn-plan", "--hidden", "3"], "hidden must be at least 4 with 65536 multipliers, as EP is at most 4096, not 3"),
        (["synth", "--unit", "alu", "--seeds", "3"], "--seeds must be 1 without --pnr, not 3"),
    ],
)
def test_wrong_use_is_2_and_one_line(capsys, arguments, says):
    code, out, err = call(capsys, *arguments)
    assert code == 2 and not out
    assert err.count("\n") == 1 and "error: " in err and says in err


@pytest.mark.parametrize(
    "text, says",
    [
        ("jump\n", "line 1: mnemonic must be an instruction, not 'jump'"),
        ("nop\nmov r0, ur64\n", "line 2: "),
    ],
)
def test_bad_programs_are_2_and_name_the_line(capsys, tmp_path, text, says):
    source = tmp_path / "bad.s"
    source.write_text(text)
    code, out, err = call(capsys, "asm", str(source))
    assert code == 2 and not out and err.count("\n") == 1 and says in err


def test_missing_files_are_2(capsys, tmp_path):
    code, out, err = call(capsys, "asm", str(tmp_path / "none.s"))
    assert code == 2 and not out and err.count("\n") == 1 and "none.s" in err


@pytest.mark.parametrize("suffix", [".bin", ".hex"])
def test_asm_disasm_run_round_trip(capsys, tmp_path, suffix):
    """Text to words to text to the same words; and the words run [S0.1]."""
    source, words, again = tmp_path / "a.s", tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    source.write_text("start: mm8.sa.ub.z r0, ur4:rf290:0x10, r256\n@up1 bra start\nhalt\n")
    assert call(capsys, "asm", str(source), "-o", str(words), "--config", "tiny")[0] == 0
    code, out, _ = call(capsys, "disasm", str(words))
    assert code == 0 and "mm8" in out and "halt" in out
    (tmp_path / "c.s").write_text(out)
    assert call(capsys, "asm", str(tmp_path / "c.s"), "-o", str(again), "--config", "tiny")[0] == 0
    assert again.read_bytes() == words.read_bytes()

    (tmp_path / "run.s").write_text("halt\n")
    runnable = tmp_path / f"run{suffix}"
    assert call(capsys, "asm", str(tmp_path / "run.s"), "-o", str(runnable))[0] == 0
    found = answer(capsys, "run", "program", str(runnable), *GOLDEN)
    assert found["rows"][0]["counters"]["instructions"] == 1


def test_run_matmul_json(capsys):
    found = answer(
        capsys, "run", "matmul", "--m", "5", "--n", "9", "--k", "7", "--seed", "3", "--dtype", "uint8", *GOLDEN
    )
    assert (found["bench"], found["config"]) == ("matmul", "tiny")
    (row,) = found["rows"]
    expected = {
        "m": 5,
        "n": 9,
        "k": 7,
        "dtype": "uint8",
        "b_layout": "nk",
        "resident": False,
        "seed": 3,
        "macs": 315,
        "checked": True,
        "peak_macs_per_cycle": 32,
        "cycles": None,
        "utilization": None,
    }
    assert expected.items() <= row.items()


def test_bench_gemm_says_what_it_chose(capsys):
    options = ["--m", "3", "--n", "9", "--k", "17", "--ka", "2", "--kb", "2", "--order", "column-outer", "--resident", *GOLDEN]
    (row,) = answer(capsys, "bench", "gemm", *options)["rows"]
    wanted = {"m": 3, "n": 9, "k": 17, "ka": 2, "kb": 2, "order": "column-outer", "dtype": "int8", "b_layout": "nk", "resident": True,
              "checked": True}
    assert wanted.items() <= row.items()
    (row,) = answer(capsys, "bench", "gemm", "--m", "4", "--n", "16", "--k", "300", *GOLDEN)["rows"]
    assert row["ka"] * row["kb"] > 1 and row["order"] == "k-outer" and row["resident"] is False


def test_bench_suite_and_merge(capsys):
    found = answer(capsys, "bench", "gemm", "--suite", "resident", "--config", "resident64", "--simulator", "golden")
    assert [(row["m"], row["n"], row["k"]) for row in found["rows"]][-1] == (1, 64, 256)
    assert all(row["resident"] and row["suite"] == "resident" and row["checked"] for row in found["rows"])
    found = answer(capsys, "bench", "merge", "--config", "base", "--simulator", "golden")
    assert [(row["ka"], row["kb"], row["resident"]) for row in found["rows"]] == [
        (1, 1, True), (4, 1, True), (1, 4, True), (4, 1, False)]


def test_bench_gemm_json(capsys):
    found = answer(capsys, "bench", "gemm", "--m", "8", "--n", "8", "--k", "8", "--no-check", *GOLDEN)
    assert found["bench"] == "gemm" and found["rows"][0]["checked"] is False


def test_a_wrong_result_is_1(capsys, monkeypatch):
    real = Device.matmul

    def wrong(self, a, b, **options):
        c, stats = real(self, a, b, **options)
        c[1, 2] += 1
        return c, stats

    monkeypatch.setattr(Device, "matmul", wrong)
    code, out, err = call(capsys, "run", "matmul", "--m", "3", "--n", "4", "--k", "5", *GOLDEN, "--json")
    assert code == 1 and not out and "result must equal numpy's: C[1, 2] is " in err


def test_device_errors_are_1(capsys, tmp_path):
    source = tmp_path / "trap.s"
    source.write_text("trap 9\n")
    code, out, err = call(capsys, "run", "program", str(source), *GOLDEN, "--json")
    assert code == 1 and not out and "TRAP at instruction 0 (line 1: trap 9): trap 9" in err


def test_uniform_registers(capsys, tmp_path):
    source = tmp_path / "use.s"
    source.write_text("usetp.eq up0, ur5, 0x10\n@!up0 trap 1\nhalt\n")
    arguments = ["run", "program", str(source), *GOLDEN]
    assert call(capsys, *arguments, "--uniform", "5=16")[0] == 0
    assert call(capsys, *arguments, "--uniform", "ur5=0x11")[0] == 1
    code, _, err = call(capsys, *arguments, "--uniform", "five")
    assert code == 2 and "--uniform must be NUMBER=VALUE, not 'five'" in err


@pytest.mark.parametrize(
    "subject, names",
    [
        ("configs", preset_names()),
        ("counters", ["cycles", *BREAKDOWN]),
        ("registers", ["id", "status"]),
        ("errors", ["TIMEOUT"]),
        ("units", ["heddle", "pe", "tmau"]),
        ("instructions", ["mm8", "halt"]),
    ],
)
def test_show(capsys, subject, names):
    found = answer(capsys, "show", subject)
    assert set(names) <= {row["name"] for row in found["rows"]}
    code, out, _ = call(capsys, "show", subject)
    assert code == 0 and all(name in out for name in names)


def test_doctor(capsys, monkeypatch):
    found = answer(capsys, "doctor")
    assert {"python", "g++", "make", "iverilog", "amaranth", "verilator runs"} <= {
        row["name"] for row in found["rows"]
    }
    assert all(row["ok"] for row in found["rows"])
    monkeypatch.setenv("PATH", "/nowhere")
    code, out, err = call(capsys, "doctor")
    assert code == 1 and "FAIL  g++" in out and err.count("\n") == 1 and "install the package g++" in err


def test_generate_writes_verilog_and_manifest(capsys, tmp_path):
    """Ports of the manifest are those of the module; a second generation gives the same bytes."""
    outputs = []
    for folder in ("first", "second"):
        code, out, err = call(
            capsys, "generate", "--config", "tiny", "--unit", "control_registers", "-o", str(tmp_path / folder)
        )
        assert code == 0 and not err and "control_registers.v" in out
        outputs.append([(tmp_path / folder / f"control_registers.{suffix}").read_text() for suffix in ("v", "json")])
    assert outputs[0] == outputs[1]
    verilog, manifest = outputs[0][0], json.loads(outputs[0][1])
    assert manifest["parameters"] == load_config("tiny").as_dict()
    for port in manifest["ports"]:
        width = f" [{port['width'] - 1}:0]" if port["width"] > 1 else ""
        assert f"{port['direction']}{width} {port['name']};" in verilog


def test_generate_names_the_configuration_of_a_unit(capsys, tmp_path):
    """The engine alone has one, whatever the preset has: name and parameters say so."""
    assert answer(capsys, "generate", "--config", "small", "--unit", "rnn_tail", "--quiet", "-o", str(tmp_path))["config"] == "small+rnn"
    manifest = json.loads((tmp_path / "rnn_tail.json").read_text())
    assert manifest["config"] == "small+rnn" and manifest["parameters"] == load_config("small").replace(rnn=True).as_dict()


def test_bench_gather(capsys):
    plain, swizzled, *others = answer(capsys, "bench", "gather", "--config", "tiny", "--memory-mib", "1")["rows"]
    windows, pixels = others[:8], others[8:]
    assert (plain["layout"], swizzled["layout"]) == ("plain", "swizzled") and plain["checked"] and swizzled["checked"]
    assert (plain["gather_cycles"], plain["bank_conflicts"]) == (8, 7)          # eight threads at one bank
    assert (swizzled["gather_cycles"], swizzled["bank_conflicts"]) == (1, 0) and swizzled["speedup"] == 8
    assert [(row["layout"], row["entry_bytes"]) for row in windows] == [(name, size) for name in ("NHWC", "NCHW") for size in (1, 4, 8, 16)]
    assert all(row["checked"] and row["elements_a_cycle"] > 1 for row in windows) and windows[0]["bank_conflicts"] == 0
    assert [(row["place"], row["entry_bytes"]) for row in pixels] == [(place, size) for place in ("dense", "odd pitch", "swizzled")
                                                                      for size in (1, 4, 8, 16)]
    for row in pixels:          # eight threads at two banks: three of four wait
        waits = 3 * row["elements"] / 8 if row["place"] == "dense" else 0
        assert row["checked"] and row["bank_conflicts"] == waits, row
    assert answer(capsys, "bench", "gather", *GOLDEN)["rows"][1]["gather_cycles"] is None


def test_bench_copy(capsys):
    """On the hardware: tests/heddle_sim/device/test_tensor_rtl.py."""
    found = answer(capsys, "bench", "copy", "--quick", *GOLDEN)["rows"]
    assert all(row["checked"] and row["beats_per_cycle"] is row.get("start_cycles") is None for row in found)
    ways = {(way, mode) for way in ("load", "store") for mode in ("tile", "im2col")}
    assert {(row["direction"], row["mode"]) for row in found} == ways | {("global_global", "block")}


@pytest.mark.parametrize("what", ["copy", "conv"])
def test_bench_of_configuration_without_tensors(capsys, what):
    """No preset is measured with parameters that it does not have."""
    code, _, err = call(capsys, "bench", what, "--config", "small", "--simulator", "golden")
    assert code == 2
    assert err.endswith(f"--config must be one with tensors for bench {what} (base, large, quad, small_all, tiny), not small\n")


def test_bench_conv_of_a_network_without_cycles(capsys):
    """The functional simulator counts none, neither does the row of all layers."""
    rows = answer(capsys, "bench", "conv", "--suite", "mobilenet", "--requantise", "--config", "base", "--simulator", "golden")["rows"]
    assert len(rows) == 28 and rows[-1]["image"] == "all layers" and rows[-1]["cycles"] is None
    assert rows[-1]["macs"] == sum(row["macs"] for row in rows[:-1]) == 7_489_152


def test_rows_of_layers_that_do_not_fit():
    """A suite goes on; the row says which parameter must be what."""
    with Device("base", "golden", memory_bytes=1 << 22) as device:
        row = conv_row(device, Layer((4, 2000, 128), (128, 3, 3), (1, 1), (1, 1)), 0, True, "compiled", True)
    assert row["cycles"] is None and not row["checked"]
    assert row["why_not"].startswith("shared_memory_kib must be at least")


def test_a_method_that_no_layer_can_take_is_an_error(capsys):
    code, out, err = call(capsys, "bench", "conv", "--quick", "--requantise", *GOLDEN)
    assert code == 2 and not out and "configuration tiny must have output_stage for requantise" in err


def test_bench_conv(capsys):
    found = answer(capsys, "bench", "conv", "--quick", *GOLDEN)["rows"]
    assert [(row["image"], row["method"], row["checked"], row["cycles"]) for row in found] == [
        ("8x8x16", method, True, None) for method in ("im2col", "compiled")]
    im2col, compiled = found
    for row in found:       # the bus is counted by the hardware only
        assert row["read_bytes"] is row["write_bytes"] is row["line_lookups"] is None and row["im2col_bytes"] == 64 * 9 * 16
        assert 0 < row["shared_bytes"] <= 16 << 10 and row["factor_bytes"] > 0
    assert im2col["offset_bytes"] == 0 and im2col["representation_bytes"] is im2col["representation_ms"] is None
    assert compiled["offset_bytes"] > 0 < compiled["representation_ms"] < 100
    assert im2col["line_fetches"] is None and 0 < compiled["line_fetches"] <= compiled["line_fetches_natural"]
    assert compiled["representation_bytes"] >= 4 * 64 + compiled["offset_bytes"]


def test_bench_conv_of_several_cores_has_both_methods(capsys):
    found = answer(capsys, "bench", "conv", "--quick", "--config", "quad", "--simulator", "golden")["rows"]
    assert [(row["method"], row["checked"]) for row in found] == [("im2col", True), ("compiled", True)]


def test_bench_conv_on_the_hardware(capsys, tmp_path):
    """Bytes on the bus: all of x and of the filters at least, and the result once; a drawing with a bar for each figure."""
    path = tmp_path / "costs.svg"
    found = answer(capsys, "bench", "conv", "--quick", "--config", "tiny", "--memory-mib", "1", "--quiet", "--plot", str(path))["rows"]
    for row in found:
        assert row["checked"] and row["read_bytes"] >= 8 * 8 * 16 + 16 * 9 * 16 and row["write_bytes"] >= 4 * 8 * 8 * 16
        assert row["line_lookups"] > 0
    texts = [item.text for item in ElementTree.parse(path).iter() if item.tag.endswith("text")]
    assert {"im2col", "compiled", "8x8x16, 16x3x3", *(f"{row[name]:,}" for row in found for name in ("cycles", "read_bytes"))} <= set(texts)


def test_run_conv(capsys):
    """A layer of any layout, by each method; what is wrong is one line."""
    words = ["run", "conv", "--size", "9,8", "--channels", "4", "--outputs", "6", "--filter", "3,2", "--pads", "1", "--group", "2", *GOLDEN]
    for method, layout in (("compiled", "NCHWc4"), ("im2col", "NHWC"), ("auto", "CNHW")):
        (row,) = answer(capsys, *words, "--method", method, "--layout", layout)["rows"]
        assert row["checked"] and row["layout"] == layout and row["macs"] == 9 * 9 * 6 * 2 * 6 * 1 * (row["images"])
    for more, says in ((["--filter", "3"], "--filter must have as many numbers as --size"), (["--group", "3"], "group must divide"),
                       (["--filter", "30,30"], "filters of w must fit the padded size")):
        code, out, err = call(capsys, *words, *more)
        assert code == 2 and not out and says in err


def test_bench_elaborate(capsys):
    (row,) = answer(capsys, "bench", "elaborate", "--unit", "alu", "--config", "tiny")["rows"]
    assert row["elaborate_seconds"] > 0 and row["modules"] >= 1 and row["verilog_bytes"] > 1000
    assert answer(capsys, "bench", "elaborate", "--unit", "rnn_tail", "--config", "small")["config"] == "small+rnn"


def test_simspeed_says_what_is_missing(capsys, monkeypatch):
    monkeypatch.setattr("heddle_sim.cli.bench.SIMSPEED_MODULE", "heddle_verif.no_such_module")
    code, out, err = call(capsys, "bench", "simspeed", "--config", "tiny", "--json")
    assert code == 1 and not out and "run make setup" in err


def test_synth_counts_cells(capsys):
    row, whole, *parts = answer(capsys, "synth", "--unit", "alu", "--config", "tiny", "--parts", "--quiet")["rows"]
    assert {part["unit"] for part in parts} > {"alu.decode_result", "alu.datapath_result"}
    assert whole["unit"] == "alu (parts)" and whole["lut"] >= sum(part["lut"] for part in parts)
    assert whole["dsp"] == 0 and 0.9 * row["lut"] < whole["lut"] < 1.3 * row["lut"]
    assert row["lut"] > 0 and row["fmax_mhz"] is None and row["dsp"] == 0
    assert {"carry", "ff", "bram", "unit", "target"} <= set(row)


TMAU = "base-tensor_floats-copy_within+l2_kib=0-reductions-reduction_floats"       # the configuration with an area target


def test_synth_names_peers(capsys, monkeypatch):
    """Figures of others stand beside ours, with their source."""
    counts = dict(unit="tmau", target="xilinx", lut=1, carry=1, ff=1, dsp=1, bram=1, fmax_mhz=None)
    monkeypatch.setattr("heddle_sim.cli.synth.synthesise", lambda *arguments, **options: [counts])
    printed = answer(capsys, "synth", "--unit", "tmau", "--target", "xilinx")
    (row,) = printed["rows"]
    assert printed["config"] == TMAU        # small has no such unit
    assert [peer["lut"] for peer in row["peers"]] == [13148] and "vortexgpgpu/vortex" in row["peers"][0]["source"]
    code, out, _ = call(capsys, "synth", "--unit", "tmau", "--target", "xilinx")
    assert code == 0 and out.startswith(f"configuration {TMAU}\n")
    assert "lut 13,148, ff 5,624, dsp 7, bram 12.5, fmax_mhz 301.6; published" in out


def test_synth_of_several_units(capsys, monkeypatch):
    """A row for each; units that need more than the configuration has name theirs. A wrong name stops all before the first."""
    done = []

    def counted(cfg, unit, target, **options):
        done.append(unit)
        return [dict(unit=unit, target=target, lut=1, carry=1, ff=1, dsp=1, bram=1, fmax_mhz=None)]

    monkeypatch.setattr("heddle_sim.cli.synth.synthesise", counted)
    printed = answer(capsys, "synth", "--config", "small", "--unit", "alu", "--unit", "rnn")
    found = [(row["unit"], row["config"]) for row in printed["rows"]]
    assert printed["config"] == "small" and found == [("alu", "small"), ("rnn", "small+rnn")]
    code, _, err = call(capsys, "synth", "--unit", "alu", "--unit", "nothing")
    assert code == 2 and "not 'nothing'" in err and done == ["alu", "rnn"]


def test_interruption_is_1(capsys, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("heddle_sim.cli.bench.gemm_row", interrupted)
    code, _, err = call(capsys, "bench", "gemm", *GOLDEN)
    assert code == 1 and err == "heddle bench: error: interrupted\n"
