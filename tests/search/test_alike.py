"""Alike results: their groups, and the representative of each."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocosearchd.search.alike import (
    COPY_SIMILARITY,
    MAX_COMPARED_GROUPS,
    SHORTER_SHARE,
    Text,
    WantedVariant,
    group_copies,
    group_similar,
)

CODE = "def read_settings(path):\n    with open(path) as file:\n        return parse(file.read())\n"
EDITED = CODE.replace("parse(", "load(")
OTHER = "class Router:\n    def add(self, route, handler):\n        self.routes[route] = handler\n"


def text(
    path: str, content: str = CODE, language: str = "python", symbol: str | None = None
) -> Text:
    return Text(path, language, symbol, content)


def groups(*texts: Text, words: str = "", languages: str = "") -> list[list[str]]:
    variant = WantedVariant(frozenset(words.split()), frozenset(languages.split()))
    return [
        [entry.path for entry in (group.representative, *group.alternates)]
        for group in group_similar(texts, lambda entry: entry, variant)
    ]


def test_copies_are_shown_once() -> None:
    assert groups(text("src/a.py"), text("src/b.py", OTHER), text("vendor/x/a.py")) == [
        ["src/a.py", "vendor/x/a.py"],
        ["src/b.py"],
    ]


def test_the_original_stands_for_a_copy_that_ranks_before_it() -> None:
    assert groups(text("vendor/x/a.py"), text("src/a.py")) == [["src/a.py", "vendor/x/a.py"]]


def test_a_vendored_file_stands_behind_its_original_whatever_its_version() -> None:
    vendored = text("pip/_vendor/requests/compat.py", OTHER)
    assert groups(vendored, text("src/requests/compat.py")) == [
        ["src/requests/compat.py", "pip/_vendor/requests/compat.py"]
    ]
    second = text("tools/vendor/requests/compat.py")
    assert groups(second, vendored) == [[second.path, vendored.path]]
    assert len(groups(vendored, text("src/other/compat.py"))) == 2
    assert len(groups(text("vendor/compat.py", OTHER), text("src/compat.py"))) == 2


def test_near_copies_need_the_same_name() -> None:
    long_code = CODE * 6
    edited = long_code + "x = 1\n"
    assert groups(text("src/a.py", long_code), text("lib/a.py", edited)) == [
        ["src/a.py", "lib/a.py"]
    ]
    assert groups(text("src/a.py", long_code), text("src/b.py", edited)) == [
        ["src/a.py"],
        ["src/b.py"],
    ]
    assert len(groups(text("a.py", CODE, symbol="read"), text("b.py", EDITED, symbol="other"))) == 2


@pytest.mark.parametrize(
    ("paths", "face"),
    [
        (("docs/de/hooks.md", "docs/en/hooks.md", "docs/zh-hant/hooks.md"), "docs/en/hooks.md"),
        (("README.pt-BR.md", "README.md"), "README.md"),
        (("docs/em/hooks.md", "docs/en/hooks.md"), "docs/en/hooks.md"),  # emoji, for a joke
        (("i18n/fr/about.md", "i18n/ja/about.md"), "i18n/fr/about.md"),
    ],
)
def test_one_stands_for_all_translations(paths: tuple[str, ...], face: str) -> None:
    texts = [text(path, f"# {path}\nwords of {path}", "markdown") for path in paths]
    ((first, *alternates),) = groups(*texts)
    assert first == face
    assert sorted([first, *alternates]) == sorted(paths)


def test_the_language_of_the_question_is_preferred() -> None:
    texts = [text(f"docs/{code}/hooks.md", code, "markdown") for code in ("en", "de", "fr")]
    assert groups(*texts, words="hooks de")[0][0] == "docs/de/hooks.md"
    assert groups(*texts, languages="fr")[0][0] == "docs/fr/hooks.md"
    assert groups(*texts, languages="fr", words="de")[0][0] == "docs/de/hooks.md"
    assert groups(*texts, languages="ja")[0][0] == "docs/en/hooks.md"


def test_a_locale_with_a_region_is_of_its_language() -> None:
    texts = [text(f"docs/{code}/hooks.md", code, "markdown") for code in ("en", "zh-hant", "pt_BR")]
    assert groups(*texts, languages="zh")[0][0] == "docs/zh-hant/hooks.md"
    assert groups(*texts, languages="es pt")[0][0] == "docs/pt_BR/hooks.md"


def test_a_directory_that_looks_like_a_locale_is_none_for_code() -> None:
    assert len(groups(text("src/is/run.py", CODE), text("src/id/run.py", OTHER))) == 2


def test_versions_and_platforms_are_twins() -> None:
    old = text("packages/v3/parse.py", CODE, symbol="read_settings")
    new = text("packages/v4/parse.py", EDITED, symbol="read_settings")
    assert groups(old, new) == [["packages/v3/parse.py", "packages/v4/parse.py"]]
    assert groups(old, new, words="v4 settings")[0][0] == "packages/v4/parse.py"
    legacy = text("src/legacy/parse.py", CODE, symbol="read_settings")
    plain = text("src/parse.py", EDITED, symbol="read_settings")
    assert groups(legacy, plain) == [["src/parse.py", "src/legacy/parse.py"]]
    unix = text("src/unix/fs.c", "int open_unix(void);", "c", "uv_fs_open")
    windows = text("src/win/fs.c", "HANDLE open_windows(void);", "c", "uv_fs_open")
    assert groups(unix, windows) == [["src/unix/fs.c", "src/win/fs.c"]]
    assert groups(unix, windows, words="win open")[0][0] == "src/win/fs.c"
    assert len(groups(unix, text("src/win/fs.c", "int x;", "c", "uv_fs_close"))) == 2


def test_other_files_of_one_directory_are_not_alike() -> None:
    texts = [text(f"src/handlers/{name}.py", f"{OTHER}# {name}") for name in ("get", "put", "post")]
    assert len(groups(*texts)) == 3


def test_two_languages_are_never_alike() -> None:
    assert len(groups(text("a.py"), text("a.pyi", language="stub"))) == 2


PATHS = st.sampled_from(
    ["a.py", "vendor/a.py", "docs/en/a.md", "docs/de/a.md", "v1/a.py", "v2/a.py", "a/b/c.py", ""]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(PATHS, st.sampled_from([CODE, EDITED, OTHER, ""])), max_size=12))
def test_nothing_is_lost_and_order_is_kept(rows: list[tuple[str, str]]) -> None:
    texts = [text(path, content) for path, content in rows]
    numbered = list(enumerate(texts))
    result = group_similar(numbered, lambda entry: entry[1], WantedVariant())
    members = [
        sorted([group.representative[0], *(n for n, _ in group.alternates)]) for group in result
    ]
    assert sorted(number for group in members for number in group) == list(range(len(texts)))
    assert [group[0] for group in members] == sorted(group[0] for group in members)


TWIN = "def send(self, request):\n    for hook in self.hooks:\n        hook(request)\n" * 3


def test_nearly_equal_places_of_a_file_are_one() -> None:
    texts = [
        text("a.py", TWIN, symbol="send"),
        text("a.py", OTHER, symbol="Router"),
        text("a.py", TWIN.replace("def send", "async def send", 1), symbol="send"),
        text("a.py", TWIN * 3, symbol="send"),  # repeats its parts, and is much longer
    ]
    result = group_copies(list(enumerate(texts)), lambda entry: entry[1])
    assert [
        [number for number, _ in (group.representative, *group.alternates)] for group in result
    ] == [[0, 2], [1], [3]]


def are_similar(first: str, second: str) -> bool:
    """Compare all runs of three words of two texts."""
    runs = [
        {tuple(words[n : n + 3]) for n in range(max(1, len(words) - 2))}
        for words in (first.split(), second.split())
    ]
    return len(runs[0] & runs[1]) / len(runs[0] | runs[1]) >= COPY_SIMILARITY


WORDS = st.sampled_from(["one", "two", "six", "ten", "red", "sky", "sun", "sea"])


@settings(max_examples=500, deadline=None)
@given(
    st.lists(WORDS, max_size=24),
    st.lists(st.tuples(st.integers(0, 23), st.lists(WORDS, max_size=2)), max_size=4),
)
def test_places_are_copies_by_their_runs_of_words(
    words: list[str], edits: list[tuple[int, list[str]]]
) -> None:
    edited_words = list(words)
    for position, new_words in edits:
        edited_words[position : position + 1] = new_words
    first, second = " ".join(words), " ".join(edited_words)
    lengths = sorted(map(len, (first, second)))
    are_copies = lengths[0] >= SHORTER_SHARE * lengths[1] and are_similar(first, second)
    result = group_copies([text("a.py", first), text("a.py", second)], lambda entry: entry)
    assert len(result) == (1 if are_copies else 2)


PARTS = ("src", "docs", "en", "de", "v1", "v2", "linux", "windows", "vendor", "legacy", "tests")
TEXTS = st.builds(
    lambda parts, name, content, language, symbol: Text(
        "/".join((*parts, name)), language, symbol, content
    ),
    st.lists(st.sampled_from(PARTS), max_size=3),
    st.sampled_from(("a.py", "b.py", "a.de.py", "guide.md")),
    st.sampled_from((CODE, EDITED, CODE * 6, CODE * 6 + "x = 1\n", OTHER)),
    st.sampled_from(("python", "markdown")),
    st.sampled_from((None, "read", "other")),
)


def compare_with_each_head(texts: list[Text]) -> list[list[str]]:
    """Compare each text with the first text of each group, in order, two at a time."""
    grouped_texts: list[list[Text]] = []
    for entry in texts:
        group = next(
            (g for g in grouped_texts[:MAX_COMPARED_GROUPS] if len(groups(g[0], entry)) == 1), None
        )
        if group is None:
            grouped_texts.append([entry])
        else:
            group.append(entry)
    return [sorted(entry.path for entry in group) for group in grouped_texts]


@settings(max_examples=300, deadline=None)
@given(st.lists(TEXTS, max_size=60))
def test_each_is_in_the_first_group_that_it_is_alike(texts: list[Text]) -> None:
    assert [sorted(group) for group in groups(*texts)] == compare_with_each_head(texts)
