"""The filter of a question, as values that stored rows are compared with."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions on hits, applied before any fusion. Empty tuples do not restrict.

    Each field has its row in `filter_fields`.
    """

    languages: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()  # globs over the relative path, any may match
    not_paths: tuple[str, ...] = ()
    symbol_types: tuple[str, ...] = ()
    symbol_name: str | None = None  # case-insensitive glob over the qualified and the last name
    # each must occur in the chunk, case-insensitive, in any of its `spellings`
    phrases: tuple[str, ...] = ()

    @property
    def has_symbols(self) -> bool:
        """True if the filter restricts the symbols of chunks."""
        return bool(self.symbol_types or self.symbol_name)
