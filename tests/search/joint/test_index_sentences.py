"""Equal sentences about several indexes become one."""

from cocosearchd.search.joint.index_sentences import (
    MAX_NAMED,
    MAX_SENTENCES,
    group_sentences,
    join_names,
    limit_sentences,
)


def test_a_sentence_about_many_indexes_is_said_once() -> None:
    names = [f"part{number}" for number in range(100)]
    (sentence,) = group_sentences((name, "not searched: PostgreSQL is away") for name in names)
    assert sentence == (
        f"{', '.join(names[:MAX_NAMED])} and {100 - MAX_NAMED} more indexes: "
        "not searched: PostgreSQL is away"
    )


def test_sentences_keep_their_order_and_their_indexes() -> None:
    sentences = [("a", "first"), ("b", "second"), ("c", "first"), ("a", "first")]
    assert group_sentences(sentences) == ("a, c: first", "b: second")
    assert group_sentences(()) == ()


def test_different_sentences_are_counted_beyond_a_limit() -> None:
    few = [f"sentence {number}" for number in range(MAX_SENTENCES + 1)]
    assert limit_sentences(few) == tuple(few)
    many = [f"sentence {number}" for number in range(1000)]
    limited = limit_sentences(many)
    assert limited[:-1] == tuple(many[:MAX_SENTENCES])
    assert limited[-1].startswith(f"{1000 - MAX_SENTENCES} more warnings")


def test_one_name_more_is_named_rather_than_counted() -> None:
    names = [f"part{number}" for number in range(MAX_NAMED + 1)]
    assert join_names(names) == ", ".join(names)
    assert join_names([*names, "last"]).endswith(" and 2 more indexes")
