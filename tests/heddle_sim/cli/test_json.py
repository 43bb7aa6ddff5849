"""``--json`` of every verb: one object on standard output, by one writer."""

import argparse
import shlex
from pathlib import Path
from types import SimpleNamespace

import heddle_sim.cli
import pytest
from heddle_sim.cli import main
from heddle_sim.cli.figures import Command, Figure, store_figures
from heddle_sim.cli.main import VERBS, parser_of
from heddle_verif.command_line import answer
from heddle_verif.stimulus.tflite_files import pooling_network

CLI = Path(heddle_sim.cli.__file__).parent
# They write files as well.
WRITERS = {"common.py", "generate.py", "figures.py", "tracing.py"}
GOLDEN = "--config tiny --simulator golden --memory-mib 1"
# Verb: its options, and the configuration that it names.
CALLS = {
    "generate": ("--config tiny --unit alu --quiet -o {folder}", "tiny"),
    "asm": ("{folder}/program.s --config tiny", "tiny"),
    "disasm": ("{folder}/program.hex", None),
    "run matmul": (f"--m 2 --n 3 --k 4 {GOLDEN}", "tiny"),
    "run conv": (f"--size 5,4 --channels 3 --outputs 2 --filter 3,2 {GOLDEN}", "tiny"),
    "run model": (f"{{folder}}/network.tflite {GOLDEN}", "tiny"),
    "run program": (f"{{folder}}/program.s {GOLDEN}", "tiny"),
    "bench gemm": (f"--m 2 --n 3 --k 4 {GOLDEN}", "tiny"),
    "bench merge": ("--config base --simulator golden", "base"),
    "bench gather": (GOLDEN, "tiny"),
    "bench copy": (f"--quick {GOLDEN}", "tiny"),
    "bench conv": (f"--quick {GOLDEN}", "tiny"),
    "bench pool": (f"--quick {GOLDEN}", "tiny"),
    "bench spmm": (f"--quick --suite generated --n 16 {GOLDEN}", "tiny"),
    "bench sddmm": (f"--quick --suite generated --k 40 {GOLDEN}", "tiny"),
    "bench balance": ("--config tiny", "tiny"),
    "bench loads": ("--vector 8 --sub-warps 2", "model"),
    "bench rnn": ("--hidden 4 --threads 1 --config small --simulator golden", "small+rnn"),
    "bench models": ("--config base --simulator golden", "base"),
    "bench rnn-plan": ("--multipliers 1024 --hidden 64", "model"),
    "bench transpose": (f"--m 2 --n 3 --k 4 {GOLDEN}", "tiny"),
    "bench check": ("--figures {folder}/figures.json", None),
    "bench elaborate": ("--unit alu --config tiny", "tiny"),
    "bench simspeed": ("--config tiny", "tiny"),
    "synth": ("--unit alu --config tiny --quiet", "tiny"),
    "show configs": ("", None),
    "show registers": ("", None),
    "show counters": ("", None),
    "show errors": ("", None),
    "show units": ("", None),
    "show instructions": ("", None),
    "show tensormap": ("--shape 8 64 --box 4 16 --config tiny", "tiny"),
    "show conv": ("--size 6,6 --channels 4 --outputs 8 --filter 3,3 --pads 1 --config tiny", "tiny"),
    "show rnn": ("--hidden 4 --threads 8 --config small", "small+rnn+rnn_contexts=8"),
    "show sparse": ("--rows 60 --columns 40", "quad"),
    "doctor": ("", None),
}


def leaves(parser, words):
    """(words, parser) of all that a verb can do."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield words, parser
    for action in below:
        for name, child in action.choices.items():
            yield from leaves(child, [*words, name])


def parsers():
    for verb in VERBS:
        (verbs,) = (action for action in parser_of(verb)._actions if isinstance(action, argparse._SubParsersAction))
        yield from leaves(verbs.choices[verb], [verb])


def test_all_verbs_are_called():
    found = {" ".join(words): parser for words, parser in parsers()}
    assert set(found) == set(CALLS)
    for words, parser in found.items():
        assert "--json" in parser._option_string_actions, words


def test_there_is_one_writer():
    assert {path.name for path in CLI.glob("*.py") if "json.dump" in path.read_text()} == WRITERS


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    """A folder with what the calls read; what takes minutes is left out."""
    (tmp_path / "program.s").write_text("start: bra next\nnext: halt\n")
    assert main(["asm", str(tmp_path / "program.s"), "-o", str(tmp_path / "program.hex")]) == 0
    store_figures([Command("README.md", f"bench gemm --m 2 --n 3 --k 4 {GOLDEN}", None, None, [Figure({}, "macs", 24)])],
                  tmp_path / "figures.json")
    pooling_network(tmp_path / "network.tflite")
    rows = [{"simulator": "device", "cycles": 1}]
    monkeypatch.setattr("heddle_sim.cli.bench.importlib", SimpleNamespace(
        import_module=lambda name: SimpleNamespace(measure=lambda cfg, **options: rows)))
    counts = dict(unit="alu", target="ecp5", lut=1, carry=1, ff=1, dsp=0, bram=0, fmax_mhz=None)
    monkeypatch.setattr("heddle_sim.cli.synth.synthesise", lambda *arguments, **options: [counts])
    return tmp_path


@pytest.mark.parametrize("verb", CALLS)
def test_one_object(verb, prepared, capsys):
    options, config = CALLS[verb]
    found = answer(capsys, *verb.split(), *shlex.split(options.format(folder=prepared)))
    assert found["config"] == config and found["rows"] and all(isinstance(row, dict) for row in found["rows"])


def test_instructions(prepared, capsys):
    """``asm`` and ``disasm`` give the same rows, and write the same files as without ``--json``."""
    words, text = prepared / "again.hex", prepared / "again.s"
    found = []
    for command in (["asm", str(prepared / "program.s"), "-o", str(words)], ["disasm", str(prepared / "program.hex"), "-o", str(text)]):
        found.append(answer(capsys, *command)["rows"])
    assert found[0] == found[1] and [row["pc"] for row in found[0]] == [0, 1] and found[0][1]["text"] == "halt"
    assert words.read_text() == (prepared / "program.hex").read_text() == "".join(f"{row['word']}\n" for row in found[0])
    assert text.read_text() == "    bra L1\nL1:\n    halt\n"


def test_tables_name_what_ran(capsys):
    options, _ = CALLS["bench rnn"]
    assert main(["bench", "rnn", *options.split()]) == 0
    assert capsys.readouterr().out.startswith("configuration small+rnn\n")
