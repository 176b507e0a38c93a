"""The files that a periodic scan reads again, though nothing says that they changed."""


class AuditRotation:
    """Divides the files of a root into shares, and gives out one share after another.

    Of `shares` + 1 shares in a row, every file is in at least one if the number of files stays the
    same.
    """

    def __init__(self, shares: int) -> None:
        self._shares = shares
        self._start = 0  # of the next share

    def next_share(self, files: int) -> slice:
        """Return the next share of a sorted list of so many files.

        After the last file the first is next: files that were added or removed may have moved the
        start by any number.
        """
        start = self._start if self._start < files else 0
        self._start = start + files // self._shares + 1
        return slice(start, self._start)
