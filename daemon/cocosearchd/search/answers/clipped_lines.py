"""Lines of code that are cut to a width, and the marks of what is left out. Pure."""

ELLIPSIS = "..."
GAP = "…"  # replaces the lines that are left out between the signature and the match


def clip_lines(text: str, width: int) -> str:
    """Cut every line of a text to `width` characters."""
    if len(text) <= width:
        return text
    return "\n".join(clip_line(line, width) for line in text.split("\n"))


def clip_line(line: str, width: int) -> str:
    """Cut a line to `width` characters (not bytes), with three dots for a missing end."""
    return line if len(line) <= width else line[: max(0, width - len(ELLIPSIS))] + ELLIPSIS
