"""``heddle bench check``: the stored figures, the pages that give them, and that a wrong figure is noticed."""

import copy
import itertools
import json
import re
import shlex
from pathlib import Path

import pytest
from heddle.errors import UsageError
from heddle_sim.cli import main
from heddle_sim.cli.bench_spmm import BREAK_EVEN_SPARSITIES, plot_rows
from heddle_sim.cli.convolution_suites import CONVOLUTIONS
from heddle_sim.cli.figures import FIGURES, Command, Figure, load_figures, printed_like, printed_value, store_figures
from heddle_sim.docgen.figure_tables import with_figures
from heddle_sim.draw.cost_svg import COST_FIELDS, cost_svg

ROOT = Path(__file__).resolve().parents[3]
COMMANDS = load_figures()
# Numbers of README's rows that are no figures: what the shape allows, lengths, and cells for each of 128 multipliers.
NO_FIGURES = {"bench rnn --config recurrent64 --hidden 64 --threads 1": ["512", "48"], "bench rnn --config large --hidden 256": ["512"],
              "bench rnn --suite skipping": ["336"], "synth --target ecp5": ["4", "100.3"]}
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?: %)?")
# Tables of the pages that no stored row can give, and why.
NOT_STORED = {
    "simulated by": "depends on the machine",
    "case": "no figures", "what": "no figures", "operand": "no figures", "order": "no figures", "published": "rows of the listing above",
    "layers": "asserted by test_model", "lanes": "asserted by test_timing", "layout": "asserted by test_representation",
    "streams": "weights that are not part of the project",
    "TFLite": "no figures", "where the rest went": "no figures",
    "450 images, 8 steps each": "of an example, which asserts its results",
}
README_ROWS = re.findall(r"^\| .* \| (.*) \| `heddle (.*)` \|$", (ROOT / "README.md").read_text(), re.MULTILINE)


def test_form(tmp_path):
    """All figures were measured, at a commit; what is written is read again."""
    assert len(COMMANDS) > 10
    for command in COMMANDS:
        assert command.words[0] in ("bench", "run", "synth") and "--json" not in command.words and (ROOT / command.page).is_file()
        assert command.figures and all(0 <= figure.tolerance < 0.05 for figure in command.figures), command.command
        assert all(figure.expected is not None for figure in command.figures), command.command
        assert command.commit and command.seconds > 0, command.command
    store_figures(COMMANDS, tmp_path / "figures.json")
    assert (tmp_path / "figures.json").read_text() == FIGURES.read_text()


def test_readme_rows_are_stored():
    """Each row of README's table of figures has stored ones, by its command, and its numbers are among them."""
    assert len(README_ROWS) >= 8
    stored = {command.command: command for command in COMMANDS if command.page == "README.md"}
    for text, command in README_ROWS:
        assert command in stored, command
        shown = [figure.shown for figure in stored[command].figures if figure.shown is not None]
        numbers = [number.rstrip(",") for number in NUMBER.findall(re.sub(r"\(\[.*?\]\(.*?\)\)|`.*?`", "", text))]
        assert set(shown) <= set(numbers), command
        assert [number for number in numbers if number not in shown] == NO_FIGURES.get(command, []), command


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: f"{command.page}: {command.command}")
def test_pages_give_what_is_stored(command):
    page = (ROOT / command.page).read_text()
    for figure in command.figures:
        if figure.shown is not None and figure.expected is not None:
            assert re.search(rf"(?<![\d,.]){re.escape(figure.shown)}", page), f"{command.page} does not say {figure.shown}"
            assert figure.agrees_with_page(), f"{command.page} says {figure.shown}, {figure.expected} is stored ({command.command})"


@pytest.mark.parametrize("name", ["benchmarks", "convolution", "models", "pooling", "recurrent", "sparse"])
def test_tables_of_the_pages_are_stored(name):
    """Each row of a table with numbers has one that is stored, or the table says why not."""
    page = f"docs/{name}.md"
    shown = {figure.shown for command in COMMANDS if command.page == page for figure in command.figures}
    lines = (ROOT / page).read_text().split("\n")
    heading, rows = None, 0
    for before, line in itertools.pairwise(lines):
        if line.startswith("|--"):
            heading = before.split("|")[1].strip()
        elif not line.startswith("|"):
            heading = None
        elif heading is not None and heading not in NOT_STORED and NUMBER.search(line):
            rows += 1
            assert any(number.strip() in shown for number in NUMBER.findall(line)), f"{page}: no figure of the row is stored: {line}"
    assert rows > 0


def test_tables_are_made_from_what_is_stored():
    """Tables between comments have the numbers of the stored rows, and the commands with their commits; another figure changes a cell."""
    pages = {command.page: (ROOT / command.page).read_text() for command in COMMANDS}
    tables = {page: text.count("<!-- figures\n") for page, text in pages.items()}
    assert sum(tables.values()) >= 14
    for page in tables:
        assert with_figures(pages[page], page, COMMANDS) == pages[page], f"{page}: run scripts/docs.sh pages"
    changed = copy.deepcopy(COMMANDS)
    command, = (each for each in changed if (each.page, each.command) == ("docs/pooling.md", "bench pool"))
    command.commit, command.figures[0].expected = "1234567", 51_283
    before, after = pages["docs/pooling.md"].splitlines(), with_figures(pages["docs/pooling.md"], "docs/pooling.md", changed).splitlines()
    different = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert [new for _, new in different] == [different[0][0].replace("51,282", "51,283"), "By `heddle bench pool` at commit `1234567`."]


@pytest.mark.parametrize("column, message", [("2 bench nothing: cycles", "a command that is"), ("2 bench pool: nothing", "must be 0"),
                                             ("1 bench pool: cycles operation=average image=8x8x64", "must have a number"),
                                             ("2.3 bench pool: cycles operation=average image=8x8x64", "column 2 must have 3 numbers")])
def test_wrong_columns_of_tables(column, message):
    text = f"<!-- figures\n{column}\n-->\n| a | b |\n|---|---|\n| c | 1 |\n<!-- end of figures -->"
    with pytest.raises(UsageError, match=message):
        with_figures(text, "docs/pooling.md", COMMANDS)


def test_picture_of_convolutions_shows_what_is_stored():
    stored, = (command.figures for command in COMMANDS
               if (command.page, command.command) == ("docs/convolution.md", "bench conv"))
    rows = [{"image": "x".join(map(str, layer.image)), "filters": "x".join(map(str, layer.filters)), "stride": layer.stride[0],
             "method": method} for layer in CONVOLUTIONS for method in ("im2col", "compiled")]
    for row, field in itertools.product(rows, COST_FIELDS):
        row[field], = (figure.expected for figure in stored if figure.field == field and row.items() >= (figure.where.items() - {
            ("pad", figure.where["pad"])}))
    assert (ROOT / "docs/images/convolution-costs.svg").read_text() == cost_svg(rows), "run make docs"


def test_picture_of_sparse_products_shows_what_is_stored():
    stored, = (command.figures for command in COMMANDS if command.command == "bench spmm --suite break-even")
    found = {(figure.where["matrix"], figure.field): figure.expected for figure in stored}
    rows = [{"sparsity": share, "cycles": found[f"uniform {100 * share:.0f} %", "cycles"]} for share in BREAK_EVEN_SPARSITIES]
    dense = {name: found["dense product", name] for name in ("cycles", "break_even")}
    assert (ROOT / "docs/images/sparse-break-even.svg").read_text() == plot_rows([*rows, dense]), "run make docs"


def check(path, figures, capsys, *options):
    """Exit code, output and the file afterwards; a product on the smallest configuration."""
    command = "bench gemm --config tiny --simulator golden --m 9 --n 5 --k 7"
    store_figures([Command("README.md", command, None, None, figures)], path)
    code = main(["bench", "check", "--figures", str(path), *options])
    return code, capsys.readouterr(), load_figures(path)[0]


def test_a_right_figure_passes_and_a_wrong_one_fails(tmp_path, capsys):
    path = tmp_path / "figures.json"
    right, wrong = Figure({"m": 9}, "macs", 315), Figure({"m": 9}, "macs", 316)
    near = Figure({"m": 9}, "macs", 316, tolerance=0.01)
    code, said, _ = check(path, [right, near], capsys)
    assert code == 0 and [line.split()[0] for line in said.out.splitlines()] == ["ok", "ok"] and "315, expected 315" in said.out
    code, said, _ = check(path, [right, wrong], capsys)
    assert code == 1 and [line.split()[0] for line in said.out.splitlines()] == ["ok", "DIFFER"]
    assert said.err == "heddle bench: error: 1 of 2 figures differ from the stored ones or were not measured\n"


@pytest.mark.nightly
def test_figures_of_the_cycle_model(tmp_path, capsys):
    """Of all pages, measured again: the command takes seconds."""
    chosen = [command for command in COMMANDS if command.command == "bench rnn --suite deepbench"]
    assert {command.page for command in chosen} == {"README.md", "docs/benchmarks.md"}
    store_figures(chosen, tmp_path / "figures.json")
    assert main(["bench", "check", "--figures", str(tmp_path / "figures.json")]) == 0, capsys.readouterr().out


def test_update_stores_what_was_measured(tmp_path, capsys):
    """What is shown has the new value with as many digits as the old one."""
    figures = [Figure({}, "macs", None), Figure({}, "macs", 300, "300.0")]
    code, _, command = check(tmp_path / "figures.json", figures, capsys, "--update")
    assert code == 0 and command.figures[0].expected == 315 and command.seconds > 0
    assert [figure.shown for figure in command.figures] == [None, "315.0"]


def test_what_was_not_measured_differs(tmp_path, capsys):
    """No such row, no such field, a field without a value, nothing stored; a wrong value, as JSON."""
    figures = [Figure({"m": 10}, "macs", 315), Figure({}, "no_such_field", 1), Figure({}, "cycles", 1), Figure({}, "macs", None),
               Figure({}, "macs", 316)]
    code, said, _ = check(tmp_path / "figures.json", figures, capsys, "--json")
    found = json.loads(said.out)["rows"]
    assert code == 1 and [(each["measured"], each["agrees"]) for each in found] == [(None, False)] * 3 + [(315, False)] * 2
    assert found[0]["error"] == "no such row"


def test_a_command_that_fails_differs(tmp_path, capsys):
    path = tmp_path / "figures.json"
    store_figures([Command("README.md", "bench gemm --config nothing", None, None, [Figure({}, "macs", 1)])], path)
    assert main(["bench", "check", "--figures", str(path)]) == 1 and "configuration must be one of" in capsys.readouterr().out


def test_synthesis_only_when_asked_for(tmp_path, capsys):
    path = tmp_path / "figures.json"
    store_figures([Command("README.md", "synth --unit nothing", None, None, [Figure({}, "lut", 1)])], path)
    assert main(["bench", "check", "--figures", str(path)]) == 2
    assert main(["bench", "check", "--figures", str(path), "--synth"]) == 1 and "DIFFER" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["{", "[{}]", '[{"page": 1, "figures": [{"what": 2}]}]'])
def test_wrong_files(text, tmp_path, capsys):
    path = tmp_path / "figures.json"
    path.write_text(text)
    assert main(["bench", "check", "--figures", str(path)]) == 2
    assert "figures must be a list of commands" in capsys.readouterr().err


@pytest.mark.parametrize("text, value, step", [("1,774", 1774, 1), ("98.4 %", 0.984, 0.001), ("512.1", 512.1, 0.1), ("1.000", 1, 0.001)])
def test_printed_values(text, value, step):
    assert printed_value(text) == pytest.approx((value, step)) and printed_like(value, text) == text


def test_commands_are_of_the_command_line():
    assert all(shlex.join(command.words) == command.command for command in COMMANDS)
