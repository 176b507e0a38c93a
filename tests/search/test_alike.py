"""Results that are alike: which are, which one stands for them, and which are not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cocosearchd.search.alike import Text, group_alike

CODE = "def read_settings(path):\n    with open(path) as file:\n        return parse(file.read())\n"
EDITED = CODE.replace("parse(", "load(")
OTHER = "class Router:\n    def add(self, route, handler):\n        self.routes[route] = handler\n"


def text(
    path: str, content: str = CODE, language: str = "python", symbol: str | None = None
) -> Text:
    return Text(path, language, symbol, content)


def groups(*texts: Text, words: str = "") -> list[list[str]]:
    return [
        [entry.path for entry in (group.representative, *group.alternates)]
        for group in group_alike(texts, lambda entry: entry, frozenset(words.split()))
    ]


def test_copies_are_shown_once() -> None:
    assert groups(text("src/a.py"), text("src/b.py", OTHER), text("vendor/x/a.py")) == [
        ["src/a.py", "vendor/x/a.py"],
        ["src/b.py"],
    ]


def test_the_original_stands_for_a_copy_that_ranks_before_it() -> None:
    assert groups(text("vendor/x/a.py"), text("src/a.py")) == [["src/a.py", "vendor/x/a.py"]]


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
    result = group_alike(numbered, lambda entry: entry[1], frozenset())
    members = [
        sorted([group.representative[0], *(n for n, _ in group.alternates)]) for group in result
    ]
    assert sorted(number for group in members for number in group) == list(range(len(texts)))
    assert [group[0] for group in members] == sorted(group[0] for group in members)
