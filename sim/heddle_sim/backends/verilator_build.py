"""Build of the simulated device: hardware to Verilog to C++ to a shared library, cached until the sources change."""

import importlib.metadata
import json
import os
import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import heddle
from heddle.config import Config
from heddle.top import axi_prefixes

from ..progress import Progress
from ..toolchain import programs as toolchain
from ..toolchain.build_cache import BuildError, cached_build, content_key
from ..toolchain.simulated import YOSYS_COMMANDS, simulated_verilog

__all__ = ["WAVES", "device_library", "device_verilog", "simulated_device", "source_key"]

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
    *toolchain.SPLIT,
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
OPTIMISE = "-O1"    # -O2 takes a fifth longer to build and runs 2 % faster
# Formats of waves: the class of Verilator that writes them, and what it links with (headers with the same names).
WAVES = {"fst": ("VerilatedFstC", {"lz4.h": "-llz4", "zlib.h": "-lz"}), "vcd": ("VerilatedVcdC", {})}
VERILOG, LIBRARY = "heddle.v", "libheddle.so"
LINKER_FLAGS = ["-shared", "-Wl,-Bsymbolic", "-lpthread"]


def source_key(cfg: Config) -> str:
    """Cache key of the Verilog of ``cfg``: a hash of the hardware sources, the parameters and the tool versions."""
    root = Path(heddle.__file__).parent
    sources = [part for path in sorted(root.rglob("*.py")) for part in (path.relative_to(root), path.read_bytes())]
    versions = [importlib.metadata.version(tool) for tool in ("amaranth", "pyosys")]
    return content_key(*sources, *versions, json.dumps(cfg.as_dict(), sort_keys=True))


def device_verilog(cfg: Config, progress: Progress | None = None) -> str:
    """Verilog of the complete device of ``cfg`` (module ``heddle``); cached until a source file of the hardware changes."""
    return _device_text(cfg, progress, every_signal=True)


def simulated_device(cfg: Config, progress: Progress | None = None) -> str:
    """``device_verilog`` for a simulation that looks at the ports only."""
    return _device_text(cfg, progress, every_signal=False)


def _device_text(cfg: Config, progress: Progress | None, every_signal: bool) -> str:
    def build(directory: Path) -> None:
        from heddle.top import Top

        stages = progress or Progress()
        stages.stage(f"generate {cfg.name}")
        (directory / VERILOG).write_text(simulated_verilog(Top(cfg), "heddle", every_signal=every_signal), encoding="utf-8")
        stages.step()

    key = source_key(cfg) if every_signal else content_key(source_key(cfg), *YOSYS_COMMANDS)
    directory = cached_build("device/verilog", cfg.name, key, build, results=[VERILOG])
    return (directory / VERILOG).read_text(encoding="utf-8")


def device_library(verilog: str, cfg: Config, progress: Progress | None = None, waves: str | None = None) -> Path:
    """Path of the shared library of the harness with the design ``verilog`` (module ``heddle``, ports of the device).

    ``waves``: one of ``WAVES``, where the device is to write waves; it is slower. The library is built once for each content, by one
    process at a time. Raises ``ToolError`` where a library that the format of the waves needs is not installed.
    """
    sources = [path.read_bytes() for path in sorted(CPP.iterdir()) if path.is_file()]
    key = content_key(
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
        *_wave_options(waves),
    )

    def build(directory: Path) -> None:
        _need_headers(waves, directory)
        _build(verilog, cfg, directory, directory / LIBRARY, progress or Progress(), waves)

    return cached_build("device", f"{cfg.name}-{waves}" if waves else cfg.name, key, build, {"config": cfg.as_dict()}, [LIBRARY]) / LIBRARY


def _wave_options(waves: str | None) -> list[str]:
    """Options of Verilator for a format of waves."""
    return [] if waves is None else [f"--trace-{waves}"]


def _wave_flags(waves: str | None) -> list[str]:
    """Options of the compiler."""
    if waves is None:
        return []
    formats = [f"-DVM_TRACE_{name.upper()}={int(name == waves)}" for name in WAVES]
    return ["-DVM_TRACE=1", *formats, f"-DHEDDLE_WAVES={WAVES[waves][0]}", f'-DHEDDLE_WAVES_HEADER="verilated_{waves}_c.h"']


def _need_headers(waves: str | None, directory: Path) -> None:
    """Raises ``ToolError`` where the headers that a format of waves needs are not installed."""
    for header in WAVES[waves][1] if waves else ():
        command = [_compiler(), "-E", "-x", "c++", os.devnull, "-include", header, "-o", os.devnull]
        if subprocess.run(command, cwd=directory, capture_output=True, stdin=subprocess.DEVNULL).returncode:
            raise toolchain.ToolError(f"waves in the format {waves} need the header {header}: install liblz4-dev and zlib1g-dev, or write "
                                      "a .vcd file")


def _compiler() -> str:
    path = toolchain.compiler()
    if path is None:
        raise toolchain.ToolError(f"a C++ compiler must be installed: {toolchain.find('g++').remedy}")
    return path


def _compiler_version() -> str:
    return subprocess.run([_compiler(), "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def _call(command: Sequence[str | Path], directory: Path, what: str) -> None:
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


def _build(verilog: str, cfg: Config, directory: Path, library: Path, progress: Progress, waves: str | None) -> None:
    root = toolchain.verilator_root()
    (directory / "heddle.v").write_text(verilog, encoding="utf-8")
    progress.stage(f"verilate {cfg.name}")
    _call([root / "bin" / "verilator_bin", *VERILATOR_FLAGS, *_wave_options(waves), "-Mdir", "obj", "heddle.v"], directory, "verilator")
    progress.step()

    generated = directory / "obj"
    flags = [*COMPILER_FLAGS, OPTIMISE, *_wave_flags(waves), *_includes(root)]
    prefixes = axi_prefixes(cfg)
    ports = [f"-DAXI_FIRST={prefixes[0]}", "-DAXI_PORTS=" + " ".join(f"AXI_PORT({prefix})" for prefix in prefixes)]
    own = [*flags, f"-DAXI_BYTES={cfg.axi_bytes}", *ports, f"-I{generated}", f"-I{CPP}"]
    runtime = _runtime_sources(root, generated)
    # Of a function that several objects have the linker takes the first one: no function that is not optimised comes before one that is.
    sources = [*sorted(generated.glob("*.cpp"), key=lambda path: (_once(path), -path.stat().st_size)), CPP / "harness.cpp"]
    header = generated / "Vheddle__pch.h"
    progress.stage(f"compile {cfg.name}", len(sources) + len(runtime))
    _call([_compiler(), *own, "-x", "c++-header", header, "-o", f"{header}.gch"], directory, "the C++ compiler")

    def compile_one(source: Path) -> Path:
        target = directory / f"{source.stem}.o"
        include: list[str | Path] = ["-include", header] if source.parent == generated else []
        if _once(source):
            include += ["-include", CPP / "once.hpp"]
        _call([_compiler(), *own, *include, "-c", source, "-o", target], directory, "the C++ compiler")
        progress.step()
        return target

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        runtime_objects = pool.map(lambda source: _runtime_object(source, flags, progress), runtime)
        objects = list(pool.map(compile_one, sources))
        _call([_compiler(), *objects, *runtime_objects, "-o", library, *LINKER_FLAGS, *(WAVES[waves][1].values() if waves else ())],
              directory, "the linker")
    for path in [*objects, Path(f"{header}.gch")]:
        path.unlink()


def _once(source: Path) -> bool:
    """Whether a source has the code that Verilator separates because it runs once."""
    return source.stem.endswith("__Slow")


def _includes(root: Path) -> list[str]:
    return [f"-I{root / 'include'}", f"-I{root / 'include' / 'vltstd'}"]


def _runtime_object(source: Path, flags: list[str], progress: Progress) -> Path:
    """Object of a runtime file of Verilator, compiled once for all designs."""
    key = content_key(source.read_bytes(), flags, _compiler_version(), importlib.metadata.version("verilator"))
    name = f"{source.stem}.o"

    def build(directory: Path) -> None:
        _call([_compiler(), *flags, "-c", source, "-o", directory / name], directory, "the C++ compiler")

    target = cached_build("device/runtime", source.stem, key, build, results=[name]) / name
    progress.step()
    return target


def _runtime_sources(root: Path, generated: Path) -> list[Path]:
    """Runtime files of Verilator that the generated classes need, as its makefile lists them."""
    text = (generated / "Vheddle_classes.mk").read_text().replace("\\\n", " ")
    names = []
    for group in re.findall(r"^VM_GLOBAL_(?:FAST|SLOW) \+=(.*)$", text, re.MULTILINE):
        names += group.split()
    return [root / "include" / f"{name}.cpp" for name in names]
