"""Texts of drawings (SVG)."""

from html import escape

__all__ = ["svg_text"]


def svg_text(x: float, y: float, text: str) -> str:
    """An element whose text begins at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
