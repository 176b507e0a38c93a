"""Makes candidates as retrieval gives them."""

from cocosearchd.store.chunks.rows import Candidate


def candidate(
    path: str,
    start: int = 0,
    *,
    score: float = 0.0,
    content: str = "text",
    definitions: tuple[str, ...] = (),
    language: str = "python",
    symbol_name: str | None = None,
    header: str = "",
) -> Candidate:
    return Candidate(
        path=path,
        start_byte=start,
        end_byte=start + 10,
        start_line=start + 1,
        end_line=start + 1,
        language=language,
        block_type="",
        hierarchy="",
        symbol_type="function" if symbol_name else None,
        symbol_name=symbol_name,
        symbol_signature=None,
        content=content,
        definitions=definitions,
        header=header,
        score=score,
    )
