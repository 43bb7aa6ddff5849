"""Assembly text under construction."""

__all__ = ["Text"]


class Text:
    """Lines of a program; ``count`` instructions so far."""

    def __init__(self):
        self._lines = []
        self._labels = 0
        self.count = 0

    def __call__(self, *instructions):
        self._lines += [f"    {instruction}" for instruction in instructions]
        self.count += len(instructions)

    def label(self, stem):
        """A new label, not placed yet."""
        self._labels += 1
        return f"{stem}_{self._labels}"

    def place(self, label):
        self._lines.append(f"{label}:")

    def __str__(self):
        return "\n".join(self._lines) + "\n"
