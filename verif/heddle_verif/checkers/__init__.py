"""Passive checkers, scoreboards, and rules that programs must keep."""
