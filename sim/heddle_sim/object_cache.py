"""A compiler wrapper that keeps the objects of Verilator's run-time library: half of the time of a small build.

Used as make's ``OBJCACHE``: ``python object_cache.py DIRECTORY VERSION g++ … -c -o verilated.o …/verilated.cpp``. Sources outside
Verilator's package are compiled as usual. Needs nothing but the standard library, because it is started once per source.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["main"]


def main(arguments):
    """Run the compiler command after the directory of the cache and the version of the tools; returns the exit status."""
    directory, version, command = Path(arguments[0]), arguments[1], arguments[2:]
    source = Path(command[-1])
    runtime = os.environ.get("VERILATOR_ROOT")
    if "-c" not in command or "-o" not in command or not runtime or source.parent != Path(runtime) / "include":
        return subprocess.call(command)
    output = Path(command[command.index("-o") + 1])
    directory.mkdir(parents=True, exist_ok=True)
    cached = directory / f"{source.stem}-{hashlib.sha256(repr((version, command)).encode()).hexdigest()[:20]}.o"
    if cached.is_file():
        shutil.copyfile(cached, output)
        return 0
    status = subprocess.call(command)
    if status == 0:
        partial = cached.with_suffix(f".{os.getpid()}")
        shutil.copyfile(output, partial)
        partial.replace(cached)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
