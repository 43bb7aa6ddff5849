"""Builds are made once, damaged ones anew; a complete one is only read. Of devices, benches and run-time objects."""

import errno
import io
import os
import subprocess
import sys

import pytest
from heddle import load_config
from heddle.lib.register_slice import RegisterSlice
from heddle_sim.backends import verilator_build as device_build
from heddle_sim.cli import main
from heddle_sim.toolchain import object_cache
from heddle_sim.toolchain.build_cache import STAMP, BuildError, build_directory, cached_build, content_key
from heddle_sim.toolchain.cocotb_runner import run_bench

TINY = load_config("tiny")


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty build folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("HEDDLE_BUILD", str(folder))
    return folder


def make_read_only(monkeypatch, folder):
    """Whatever writes below ``folder`` fails as on a read-only file system, also for the superuser."""

    def refusing(real, writes):
        def call(path, *arguments, **options):
            name = os.fspath(path) if not isinstance(path, int) else ""
            if str(name).startswith(str(folder)) and writes(*arguments, **options):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(name))
            return real(path, *arguments, **options)
        return call

    for name in ("mkdir", "rmdir", "unlink", "rename", "replace"):
        monkeypatch.setattr(os, name, refusing(getattr(os, name), lambda *_, **__: True))
    monkeypatch.setattr(os, "open", refusing(os.open, lambda flags, *_, **__: flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)))
    for module in (io, __import__("builtins")):
        monkeypatch.setattr(module, "open", refusing(module.open, lambda mode="r", *_, **__: set(mode) & set("wax+")))


class Builder:
    """Writes its text, and counts how often."""

    def __init__(self, text="x"):
        self.text, self.built = text, []

    def __call__(self, folder):
        self.built.append(folder)
        (folder / "result").write_text(self.text)


def test_a_build_is_made_once(cache):
    build = Builder()
    first = cached_build("unit", "name", content_key("text", 1), build)
    assert cached_build("unit", "name", content_key("text", 1), build) == first
    assert build.built == [first] and first.is_relative_to(build_directory() / "unit")
    assert cached_build("unit", "name", content_key("text", 2), build) != first


def test_keys_depend_on_every_part_and_its_end():
    keys = [content_key(*parts) for parts in (("ab", "c"), ("a", "bc"), ("abc",), (b"abc", ""), (), ("",), (1, 2), (12,))]
    assert len(set(keys)) == len(keys)


def test_interrupted_builds_start_afresh(cache):
    def interrupted(folder):
        (folder / "partial").write_text("x")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached_build("unit", "name", "key", interrupted)
    assert not (cached_build("unit", "name", "key", lambda directory: None) / "partial").exists()


@pytest.mark.parametrize("name, content", [
    ("result", b"garbage"), ("result", b""), ("result", None), (STAMP, b""), (STAMP, b"{}"), (STAMP, b"[1]"), (STAMP, b'{"sha256": 7}'),
    (STAMP, b"\xff"), (STAMP, None)])
def test_damaged_builds_are_made_anew(cache, name, content):
    build = Builder("long text")
    folder = cached_build("unit", "name", "key", build)
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    assert cached_build("unit", "name", "key", build) == folder and len(build.built) == 2
    assert (folder / "result").read_text() == "long text"
    cached_build("unit", "name", "key", build)
    assert len(build.built) == 2


def test_a_stamp_without_the_results_is_damaged(cache):
    build = Builder()
    folder = cached_build("unit", "name", "key", build, results=["result"])
    (folder / STAMP).write_text('{"sha256": {}}')
    (folder / "result").unlink()
    assert (cached_build("unit", "name", "key", build, results=["result"]) / "result").read_text() == "x" and len(build.built) == 2


def test_a_complete_build_is_only_read(cache, monkeypatch):
    build = Builder()
    folder = cached_build("unit", "name", "key", build)
    make_read_only(monkeypatch, cache)
    assert cached_build("unit", "name", "key", build) == folder and len(build.built) == 1


@pytest.mark.parametrize("damage, found", [("result", "damaged"), (STAMP, "damaged"), (None, "not there")])
def test_what_cannot_be_built_says_so_in_one_line(cache, monkeypatch, damage, found):
    build = Builder()
    if damage:
        (cached_build("unit", "name", "key", build) / damage).write_text("garbage")
    make_read_only(monkeypatch, cache)
    with pytest.raises(BuildError) as caught:
        cached_build("unit", "name", "key", build)
    assert str(caught.value) == (f"HEDDLE_BUILD must be a folder that can be written, not {str(cache)!r}: "
                                 f"name-key is {found} and cannot be built (Read-only file system)")


def test_a_file_in_place_of_the_build_folder(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("HEDDLE_BUILD", str(tmp_path / "file"))
    with pytest.raises(BuildError, match="^HEDDLE_BUILD must be a folder that can be written, not .*Not a directory"):
        cached_build("unit", "name", "key", Builder())


# -- devices --------------------------------------------------------------------------------


@pytest.fixture
def fake_device(cache, monkeypatch):
    """Device builds that take no time: counts of generations and compilations."""
    counts = {"verilog": 0, "library": 0}

    def emit(component, name, *options):
        counts["verilog"] += 1
        return "module heddle;\nendmodule\n"

    def build(verilog, cfg, directory, library, progress, waves):
        counts["library"] += 1
        library.write_bytes(b"\x7fELF of " + verilog.encode())

    monkeypatch.setattr("heddle.emit.emit_verilog", emit)
    monkeypatch.setattr(device_build, "_build", build)
    return counts


def test_a_damaged_library_is_built_anew(fake_device):
    library = device_build.device_library("text", TINY)
    library.write_bytes(b"garbage")
    assert device_build.device_library("text", TINY) == library and library.read_bytes() == b"\x7fELF of text"
    assert fake_device == {"verilog": 0, "library": 2}


def test_cut_verilog_is_generated_anew(fake_device, cache):
    text = device_build.device_verilog(TINY)
    path, = (cache / "device" / "verilog").glob("tiny-*/heddle.v")
    path.write_text(text[:5])
    assert device_build.device_verilog(TINY) == text and fake_device == {"verilog": 2, "library": 0}


def test_a_device_in_a_read_only_cache(fake_device, cache, monkeypatch):
    library = device_build.device_library(device_build.device_verilog(TINY), TINY)
    make_read_only(monkeypatch, cache)
    assert device_build.device_library(device_build.device_verilog(TINY), TINY) == library
    assert fake_device == {"verilog": 1, "library": 1}


def test_the_command_line_says_so_in_one_line(fake_device, cache, monkeypatch, capsys):
    make_read_only(monkeypatch, cache)
    assert main(["run", "matmul", "--m", "1", "--n", "1", "--k", "1", "--config", "tiny"]) == 1
    captured = capsys.readouterr()
    assert not captured.out and captured.err.count("\n") == 1
    assert captured.err.startswith("heddle run: error: HEDDLE_BUILD must be a folder that can be written, not ")


def test_a_truncated_object_of_the_device_is_compiled_anew(cache, monkeypatch, tmp_path):
    source = tmp_path / "verilated.cpp"
    source.write_text("int seven() { return 7; }\n")
    target = device_build._runtime_object(source, [], device_build.Progress())
    content = target.read_bytes()
    target.write_bytes(content[:100])
    assert device_build._runtime_object(source, [], device_build.Progress()).read_bytes() == content


# -- benches --------------------------------------------------------------------------------


def run(seed=1):
    return run_bench(RegisterSlice(8), bench="heddle_verif.bench.selftest", parameters={"behaviour": "pass"}, name="selftest", seed=seed)


def test_a_damaged_bench_is_built_anew(cache):
    run()
    executable, = (cache / "bench" / "selftest").glob("icarus-*/sim.vvp")
    size = executable.stat().st_size
    os.truncate(executable, size // 2)
    assert run()["tests"] == 1 and executable.stat().st_size > size // 2


def test_a_bench_in_a_read_only_cache(cache, monkeypatch):
    run()
    make_read_only(monkeypatch, cache)
    summary = run(seed=2)
    assert summary["tests"] == 1 and not summary["directory"].startswith(str(cache))


def test_a_truncated_object_of_a_bench_is_compiled_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("VERILATOR_ROOT", str(tmp_path))
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "verilated.cpp").write_text("int seven() { return 7; }\n")
    output, calls, real = tmp_path / "verilated.o", [], subprocess.call
    monkeypatch.setattr(subprocess, "call", lambda command: calls.append(command) or real(command))
    arguments = [str(tmp_path / "objects"), "1", device_build._compiler(), "-c", "-o", str(output), f"{tmp_path}/include/verilated.cpp"]
    for _ in range(2):
        assert object_cache.main(arguments) == 0
    content = output.read_bytes()
    assert len(calls) == 1
    cached, = (tmp_path / "objects").glob("*.o")
    cached.write_bytes(content[:100])
    assert object_cache.main(arguments) == 0 and output.read_bytes() == content and len(calls) == 2
    make_read_only(monkeypatch, tmp_path / "objects")
    assert object_cache.main(arguments) == 0 and len(calls) == 2
    assert object_cache.main(arguments[:1] + ["2"] + arguments[2:]) == 0 and len(calls) == 3      # not there, and cannot be kept


def test_the_object_cache_needs_the_standard_library_only():
    """It is started with ``-S`` once per source."""
    assert subprocess.run([sys.executable, "-S", object_cache.__file__, "/nowhere", "1", "true"], check=False).returncode == 0
