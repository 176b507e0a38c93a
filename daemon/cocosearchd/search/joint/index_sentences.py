"""Combines equal sentences about several indexes: each is written once, with all index names. Pure."""

from collections.abc import Iterable, Sequence

MAX_NAMED = 3  # indexes that a sentence names
MAX_SENTENCES = 10  # sentences about the indexes of an answer


def join_names(names: Sequence[str]) -> str:
    """Join the first names, and the number of the other names."""
    if len(names) <= MAX_NAMED + 1:
        return ", ".join(names)
    return f"{', '.join(names[:MAX_NAMED])} and {len(names) - MAX_NAMED} more indexes"


def group_sentences(sentences: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return each sentence once, after the names of its indexes.

    `sentences` are pairs of index and sentence. The result has at most `MAX_SENTENCES` sentences,
    and one that counts the others.
    """
    names_by_sentence = dict[str, list[str]]()
    for name, sentence in sentences:
        names_by_sentence.setdefault(sentence, []).append(name)
    grouped = [
        f"{join_names(list(dict.fromkeys(names)))}: {sentence}"
        for sentence, names in names_by_sentence.items()
    ]
    return limit_sentences(grouped)


def limit_sentences(sentences: Sequence[str]) -> tuple[str, ...]:
    """Return at most `MAX_SENTENCES` sentences, and one that counts the others."""
    if len(sentences) <= MAX_SENTENCES + 1:
        return tuple(sentences)
    omitted = len(sentences) - MAX_SENTENCES
    return (
        *sentences[:MAX_SENTENCES],
        f"{omitted} more warnings: an index by its name has its own",
    )
