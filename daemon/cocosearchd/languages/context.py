"""What encloses a range: the lines of the smallest definition around it, to widen a hit."""

from cocosearchd.languages.parse import Parsed, parse


def enclosing(path: str, data: bytes, start_byte: int, end_byte: int) -> tuple[int, int] | None:
    """The line range (from 1, inclusive) of the smallest definition around a byte range, None where there is none."""
    return enclosing_of(parse(path, data), start_byte, end_byte)


def enclosing_of(parsed: Parsed, start_byte: int, end_byte: int) -> tuple[int, int] | None:
    """The same for a file that is parsed already. Blanks at both ends of the range do not count."""
    text = parsed.data[start_byte:end_byte]
    start = start_byte + len(text) - len(text.lstrip())
    end = end_byte - (len(text) - len(text.rstrip()))
    around = [symbol for symbol in parsed.symbols if symbol.start_byte <= start and end <= symbol.end_byte]
    smallest = min(around, key=lambda symbol: symbol.end_byte - symbol.start_byte, default=None)
    return None if smallest is None else (smallest.start_line, smallest.end_line)
