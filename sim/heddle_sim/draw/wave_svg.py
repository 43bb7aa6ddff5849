"""Waveforms of a simulation as a drawing (SVG): a row for each signal, a column for each clock cycle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from amaranth.hdl import Value
from amaranth.sim import Simulator

__all__ = ["Wave", "record", "wave_svg"]

_ROW, _MARGIN = 26, 12
_WIDTH, _LEAST, _WIDEST = 900, 22, 42   # of the waves at most, unless that is less than _LEAST a cycle; and of a cycle
_CHARACTER = 7.3        # width of a character, 12 pixels high
_HIGH, _LOW = 5, 21     # of the lines of a signal, from the top of its row


@dataclass
class Wave:
    """Values of a signal, one a cycle: those just before each clock edge.

    ``valid`` are the values of the signal that must be 1 where this one has a meaning. ``text`` makes the label of a value; a wave without
    ``text`` is one bit, drawn as a line.
    """

    name: str
    values: list[int] = field(default_factory=list)
    valid: list[int] | None = None
    text: Callable[[int], str] | None = None


def record(sim: Simulator, signals: Mapping[str, Any], payloads: Mapping[str, str] | None = None,
           texts: Mapping[str, Callable[[int], str]] | None = None) -> list[Wave]:
    """Waves of ``signals``, name to signal of Amaranth, that fill while ``sim`` runs.

    Parameters
    ----------
    sim : Simulator
        Simulator with a clock; not run yet.
    signals : mapping
        Name to value; values of one bit are drawn as lines.
    payloads : mapping
        Name of a wave to the name of the wave that says where it is valid.
    texts : mapping
        Name of a wave to the function that makes labels of its values; decimal without.
    """
    payloads, texts = payloads or {}, texts or {}
    casts = {name: Value.cast(signal) for name, signal in signals.items()}
    waves = {name: Wave(name, text=texts.get(name, str if len(cast) > 1 else None)) for name, cast in casts.items()}
    for name, valid in payloads.items():
        waves[name].valid = waves[valid].values

    async def sampler(ctx: Any) -> None:
        async for _, _, *values in ctx.tick().sample(*casts.values()):
            for wave, value in zip(waves.values(), values, strict=True):
                wave.values.append(int(value))

    sim.add_testbench(sampler, background=True)
    return list(waves.values())


def wave_svg(waves: Sequence[Wave], first: int = 0, last: int | None = None) -> str:
    """Text of an SVG file with cycles ``first`` to ``last`` of the waves."""
    end = min(len(wave.values) for wave in waves) if last is None else last + 1
    cycles = end - first
    cell = max(_LEAST, min(_WIDEST, _WIDTH // cycles))
    left = 2 * _MARGIN + _CHARACTER * max(len(wave.name) for wave in waves)
    width, height = left + cell * cycles + _MARGIN, 2 * _MARGIN + _ROW * (len(waves) + 1)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}" '
        'font-family="monospace" font-size="12">',
        f'<rect width="{width:.0f}" height="{height}" fill="#ffffff"/>',
    ]
    for cycle in range(cycles + 1):
        x = left + cell * cycle
        out.append(f'<line x1="{x:g}" y1="{_MARGIN + _ROW - 6}" x2="{x:g}" y2="{height - _MARGIN}" stroke="#dddddd"/>')
        if cycle < cycles:
            out.append(_text(x + cell / 2, _MARGIN + 12, str(cycle), "middle", "#888888"))
    for number, wave in enumerate(waves):
        top = _MARGIN + _ROW * (number + 1)
        out.append(_text(_MARGIN, top + 17, wave.name))
        out += _bit(wave.values[first:end], left, top, cell) if wave.text is None else _bus(wave, (first, end), (left, top), cell)
    return "\n".join([*out, "</svg>", ""])


def _bit(values: list[int], left: float, top: float, cell: int) -> Iterator[str]:
    """One line, high where the bit is 1."""
    points = []
    for cycle, value in enumerate(values):
        y = top + (_HIGH if value else _LOW)
        points += [f"{left + cell * cycle:g},{y:g}", f"{left + cell * (cycle + 1):g},{y:g}"]
    yield f'<polyline points="{" ".join(points)}" fill="none" stroke="#2060a0" stroke-width="1.5"/>'


def _bus(wave: Wave, window: tuple[int, int], place: tuple[float, float], cell: int) -> Iterator[str]:
    """A box for each run of equal values; grey where the value has no meaning."""
    assert wave.text is not None
    (first, end), (left, top) = window, place
    shown = [(wave.values[cycle] if wave.valid is None or wave.valid[cycle] else None) for cycle in range(first, end)]
    start = 0
    for cycle in range(1, len(shown) + 1):
        if cycle < len(shown) and shown[cycle] == shown[start]:
            continue
        value, x, width = shown[start], left + cell * start, cell * (cycle - start)
        fill, stroke = ("#eeeeee", "#cccccc") if value is None else ("#e8f0fa", "#2060a0")
        yield f'<rect x="{x:g}" y="{top + _HIGH}" width="{width:g}" height="{_LOW - _HIGH}" fill="{fill}" stroke="{stroke}"/>'
        if value is not None:
            yield _text(x + width / 2, top + 17, wave.text(value)[:max(1, int(width / _CHARACTER))], "middle")
        start = cycle


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "#000000") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
