"""Copies of the drivers of large nets on long paths, once it is known where their readers stand.

The router joins one reader after the other to the nearest wire of its net, whatever way that wire has come: behind 64 readers the last ones
are 1.4 ns later than their distance says, behind 128 1.9 ns (means of what is routed, on long paths). Each part of the readers gets
a driver of its own, beside them.
"""

from collections import defaultdict

import numpy as np

from .placed_sites import is_plain_table
from .placed_timing import INSIDE, wire_delay

__all__ = ["copy_drivers", "count_copies"]

COPY = "$part_"         # in the names of copies
MANY, PART = 64, 40     # readers: of a net that gets copies, of each copy at most
UNEVEN = 0.2            # share by which a half may be larger than the other, where there is a gap
TILES = 300             # that are looked at for room, the nearest first


def copy_drivers(module, sites, timing, over):
    """Change a placed netlist in place; returns how many drivers were added.

    Tables of four inputs and flip-flops whose nets have many readers and paths longer than ``over`` nanoseconds are copied, into free
    halves of slices; a flip-flop only where its input comes in that time. ``timing`` is a ``PlacedTiming`` whose ``update`` was called; it
    and ``sites`` do not know of the copies' wires afterwards.
    """
    following = max((bit for net in module["netnames"].values() for bit in net["bits"] if isinstance(bit, int)), default=0) + 1
    added, new_readers = 0, defaultdict(list)       # inputs of copies
    for net, readers in timing.readers.items():
        driver, output = timing.drivers[net]
        cell = module["cells"][driver]
        if len(readers) < MANY or timing.longest(net) <= over or not _may_be_copied(cell, output):
            continue
        tile = np.array(timing.tile(driver))
        outside = [reader for reader in (*readers, *new_readers[net]) if reader[1] not in INSIDE]
        parts = _split(outside, timing)
        parts.sort(key=lambda part: np.abs(_nearest(part[1], tile) - tile).sum())
        for names, places in parts[1:]:         # the nearest stay
            name = f"{driver}{COPY}{following}"
            copy = _copied(cell, output, following)
            if not _place(sites, module["cells"], name, copy, _nearest(places, tile),
                          lambda where, copy=copy: _in_time(timing, copy, where, over)):
                continue
            module["netnames"][f"{name}_{output}"] = {"hide_name": 1, "bits": [following], "attributes": {}}
            for port, bits in copy["connections"].items():
                if copy["port_directions"][port] == "input":
                    for bit in bits:
                        new_readers[bit].append((name, port))
            for reader, port in names:
                bits = module["cells"][reader]["connections"][port]
                bits[bits.index(net)] = following
            following, added = following + 1, added + 1
    return added


def count_copies(cells):
    """Copies among the cells of a netlist: tables and flip-flops."""
    kinds = [cell["type"] for name, cell in cells.items() if COPY in name]
    return {"lut": kinds.count("TRELLIS_COMB"), "ff": kinds.count("TRELLIS_FF")}


def _may_be_copied(cell, output):
    return (output, is_plain_table(cell)) == ("F", True) or (cell["type"] == "TRELLIS_FF" and output == "Q")


def _copied(cell, output, bit):
    """A cell like another one, with an output of its own and no site; a flip-flop reads its input from outside of its slice."""
    copy = cell | {name: dict(cell[name]) for name in ("parameters", "attributes", "port_directions")}
    del copy["attributes"]["NEXTPNR_BEL"]
    copy["connections"] = {port: list(bits) for port, bits in cell["connections"].items()} | {output: [bit]}
    if cell["type"] == "TRELLIS_FF" and "DI" in copy["connections"]:
        copy["connections"]["M"] = copy["connections"].pop("DI")
        copy["port_directions"]["M"] = copy["port_directions"].pop("DI")
        copy["parameters"]["SD"] = "0 "
    return copy


def _in_time(timing, copy, tile, over):
    """Whether a flip-flop in a tile would have its inputs in time; a table has what comes behind it as before."""
    if copy["type"] != "TRELLIS_FF":
        return True
    nets = [net for port in ("M", "CE") for net in copy["connections"].get(port, ()) if net in timing.drivers]
    return all(timing.arrival[net] + wire_delay(timing.tile(timing.drivers[net][0]), tile) <= over for net in nets)


def _split(readers, timing):
    """Parts of readers that stand together, with their tiles: halves along the longer side, cut at a gap, until they are small enough.
    Those of a tile stay together, as flip-flops there have one reset, and one enable in a slice."""
    tiles = defaultdict(list)
    for reader in readers:
        tiles[timing.tile(reader[0])].append(reader)
    found, left = [], [sorted(tiles)]
    while left:
        part = left.pop()
        places, counts = np.array(part), np.array([len(tiles[tile]) for tile in part])
        if counts.sum() <= PART or len(part) == 1:
            found.append(([reader for tile in part for reader in tiles[tile]], places))
            continue
        axis = int(np.argmax(np.ptp(places, axis=0)))
        order = np.argsort(places[:, axis], kind="stable")
        # Behind each tile but the last: how far the next one is, and how uneven the halves would be.
        gaps, shares = np.diff(places[order, axis]), np.cumsum(counts[order])[:-1] / counts.sum()
        cut = 1 + int(np.argmax(np.where(np.abs(shares - 0.5) <= UNEVEN, gaps + 1, 0) - np.abs(shares - 0.5)))
        left += [[part[index] for index in order[:cut]], [part[index] for index in order[cut:]]]
    return found


def _nearest(places, tile):
    """The point of the rectangle around some places that is nearest to a tile."""
    return np.clip(tile, places.min(axis=0), places.max(axis=0))


def _place(sites, cells, name, cell, point, fits):
    """Put a new cell near a point; returns whether there is room."""
    cells[name] = cell
    table, flip_flop = (name, None) if cell["type"] == "TRELLIS_COMB" else (None, name)
    for index in np.argsort(np.abs(sites.tiles - point).sum(axis=1), kind="stable")[:TILES]:
        tile = tuple(map(int, sites.tiles[index]))
        if fits(tile) and sites.move(tile, table, flip_flop):
            return True
    del cells[name]
    return False
