"""Payload layouts and port signatures shared by several units."""
