"""The layers of settings and what each kind of mistake says."""

from pathlib import Path

import pytest

from cocosearchd.errors import BadSettings
from cocosearchd.settings import Settings, keys, load, value_of


def test_defaults_need_nothing() -> None:
    loaded = load(None, {})
    assert loaded.settings == Settings()
    assert loaded.origins == {}


def test_later_layers_win_and_are_named(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("search: {limit: 20, profile: classic}\nembedder: {model: '${MODEL:-small}'}\n")
    loaded = load(file, {"COCOSEARCH_SEARCH_LIMIT": "30"}, {"search.limit": 40})
    assert loaded.settings.search.limit == 40
    assert loaded.settings.search.profile == "classic"
    assert loaded.settings.embedder.model == "small"
    assert loaded.origins == {"search.limit": "command line", "search.profile": str(file), "embedder.model": str(file)}


def test_variables_of_the_file_come_from_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("database: {url: 'postgresql://me:${SECRET}@db/x'}\nindexing: {exclude: ['${WHAT:-*.gen}', b]}\n")
    settings = load(file, {"SECRET": "s3"}).settings
    assert settings.database.url == "postgresql://me:s3@db/x"
    assert settings.indexing.exclude == ("*.gen", "b")


def test_aliases_and_lists_of_the_environment() -> None:
    settings = load(None, {"COCOSEARCH_OLLAMA_URL": "http://s", "COCOSEARCH_INDEXING_INCLUDE": "*.py, *.go,"}).settings
    assert settings.embedder.ollama_url == "http://s"
    assert settings.indexing.include == ("*.py", "*.go")


def test_every_key_has_a_value() -> None:
    assert all(value_of(Settings(), key) is not Ellipsis for key in keys())
    assert "search.limit" in keys()


@pytest.mark.parametrize(
    ("variables", "sentence", "hint"),
    [
        ({"COCOSEARCH_SEARCH_LIMT": "3"}, "unknown variable COCOSEARCH_SEARCH_LIMT", "COCOSEARCH_SEARCH_LIMIT"),
        ({"COCOSEARCH_SEARCH_LIMIT": "many"}, "search.limit in environment is 'many'", "a number"),
        ({"COCOSEARCH_SEARCH_PROFILE": "best"}, "search.profile in environment is 'best'", "code, classic"),
        ({"COCOSEARCH_SERVER_ENABLED": "perhaps"}, "server.enabled in environment is 'perhaps'", "true or false"),
    ],
)
def test_mistakes_in_the_environment(variables: dict[str, str], sentence: str, hint: str) -> None:
    with pytest.raises(BadSettings) as caught:
        load(None, variables)
    assert sentence in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("search: {limt: 3}", "unknown setting 'search.limt'"),
        ("search: 3", "is not sections of settings"),
        ("search: [", "cannot read"),
        ("indexing: {include: 3}", "is not a list of texts"),
        ("embedder: {model: {a: 1}}", "is not a text"),
    ],
)
def test_mistakes_in_the_file(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(BadSettings) as caught:
        load(file, {})
    assert sentence in caught.value.message
