"""Groups of stores in programs that are executed."""

__all__ = ["StoreGroupTexts"]


class StoreGroupTexts:
    """Instructions about groups of stores for a generator that has ``text``, ``random``, ``depth`` and ``races``."""

    def commit_group(self):
        """Not in blocks and loops: the number of groups must be known."""
        if self.depth == 0:
            self.text("commit_group")
            self.races.commit()

    def wait_group(self):
        if self.depth == 0:
            self.wait_for_groups(self.random.randrange(4), self.random.random() < 0.5)

    def wait_for_groups(self, most, read):
        self.text(f"wait_group{'.read' * read} {most}")
        self.races.wait_group(most, read)
