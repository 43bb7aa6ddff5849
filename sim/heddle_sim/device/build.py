"""Builds the simulated device: hardware to Verilog to C++ to a shared library, each kept until its sources change."""

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import heddle
from filelock import FileLock
from heddle.top import axi_prefixes

from .. import toolchain
from ..progress import Progress

__all__ = ["BuildError", "build_directory", "device_library", "device_verilog", "source_key"]

CPP = Path(__file__).with_name("cpp")
VERILATOR_FLAGS = [
    "--cc",
    "-O3",
    "--x-assign",
    "fast",
    "--x-initial",
    "fast",
    "--no-timing",
    "--no-assert",
    "-Wno-fatal",
    "-Wno-lint",
    "--top-module",
    "heddle",
    "--prefix",
    "Vheddle",
    "--output-split",
    "30000",
    "--output-split-cfuncs",
    "3000",
]
# Hidden, locally bound symbols: several devices live in one process, each with its own Vheddle.
COMPILER_FLAGS = [
    "-std=gnu++20",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-gnu-unique",
    "-DVL_TIME_CONTEXT",
    "-w",
]
OPTIMISE = "-O2"
LINKER_FLAGS = ["-shared", "-Wl,-Bsymbolic", "-lpthread"]
STAMP = "complete.json"


class BuildError(RuntimeError):
    """A step of the build failed; the message ends with what the tool said."""


def build_directory():
    """Where generated files are kept: ``HEDDLE_BUILD``, or ``build/`` of the source tree, or the user's cache."""
    if "HEDDLE_BUILD" in os.environ:
        return Path(os.environ["HEDDLE_BUILD"])
    root = Path(heddle.__file__).resolve().parents[2]
    if (root / "pyproject.toml").is_file():
        return root / "build"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "heddle"


def _digest(*parts):
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else str(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()[:16]


def source_key(cfg):
    """Changes whenever the Verilog of ``cfg`` could: a hash of the hardware's sources, the parameters, the tools."""
    root = Path(heddle.__file__).parent
    sources = [part for path in sorted(root.rglob("*.py")) for part in (path.relative_to(root), path.read_bytes())]
    versions = [importlib.metadata.version(tool) for tool in ("amaranth", "pyosys")]
    return _digest(*sources, *versions, json.dumps(cfg.as_dict(), sort_keys=True))


def device_verilog(cfg, progress=None):
    """Verilog of the whole device of ``cfg`` (module ``heddle``); kept until a source file of the hardware changes."""
    path = build_directory() / "device" / f"{cfg.name}-{source_key(cfg)}.v"
    if path.is_file():
        return path.read_text()
    from heddle.emit import emit_verilog
    from heddle.top import Top

    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if not path.is_file():
            progress = progress or Progress()
            progress.stage(f"generate {cfg.name}")
            text = emit_verilog(Top(cfg), name="heddle")
            partial = path.with_suffix(".partial")
            partial.write_text(text)
            partial.rename(path)
            progress.step()
    return path.read_text()


def device_library(verilog, cfg, progress=None):
    """Path of the shared library of the harness with the design ``verilog`` (module ``heddle``, ports of the device).

    Built once for each content, by one process at a time.
    """
    sources = [path.read_bytes() for path in sorted(CPP.iterdir()) if path.is_file()]
    key = _digest(
        verilog,
        *sources,
        VERILATOR_FLAGS,
        COMPILER_FLAGS,
        OPTIMISE,
        LINKER_FLAGS,
        cfg.axi_bytes,
        cfg.cores,
        _compiler_version(),
        importlib.metadata.version("verilator"),
    )
    directory = build_directory() / "device" / f"{cfg.name}-{key}"
    library = directory / "libheddle.so"
    directory.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{directory}.lock"):
        if not (directory / STAMP).is_file():
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            _build(verilog, cfg, directory, library, progress or Progress())
            (directory / STAMP).write_text(json.dumps({"config": cfg.as_dict(), "key": key}) + "\n")
    return library


def _compiler():
    path = toolchain.compiler()
    if path is None:
        raise toolchain.ToolError(f"a C++ compiler must be installed: {toolchain.find('g++').remedy}")
    return path


def _compiler_version():
    return subprocess.run([_compiler(), "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def _call(command, directory, what):
    result = subprocess.run(
        [str(part) for part in command],
        cwd=directory,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "VERILATOR_ROOT": str(toolchain.verilator_root())},
    )
    if result.returncode:
        said = [line for line in (result.stdout + result.stderr).splitlines() if line.strip()]
        raise BuildError(f"{what} failed: " + "\n".join(said[-20:]))


def _build(verilog, cfg, directory, library, progress):
    root = toolchain.verilator_root()
    (directory / "heddle.v").write_text(verilog)
    progress.stage(f"verilate {cfg.name}")
    _call([root / "bin" / "verilator_bin", *VERILATOR_FLAGS, "-Mdir", "obj", "heddle.v"], directory, "verilator")
    progress.step()

    generated = directory / "obj"
    flags = [*COMPILER_FLAGS, OPTIMISE, *_includes(root)]
    prefixes = axi_prefixes(cfg)
    ports = [f"-DAXI_FIRST={prefixes[0]}", "-DAXI_PORTS=" + " ".join(f"AXI_PORT({prefix})" for prefix in prefixes)]
    own = [*flags, f"-DAXI_BYTES={cfg.axi_bytes}", *ports, f"-I{generated}", f"-I{CPP}"]
    runtime = _runtime_sources(root, generated)
    # Of a function that several objects have the linker takes the first one: no function that is not optimised comes before one that is.
    sources = [*sorted(generated.glob("*.cpp"), key=lambda path: (_once(path), -path.stat().st_size)), CPP / "harness.cpp"]
    header = generated / "Vheddle__pch.h"
    progress.stage(f"compile {cfg.name}", len(sources) + len(runtime))
    _call([_compiler(), *own, "-x", "c++-header", header, "-o", f"{header}.gch"], directory, "the C++ compiler")

    def compile_one(source):
        target = directory / f"{source.stem}.o"
        include = ["-include", header] if source.parent == generated else []
        if _once(source):
            include += ["-include", CPP / "once.hpp"]
        _call([_compiler(), *own, *include, "-c", source, "-o", target], directory, "the C++ compiler")
        progress.step()
        return target

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        runtime_objects = pool.map(lambda source: _runtime_object(source, flags, progress), runtime)
        objects = list(pool.map(compile_one, sources))
        _call([_compiler(), *objects, *runtime_objects, "-o", library, *LINKER_FLAGS], directory, "the linker")
    for path in [*objects, Path(f"{header}.gch")]:
        path.unlink()


def _once(source):
    """What Verilator keeps apart because it runs once."""
    return source.stem.endswith("__Slow")


def _includes(root):
    return [f"-I{root / 'include'}", f"-I{root / 'include' / 'vltstd'}"]


def _runtime_object(source, flags, progress):
    """Object of one of Verilator's own files: the same for every design, so it is compiled once."""
    key = _digest(source.read_bytes(), flags, _compiler_version(), importlib.metadata.version("verilator"))
    target = build_directory() / "device" / "runtime" / f"{source.stem}-{key}.o"
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"):
        if not target.is_file():
            partial = target.with_suffix(".partial.o")
            _call([_compiler(), *flags, "-c", source, "-o", partial], target.parent, "the C++ compiler")
            partial.rename(target)
    progress.step()
    return target


def _runtime_sources(root, generated):
    """Verilator's own files that the generated classes need, as its makefile lists them."""
    text = (generated / "Vheddle_classes.mk").read_text().replace("\\\n", " ")
    names = []
    for group in re.findall(r"^VM_GLOBAL_(?:FAST|SLOW) \+=(.*)$", text, re.MULTILINE):
        names += group.split()
    return [root / "include" / f"{name}.cpp" for name in names]
