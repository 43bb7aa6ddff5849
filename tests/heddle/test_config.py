"""Parameters of a configuration: presets, every rule with its message, derived values."""

import ast
import dataclasses
import inspect
import re
from pathlib import Path

import heddle
import pytest
from heddle import Config, ConfigError, load_config
from heddle.config import CONFIG_DIRECTORY, GROUPS, preset_names
from heddle.matrix.unit import MatrixUnit
from heddle.parameters.group import Parameters
from heddle.parameters.matrix import DatapathParameters, MatrixParameters
from heddle.parameters.thread import ThreadParameters
from heddle.tmau.unit import Tmau

KEYS = {table: list(inspect.get_annotations(group)) for table, group in GROUPS.items()}

pytestmark = pytest.mark.smoke


def refuses(message, **parameters):
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        Config(**parameters)


@pytest.mark.parametrize(
    "name, threads, dot, shared_kib, factor_words, axi_bits",
    [
        ("tiny", 8, 4, 16, 64, 64),
        ("small", 16, 8, 64, 512, 128),
        ("base", 32, 8, 128, 1024, 256),
        ("large", 64, 16, 256, 512, 512),
    ],
)
def test_presets(name, threads, dot, shared_kib, factor_words, axi_bits):
    cfg = load_config(name)
    assert (cfg.name, cfg.threads, cfg.dot, cfg.shared_memory_kib, cfg.factor_words, cfg.axi_data_bits, cfg.cores) == (
        name,
        threads,
        dot,
        shared_kib,
        factor_words,
        axi_bits,
        1,
    )


def test_quad_is_four_cores_of_base():
    assert load_config("quad").replace(cores=1, multicast=False, l2_kib=128, name="base") == load_config("base")
    assert load_config("quad").peak_macs_per_cycle == 4 * load_config("base").peak_macs_per_cycle


def test_small_all_is_small_with_all_copies():
    small_all, base = load_config("small_all"), load_config("base")
    engines = ("tensors", "tensor_im2col", "tensor_floats", "copy_within", "reductions", "reduction_floats", "wait_timeout", "rnn")
    assert all(getattr(small_all, name) is getattr(base, name) is True for name in engines) and small_all.l2_kib
    small = load_config("small")
    assert small_all.without_level2(name="small", tensors=False, copy_within=False, wait_timeout=False, rnn=False,
                                    rnn_contexts=small.rnn_contexts, rnn_elements=small.rnn_elements,
                                    rnn_tap_registers=small.rnn_tap_registers) == small


def test_every_preset_is_known():
    assert preset_names() == ["base", "large", "quad", "recurrent64", "resident64", "small", "small_all", "tiny"]


@pytest.mark.parametrize(
    "name, rule, bad",
    [
        ("threads", "one of 8, 16, 32, 64", 12),
        ("dot", "one of 4, 8, 16", 2),
        ("axi_data_bits", "one of 64, 128, 256, 512", 1024),
        ("thread_slots", "one of 1, 2, 4, 8, 16", 3),
        ("shared_writes", "one of 1, 8", 2),
        ("shared_memory_kib", "a power of two from 4 to 1024", 96),
        ("shared_memory_kib", "a power of two from 4 to 1024", 2),
        ("instruction_words", "a power of two from 64 to 4096", 8192),
        ("factor_words", "a power of two from 32 to 8192", 0),
        ("factor_words", "a power of two from 32 to 8192", 48),
        ("axi_address_bits", "from 16 to 32", 33),
        ("axi_reads", "from 2 to 128", 1),
        ("axi_writes", "from 2 to 128", 129),
        ("matrix_queue", "from 2 to 16", 17),
        ("thread_queue", "from 2 to 16", 1),
        ("copy_queue", "from 2 to 16", 0),
        ("cores", "from 1 to 16", 0),
        ("l2_kib", "a power of two from 1 to 4096", 8192),
        ("l2_kib", "a power of two from 1 to 4096", -1),
        ("l2_ways", "one of 1, 2, 4, 8", 3),
        ("front_end_slices", "one of 0, 1", 2),
    ],
)
def test_out_of_range(name, rule, bad):
    refuses(f"{name} must be {rule}, not {bad}", **{name: bad})


@pytest.mark.parametrize("bad", ["8", 8.0, True, None])
def test_numbers_are_integers(bad):
    refuses(f"threads must be an integer, not {bad!r}", threads=bad)


@pytest.mark.parametrize("bad", ["yes", 1, None])
def test_flags_are_true_or_false(bad):
    refuses(f"mm16 must be true or false, not {bad!r}", mm16=bad)


def test_wide_lanes_are_for_16_bits():
    refuses("wide_lanes must be false with mm16 = False, not True", mm16=False, wide_lanes=True)
    assert [Config(wide_lanes=wide).peak_macs(2) for wide in (False, True)] == [64, 128]


@pytest.mark.parametrize("bad", ["two words", "", 3, "a/b", "../up", ".hidden", "-o", "a\n", "zero\0", "a" * 49])
def test_name(bad):
    refuses(f"name must be 1 to 48 letters, digits, _, - and . (the first no - or .), not {bad!r}", name=bad)


@pytest.mark.parametrize("name", ["a-b", "8threads", "v1.2", "_x", "größe"])
def test_names_of_files_are_names_of_configurations(tmp_path, name):
    path = tmp_path / f"{name}.toml"
    path.write_text("threads = 8\n")
    assert load_config(path).name == name


def test_one_bus_for_writes_needs_a_narrow_memory():
    with pytest.raises(ConfigError, match="^shared_writes must be 8 with axi_data_bits = 256, not 1$"):
        Config(shared_writes=1)


def test_factor_registers_fit_the_register_field():
    refuses(
        "factor_words must be at most 960 with dot = 16 (register numbers have 12 bits), not 1024",
        factor_words=1024,
        dot=16,
    )


def test_unknown_configuration():
    with pytest.raises(
        ConfigError,
        match=r"^configuration must be one of base, large, quad, recurrent64, resident64, small, small_all, tiny or the path of a \.toml "
        "file, not 'nope'$",
    ):
        load_config("nope")


def test_file_with_an_unknown_key(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("thred = 8\n")
    with pytest.raises(ConfigError, match=r"mine\.toml: thred must be one of axi_address_bits, .*, extends, .*, matrix, .*, name, "):
        load_config(path)


def test_file_that_is_not_toml(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("threads : 8\n")
    with pytest.raises(ConfigError, match=r"mine\.toml: "):
        load_config(path)


def test_file_names_the_configuration(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("threads = 8\ndot = 4\n")
    assert load_config(path) == Config(name="mine", threads=8, dot=4)


def test_left_out_keys_have_the_defaults_of_config(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("threads = 8\n")
    base, mine = load_config("base").as_dict(), load_config(path).as_dict()
    differing = {key for key in base if base[key] != mine[key]}
    assert differing == {"name", "threads", "axi_writes", "compiled_offsets", "gather_offsets", "thread_queue", "tensors",
                         "copy_within", "l2_kib", "reductions", "reduction_floats", "rnn", "sparse", "output_stage"}


def test_a_file_extends_a_preset(tmp_path):
    """Keys of the preset, then those of the file; the name is that of the file."""
    path = tmp_path / "mine.toml"
    path.write_text('extends = "base"\nthreads = 8\ntensors = false\n')
    assert load_config(path) == load_config("base").replace(name="mine", threads=8, tensors=False)


def test_a_file_extends_files_beside_it(tmp_path, monkeypatch):
    """Paths are relative to the file that has them, whatever the working directory; names do not come along."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "first.toml").write_text('extends = "tiny"\nname = "own"\ndot = 8\ncopy_queue = 4\n')
    (tmp_path / "parts" / "second.toml").write_text('extends = "first.toml"\ncopy_queue = 2\n')
    (tmp_path / "third.toml").write_text('extends = "parts/second.toml"\nthreads = 16\n')
    monkeypatch.chdir("/")
    assert load_config(tmp_path / "parts" / "second.toml").name == "second"
    assert load_config(tmp_path / "third.toml") == load_config("tiny").replace(name="third", dot=8, copy_queue=2, threads=16)


def test_a_long_chain_of_files(tmp_path):
    """The nearest file that has a key counts, however far the chain goes."""
    length = 1200
    for number in range(length):
        (tmp_path / f"{number}.toml").write_text(f'extends = "{number + 1}.toml"\n{"dot = 4" if number == 1000 else ""}\n')
    last = tmp_path / f"{length}.toml"
    last.write_text("threads = 8\ndot = 16\n")
    assert load_config(tmp_path / "0.toml") == Config(name="0", threads=8, dot=4)
    last.write_text('extends = "7.toml"\n')
    with pytest.raises(ConfigError, match=f"{length}.toml: extends must not lead back to the file, not '7.toml'"):
        load_config(tmp_path / "0.toml")


@pytest.mark.parametrize("value, says", [
    ('"nope"', "extends must be one of base, "), ('"nope.toml"', "extends must be one of base, "), ('"."', "extends must be one of base, "),
    ("7", "extends must be the name of a configuration or the path of a .toml file, not 7"),
    ('["base"]', "extends must be the name of a configuration or the path of a .toml file, not ['base']"),
    ('"mine.toml"', "extends must not lead back to the file, not 'mine.toml'"),
    ('"other.toml"', "other.toml: extends must not lead back to the file, not '../{folder}/mine.toml'"),
])
def test_what_cannot_be_extended(tmp_path, value, says):
    path = tmp_path / "mine.toml"
    path.write_text(f"extends = {value}\n")
    (tmp_path / "other.toml").write_text(f'extends = "../{tmp_path.name}/mine.toml"\n')
    with pytest.raises(ConfigError, match=re.escape(says.replace("{folder}", tmp_path.name))):
        load_config(path)


def test_extended_values_are_checked(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('extends = "tiny"\ncores = 3\n')
    with pytest.raises(ConfigError, match="^l2_kib must be 0 with cores = 3, not 4$"):
        load_config(path)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00threads = 8\n", b"threads = " + b"1" * 5000, b"a = " + b"[" * 5000, b"\x00"],
                         ids=["bytes", "digits", "nested", "zero"])
def test_file_that_is_no_text(tmp_path, content):
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"mine\.toml: file must be TOML text in UTF-8: "):
        load_config(path)


@pytest.mark.parametrize("value", [None, 7, b"base", ["base"], True])
def test_what_names_no_configuration(value):
    with pytest.raises(TypeError, match=re.escape(f"configuration must be a Config, a name or a path, not {value!r}")):
        load_config(value)


@pytest.mark.parametrize("value", ["", "a\0b", "x" * 5000, "x" * 300 + ".toml", ".", "..", "/", ".toml"])
def test_names_of_no_file(value):
    with pytest.raises(ConfigError, match="^configuration must be one of base, "):
        load_config(value)


def test_a_folder_is_no_configuration(tmp_path):
    (tmp_path / "mine.toml").mkdir()
    with pytest.raises(ConfigError, match="^configuration must be one of base, "):
        load_config(tmp_path / "mine.toml")


def test_replace_checks_again():
    with pytest.raises(ConfigError, match="^dot must be one of"):
        load_config("base").replace(dot=5)


@pytest.mark.parametrize("name", preset_names())
def test_derived_values(name):
    cfg = load_config(name)
    assert 1 << cfg.thread_bits == cfg.threads
    assert cfg.word_bits == 8 * cfg.dot
    assert 1 << (cfg.sum_bits - 1) > cfg.dot * 255 * 255  # a signed sum of dot products of any signedness
    assert cfg.registers == 256 + cfg.factor_words * cfg.numbers_per_word <= 4096
    assert cfg.shared_rows * 128 == cfg.shared_bytes == 1 << cfg.shared_address_bits
    assert cfg.thread_groups * cfg.thread_slots >= cfg.threads
    assert 1 << cfg.tag_bits >= max(cfg.axi_reads, cfg.axi_writes)
    assert Config(**cfg.as_dict()) == cfg


def test_second_level():
    refuses("reductions must be false with l2_kib = 0, not True", reductions=True)
    refuses("reduction_floats must be false with reductions = False, not True", l2_kib=16, reduction_floats=True)
    refuses("l2_kib must be 0 with cores = 3, not 16", l2_kib=16, cores=3)
    refuses("l2_kib must be a power of two from 8 to 4096, not 4", l2_kib=4, cores=4, l2_ways=8)
    refuses("l2_kib must be a power of two from 1 to 32, not 64", l2_kib=64, axi_address_bits=16)
    assert Config(l2_kib=4, cores=4, reductions=True).line_beats == 4


def in_tables(cfg):
    """The parameters of a configuration as keywords, each in its table."""
    return {"name": cfg.name} | {table: {key: getattr(cfg, key) for key in keys} for table, keys in KEYS.items()}


def as_toml(parameters):
    def text(value):
        if isinstance(value, dict):
            return f"{{{', '.join(line(*each) for each in value.items())}}}"
        if isinstance(value, list):
            return f"[{', '.join(map(text, value))}]"
        return str(value).lower() if isinstance(value, bool) else repr(value)

    def line(key, value):
        return f"{key} = {text(value)}"

    tables = {key: value for key, value in parameters.items() if isinstance(value, dict)}
    return "\n".join([*(line(key, value) for key, value in parameters.items() if key not in tables),
                      *(part for table, values in tables.items() for part in (f"[{table}]", *(line(*each) for each in values.items())))])


def test_each_parameter_is_in_one_table():
    assert sorted(["name", *(key for keys in KEYS.values() for key in keys)]) == sorted(field.name for field in dataclasses.fields(Config))


@pytest.mark.parametrize("name", preset_names())
def test_tables_and_flat_keys_are_the_same(name, tmp_path):
    cfg = load_config(name)
    assert Config(**in_tables(cfg)) == cfg
    for number, parameters in enumerate((in_tables(cfg), cfg.as_dict())):
        path = tmp_path / f"{number}.toml"
        path.write_text(as_toml(parameters))
        assert load_config(path) == cfg and hash(load_config(path)) == hash(cfg)


@pytest.mark.parametrize("name", preset_names())
def test_presets_are_in_tables(name):
    lines = (CONFIG_DIRECTORY / f"{name}.toml").read_text().splitlines()
    assert next(line for line in lines if line and line[0] != "#") == "[core]"


def test_keywords_in_tables_and_flat():
    cfg = Config(name="mine", matrix={"transpose": False, "mm16": False}, threads=16, rnn={"rnn": True, "rnn_contexts": 2})
    assert cfg == Config(name="mine", transpose=False, mm16=False, threads=16, rnn=True, rnn_contexts=2)
    assert (cfg.transpose, cfg.threads, cfg.rnn, cfg.rnn_contexts) == (False, 16, True, 2)
    assert eval(repr(cfg)) == cfg and hash(eval(repr(cfg))) == hash(cfg) and cfg != Config(name="mine")
    assert not hasattr(cfg, "matrix")


def test_replace_takes_both():
    cfg = load_config("tiny")
    changed = cfg.replace(matrix={"transpose": False}, rnn={"rnn_contexts": 8}, threads=16)
    assert changed == cfg.replace(transpose=False, rnn_contexts=8, threads=16) and changed.rnn
    assert dataclasses.replace(cfg, threads=16) == cfg.replace(core={"threads": 16})
    with pytest.raises(ConfigError, match="^threads must be in table core or outside of it, not both$"):
        dataclasses.replace(cfg, core={"threads": 16})


WRONG_TABLES = [
    ({"nonsense": 1}, "nonsense must be one of axi_address_bits, "),
    ({"nonsense": {"threads": 8}}, "nonsense must be one of axi_address_bits, "),
    ({"matrix": {"nonsense": 1}},
     "matrix.nonsense must be one of compiled_offsets, fetch_words, gather_offsets, matrix_queue, mm16, transpose, wide_lanes"),
    ({"matrix": {"threads": 8}}, "threads must be in table core, not in table matrix"),
    ({"matrix": {"name": "mine"}}, "name must be outside of tables, not in table matrix"),
    ({"matrix": 3}, "matrix must be a table of parameters, not 3"),
    ({"matrix": [{"mm16": True}]}, "matrix must be a table of parameters, not [{'mm16': True}]"),
    ({"matrix": {"matrix": {"mm16": True}}}, "matrix.matrix must be one of compiled_offsets, fetch_words, "),
    ({"rnn": 3}, "rnn must be true or false, not 3"),
    ({"threads": {"threads": 8}}, "threads must be an integer, not {'threads': 8}"),
    ({"threads": 8, "core": {"threads": 8}}, "threads must be in table core or outside of it, not both"),
    ({"matrix": {"mm16": 1}}, "mm16 must be true or false, not 1"),
    ({"core": {"threads": 9}}, "threads must be one of 8, 16, 32, 64, not 9"),
]


@pytest.mark.parametrize("parameters, message", WRONG_TABLES, ids=[message.split(" not ")[0][:40] for _, message in WRONG_TABLES])
def test_wrong_tables(parameters, message, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(as_toml(parameters))
    for make in (lambda: Config(**parameters), lambda: load_config("tiny").replace(**parameters), lambda: load_config(path)):
        with pytest.raises(ConfigError, match=re.escape(message)):
            make()


def test_files_name_what_is_in_no_table(tmp_path):
    """What only a file has stands outside of its tables; messages name the file, one of a base its own."""
    (tmp_path / "mine.toml").write_text('[core]\nextends = "base"\n')
    (tmp_path / "other.toml").write_text('extends = "mine.toml"\n')
    for name in ("mine", "other"):
        with pytest.raises(ConfigError, match=r"mine\.toml: extends must be outside of tables, not in table core$"):
            load_config(tmp_path / f"{name}.toml")


@pytest.mark.parametrize("below", ["threads = 16\nfar_registers = true\n", "[core]\nthreads = 16\nfar_registers = true\n"],
                         ids=["flat", "tables"])
@pytest.mark.parametrize("above", ["threads = 8\nrnn_contexts = 2\n", "[core]\nthreads = 8\n[rnn]\nrnn_contexts = 2\n"],
                         ids=["flat", "tables"])
def test_extending_with_tables(tmp_path, below, above):
    """Tables of a file change single parameters of its base, however either is written."""
    (tmp_path / "below.toml").write_text(f'extends = "tiny"\n{below}')
    (tmp_path / "above.toml").write_text(f'extends = "below.toml"\n{above}')
    assert load_config(tmp_path / "above.toml") == load_config("tiny").replace(name="above", threads=8, far_registers=True, rnn_contexts=2)


def test_signature():
    parameters = inspect.signature(Config).parameters
    assert parameters.keys() == {"name", *GROUPS, *(key for keys in KEYS.values() for key in keys)}
    assert parameters["threads"].default == 32 and parameters["threads"].annotation is int


def parameter_classes(kind=Parameters):
    for below in kind.__subclasses__():
        if below.__module__.startswith("heddle.parameters."):
            yield from {below, *parameter_classes(below)}


def units_of_folders():
    """(file, first statement) of each constructor in a folder of units that takes ``cfg``."""
    folder = Path(heddle.__file__).parent
    for path in sorted(folder.glob("*/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name == "__init__" and any(each.arg == "cfg" for each in node.args.args):
                yield path.relative_to(folder), ast.unparse(node.body[0])


def test_units_take_their_group():
    """Each constructor begins with the parameters of its folder, so that nothing else can be read."""
    found = list(units_of_folders())
    for path, first in found:
        assert first.endswith(f"cfg = {path.parts[0].title().replace('_', '')}Parameters.of(cfg)"), path
    assert len(found) > 90


@pytest.mark.parametrize("kind, cannot", [
    (MatrixParameters, ("copy_queue", "instruction_words", "l2_kib", "rnn_contexts", "name")),
    (DatapathParameters, ("shared_memory_kib", "tensors", "wait_timeout")),
    (ThreadParameters, ("transpose", "mm16", "copy_queue", "rnn_contexts")),
])
def test_parameters_of_others_cannot_be_read(kind, cannot):
    cfg = load_config("tiny")
    mine = kind.of(cfg)
    assert kind.of(mine) is mine and mine == kind.of(cfg) and hash(mine) == hash(kind.of(cfg))
    for name in cannot:
        assert hasattr(cfg, name)
        with pytest.raises(AttributeError, match=f"'{kind.__name__}' object has no attribute '{name}'"):
            getattr(mine, name)


@pytest.mark.parametrize("name", preset_names())
def test_what_units_take_has_the_values_of_the_whole(name):
    cfg = load_config(name)
    for kind in set(parameter_classes()):
        mine = kind.of(cfg)
        for each in dir(kind):
            if not each.startswith("_") and not callable(getattr(cfg, each)):
                assert getattr(mine, each) == getattr(cfg, each), each
        assert all(type(getattr(cfg, field.name)) is field.type for field in dataclasses.fields(kind))


def test_units_take_a_whole_configuration_too():
    cfg = load_config("tiny")
    assert MatrixUnit(cfg).signature == MatrixUnit(MatrixParameters.of(cfg)).signature
    with pytest.raises(AttributeError, match="'ThreadParameters' object has no attribute "):
        Tmau(ThreadParameters.of(cfg))
