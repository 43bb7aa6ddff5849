"""A compiler wrapper that keeps the objects of Verilator's run-time library: half of the time of a small build.

Used as make's ``OBJCACHE``: ``python object_cache.py DIRECTORY VERSION g++ … -c -o verilated.o …/verilated.cpp``. Sources outside
Verilator's package are compiled as usual. Objects are kept with their hash; a damaged one is compiled anew. Needs nothing but the
standard library, because it is started once per source.
"""

import contextlib
import hashlib
import os
import subprocess
import sys
from pathlib import Path

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Run the compiler command after the directory of the cache and the version of the tools; returns the exit status."""
    directory, version, command = Path(arguments[0]), arguments[1], arguments[2:]
    source = Path(command[-1])
    runtime = os.environ.get("VERILATOR_ROOT")
    if "-c" not in command or "-o" not in command or not runtime or source.parent != Path(runtime) / "include":
        return subprocess.call(command)
    output = Path(command[command.index("-o") + 1])
    cached = directory / f"{source.stem}-{hashlib.sha256(repr((version, command)).encode()).hexdigest()[:20]}.o"
    try:
        content = cached.read_bytes()
        if cached.with_suffix(".sha256").read_text() == hashlib.sha256(content).hexdigest():
            output.write_bytes(content)
            return 0
    except (OSError, ValueError):
        pass                            # not there, or damaged
    status = subprocess.call(command)
    if status == 0:
        with contextlib.suppress(OSError):      # a cache that cannot be written is not used
            directory.mkdir(parents=True, exist_ok=True)
            content = output.read_bytes()
            _replace(cached, content)
            _replace(cached.with_suffix(".sha256"), hashlib.sha256(content).hexdigest().encode())
    return status


def _replace(path: Path, content: bytes) -> None:
    """Readers see the file as it was or as it is then."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
