"""Designs under test that exist for benches only: units wired as in the device, stand-ins."""
