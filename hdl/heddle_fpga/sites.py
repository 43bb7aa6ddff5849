"""Placement constraints: a TOML file with sites of multipliers and block RAMs becomes the BEL attributes of nextpnr."""

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

from heddle.config import ConfigError

__all__ = ["Placement", "assign_sites", "load_sites", "sites_of"]

FOLDER = Path(__file__).resolve().parents[2] / "constraints"


class Placement(NamedTuple):
    """Placement constraint: cells of type ``type`` below the instance path ``cells``, or its end, take ``sites`` in the order of their
    names.
    """

    cells: str
    type: str
    sites: list


def sites_of(cfg, unit):
    """The constraint file of a complete device, or None where none exists."""
    path = FOLDER / f"{cfg.name}-ecp5.toml"
    return path if unit == "heddle" and path.is_file() else None


def load_sites(path):
    """``Placement`` of each table ``[[place]]`` of a file. Raises ``ConfigError`` for another form, or for a site that occurs twice."""
    try:
        tables = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        placements = [Placement(**table) for table in tables.pop("place")]
        given = [site for placement in placements for site in placement.sites]
        twice = sorted({site for site in given if given.count(site) > 1})
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(f"sites must be tables [[place]] with cells, type and sites ({path}): {error}") from None
    if tables or twice:
        raise ConfigError(f"sites must have tables [[place]] only, each site once ({path}), not {', '.join([*tables, *twice])}")
    return placements


def assign_sites(cells, placements):
    """Give the cells of a netlist (``write_json`` of Yosys) their attribute BEL; returns the number of cells with BEL.

    A cell takes the first placement that matches. Where a placement has fewer sites than cells, nextpnr places the rest.
    """
    names, assigned = sorted(cells, key=_natural), set()
    for placement in placements:
        path = re.compile(rf"(^|\.){re.escape(placement.cells)}") if placement.cells else re.compile("")
        fitting = [name for name in names if cells[name]["type"] == placement.type and name not in assigned and path.search(name)]
        for name, site in zip(fitting, placement.sites, strict=False):        # as many as there are of both
            cells[name]["attributes"]["BEL"] = site
            assigned.add(name)
    return len(assigned)


def _natural(name):
    """Sort key that compares the numbers in names as numbers."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
