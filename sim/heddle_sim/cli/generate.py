"""Generate Verilog, with a manifest.

Writes NAME.v and NAME.json to the output folder: the manifest lists the ports, the parameters and the
hashes of what was generated and of what it was generated from. The same sources and tools give the same bytes.
"""

import argparse
import hashlib
import importlib.metadata
import json
from typing import Any

from amaranth.lib import wiring
from heddle.emit import VARIANTS, component_ports, emit_verilog
from heddle.units import make_unit, unit_config

from ..backends.verilator_build import source_key
from .common import add_config, add_json, configuration, print_json, progress_for, variant_name
from .files import file_path, write_text

__all__ = ["add_arguments", "execute", "port_list"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument(
        "--unit", default="heddle", metavar="NAME", help="a unit alone instead of the device (see heddle show units)"
    )
    parser.add_argument(
        "--variant", default="rtl", choices=VARIANTS, help="rtl, or xprop without initial values (default rtl)"
    )
    parser.add_argument(
        "-o", "--output", default="build/rtl", metavar="FOLDER", help="where to write (default build/rtl)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bars")
    add_json(parser)


def port_list(component: wiring.Component) -> list[dict[str, Any]]:
    """Ports of a component as they are called in Verilog: dictionaries with ``name``, ``direction`` and ``width``."""
    ports = [{"name": "clk", "direction": "input", "width": 1}, {"name": "rst", "direction": "input", "width": 1}]
    for name, is_output, value in component_ports(component):
        ports.append({"name": name, "direction": "output" if is_output else "input", "width": len(value)})
    return ports


def execute(options: argparse.Namespace) -> None:
    preset = configuration(options)
    cfg = unit_config(options.unit, preset)
    name, component = variant_name(cfg, preset), make_unit(options.unit, cfg)
    ports = port_list(component)
    with progress_for(options) as progress:
        progress.stage(f"generate {options.unit} ({name})")
        text = emit_verilog(component, name=options.unit, variant=options.variant)
        progress.step()
    folder = file_path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    stem = options.unit if options.variant == "rtl" else f"{options.unit}_{options.variant}"
    verilog = folder / f"{stem}.v"
    write_text(verilog, text)
    manifest: dict[str, Any] = {
        "unit": options.unit,
        "variant": options.variant,
        "config": name,
        "parameters": cfg.as_dict(),
        "verilog": verilog.name,
        "verilog_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "source_hash": source_key(cfg),
        "tools": {tool: importlib.metadata.version(tool) for tool in ("heddle-hdl", "amaranth", "pyosys")},
        "ports": ports,
    }
    write_text(verilog.with_suffix(".json"), json.dumps(manifest, indent=1) + "\n")
    if options.json:
        row = {name: manifest[name] for name in ("unit", "variant", "verilog_sha256", "source_hash")}
        print_json("generate", name, [row | {"verilog": str(verilog), "manifest": str(verilog.with_suffix(".json")),
                                                 "verilog_bytes": len(text)}])
        return
    print(f"wrote {verilog} ({len(text):,} bytes) and {verilog.with_suffix('.json')}")
