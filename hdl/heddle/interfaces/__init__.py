"""What several units share: payload layouts and port signatures."""
