"""Mutation testing: broken versions of a unit, and how many of them its bench notices."""
