"""Drawings as text and as SVG."""
