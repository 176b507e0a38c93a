"""Targets of questions: names, locations and paths, and errors for unknown or ambiguous ones."""

from dataclasses import replace

import pytest

from cocosearchd.errors import InvalidInput, NotFound
from cocosearchd.graph.code_files import WHOLE_FILE, CodeFiles, DefinitionKey
from cocosearchd.graph.questions.target import Target, parse_target, split_name
from cocosearchd.graph.questions.target_search import TargetDefinitions, find_target_definitions
from cocosearchd.graph.resolution.resolver import Resolver
from tests.graph.sources import parse_sources

FILES = parse_sources(
    {
        "src/net/client.py": """
            class Client:
                def retry(self, times):
                    return times

                def _send(self):
                    return self.retry(3)
            """,
        "src/net/server.py": """
            from src.net.client import Client

            class Server:
                def retry(self):
                    client = Client()
                    return client.retry(1)

            Server().retry()
            """,
        "src/settings.py": """
            import os

            def load_settings(path):
                return os.path.join(path)
            """,
        "tests/test_settings.py": """
            def load_settings():
                return {}
            """,
    }
)


def located(text: str, paths: tuple[str, ...] = (), files: CodeFiles = FILES) -> list[str]:
    """Return the definitions of a target as `path:qualified name`."""
    return [described(files, key) for key in definitions(text, paths, files).keys]


def described(files: CodeFiles, key: DefinitionKey) -> str:
    file = files.load([key.path])[key.path]
    name = "" if key.position == WHOLE_FILE else f":{file.symbols[key.position].qualified_name}"
    return f"{key.path}{name}"


def definitions(
    text: str, paths: tuple[str, ...] = (), files: CodeFiles = FILES
) -> TargetDefinitions:
    """Find the definitions of a target."""
    target = parse_target(text)
    candidates = paths or (target.path,)
    written = Target(target.text, target.path, target.line, target.column, candidates)
    return find_target_definitions(files, Resolver(files), written)


@pytest.mark.parametrize(
    ("text", "path", "line", "column"),
    [
        ("retry", "retry", 0, 0),
        (" Client.retry() ", "Client.retry()", 0, 0),
        ("a/b.py:12", "a/b.py", 12, 0),
        ("a/b.py:12:3", "a/b.py", 12, 3),
        ("a/b.py:12:3:", "a/b.py", 12, 3),
        ("ns::Client", "ns::Client", 0, 0),
    ],
)
def test_a_target_is_a_name_or_a_place(text: str, path: str, line: int, column: int) -> None:
    target = parse_target(text)
    assert (target.path, target.line, target.column) == (path, line, column)


@pytest.mark.parametrize("text", ["a.py:0", "a.py:3:0", "a.py:9999999999", "x" * 5000])
def test_a_target_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_target(text)


def test_an_empty_target_is_refused_by_questions_that_need_one() -> None:
    with pytest.raises(InvalidInput, match="the target is empty"):
        located("  ")


def test_names_split_at_the_separators_of_all_languages() -> None:
    assert split_name("ns::Client->run") == ["ns", "Client", "run"]
    assert split_name(r"App\Http\Kernel") == ["App", "Http", "Kernel"]
    assert split_name("Client#retry()") == ["Client", "retry"]


@pytest.mark.parametrize(
    "text",
    [
        "Client.retry",
        "client.Client.retry",
        "net.Client.retry",
        "src.net.client.Client.retry",
        "Client::retry()",
    ],
)
def test_qualifiers_are_definitions_and_parts_of_the_path(text: str) -> None:
    assert located(text) == ["src/net/client.py:Client.retry"]


def test_leading_underscores_may_be_left_out() -> None:
    assert located("send") == ["src/net/client.py:Client._send"]
    assert located("Client.send") == ["src/net/client.py:Client._send"]


def test_a_name_of_several_definitions_is_refused_with_their_places() -> None:
    with pytest.raises(InvalidInput) as caught:
        located("retry")
    assert caught.value.message == "'retry' names 2 definitions"
    assert "Client.retry (src/net/client.py:2)" in caught.value.hint
    assert "Server.retry (src/net/server.py:4)" in caught.value.hint


def test_code_comes_before_tests_with_a_note() -> None:
    target = definitions("load_settings")
    assert [key.path for key in target.keys] == ["src/settings.py"]
    assert target.notes == ("1 more of this name in tests: tests/test_settings.py:1",)


def test_an_unknown_qualifier_names_those_that_exist() -> None:
    with pytest.raises(NotFound) as caught:
        located("Service.retry")
    assert "did you mean Client.retry (src/net/client.py:2)" in caught.value.hint


def test_a_name_that_is_only_used_is_of_another_project() -> None:
    with pytest.raises(NotFound) as caught:
        located("join")
    assert caught.value.hint == "it is used in src/settings.py, and defined outside of the index"


def test_a_path_is_the_file_as_a_whole() -> None:
    assert located("src/settings.py") == ["src/settings.py"]
    assert located("settings.py", paths=("settings.py", "src/settings.py")) == ["src/settings.py"]


def test_a_path_that_is_not_indexed_names_similar_ones() -> None:
    with pytest.raises(NotFound) as caught:
        located("lib/settings.py:3")
    assert caught.value.message == "the index has no file lib/settings.py"
    assert caught.value.hint == "did you mean src/settings.py?"


def test_a_place_is_the_definition_that_begins_there() -> None:
    assert located("src/net/client.py:2") == ["src/net/client.py:Client.retry"]


def test_a_place_inside_of_a_definition_means_it_with_a_note() -> None:
    target = definitions("src/net/client.py:3")
    assert [key.position for key in target.keys] == [1]
    assert target.notes == ("src/net/client.py:3 is in Client.retry",)


def test_a_column_means_the_name_that_is_used_there() -> None:
    assert located("src/net/client.py:6:21") == ["src/net/client.py:Client.retry"]
    assert located("src/net/server.py:6:23") == ["src/net/client.py:Client.retry"]


def test_an_import_means_what_it_names() -> None:
    assert located("src/net/server.py:1") == ["src/net/client.py:Client"]


def test_a_line_outside_of_definitions_means_its_only_use_or_asks_for_a_column() -> None:
    assert located("src/net/server.py:8:1") == ["src/net/server.py:Server"]
    with pytest.raises(InvalidInput, match="uses 2 names: Server"):
        located("src/net/server.py:8")


def test_a_name_of_another_project_at_a_place_is_said_to_be_that() -> None:
    with pytest.raises(NotFound) as caught:
        located("src/settings.py:4:20")
    assert "join at src/settings.py:4:20 has no definition in the index" in caught.value.message


def test_a_place_with_nothing_says_what_is_near() -> None:
    with pytest.raises(NotFound) as caught:
        located("src/net/server.py:2")
    assert caught.value.message == "nothing is defined or used at src/net/server.py:2"
    assert "Server (src/net/server.py:3)" in caught.value.hint


def test_overloads_are_one_definition() -> None:
    files = parse_sources(
        {
            "a.py": """
            from typing import overload

            @overload
            def read(x: int) -> int: ...
            @overload
            def read(x: str) -> str: ...
            def read(x): return x
            """
        }
    )
    assert located("read", files=files) == ["a.py:read"] * 3


def test_a_name_in_very_many_files_is_bounded() -> None:
    files = parse_sources({f"f{i}.py": "def main(): pass\n" for i in range(2100)})
    with pytest.raises(InvalidInput) as caught:
        located("main", files=files)
    assert caught.value.message == "'main' names more than 2,000 definitions"
    assert located("f7.main", files=files) == ["f7.py:main"]


OPERATORS = parse_sources(
    {
        "vec.cpp": """
            struct Vec {
              Vec* operator->() { return this; }
              int operator()(int x) { return x; }
              Vec operator/(int x) { return *this; }
              int operator[](int i) { return i; }
            };
            """,
        "foo.rs": """
            impl Foo {
                fn r#type(&self) {}
            }
            """,
        "call.py": """
            def operator():
                pass
            """,
    }
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("operator->", "vec.cpp:Vec.operator->"),
        ("Vec::operator->", "vec.cpp:Vec.operator->"),
        ("Vec::operator->()", "vec.cpp:Vec.operator->"),
        ("Vec::operator()", "vec.cpp:Vec.operator()"),
        ("Vec::operator()()", "vec.cpp:Vec.operator()"),
        ("Vec.operator/", "vec.cpp:Vec.operator/"),
        ("Vec::operator[]", "vec.cpp:Vec.operator[]"),
        ("Foo::r#type", "foo.rs:Foo.r#type"),
        ("call.operator()", "call.py:operator"),
    ],
)
def test_operators_and_raw_names_are_names(text: str, name: str) -> None:
    assert located(text, files=OPERATORS) == [name]
    assert not parse_target(text).is_path


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("src", "it is a directory: name a file in it, such as src/net/client.py"),
        ("src/net/", "it is a directory: name a file in it, such as src/net/client.py"),
        ("client.py", "did you mean src/net/client.py?"),
        ("server.py", "did you mean src/net/server.py?"),
    ],
)
def test_a_directory_or_the_end_of_a_path_is_no_unknown_name(text: str, hint: str) -> None:
    target = replace(parse_target(text), paths=(text, f"elsewhere/{text}"))
    with pytest.raises(NotFound) as refusal:
        find_target_definitions(FILES, Resolver(FILES), target)
    assert refusal.value.hint == hint
