"""The layers of settings: precedence, the source of each value, and the message for each mistake."""

import inspect
from dataclasses import fields
from pathlib import Path

import pytest

from cocosearch_ipc import client
from cocosearch_ipc.cli import daemon_calls
from cocosearchd.config.index_settings import IndexSettings, list_values
from cocosearchd.config.layers import load_settings
from cocosearchd.config.settings import (
    LoadedSettings,
    SearchSettings,
    Settings,
    ValueOrigin,
    get_value,
    setting_keys,
)
from cocosearchd.config.sources import Source, parse_source
from cocosearchd.errors import BadSettings
from cocosearchd.store.connection.database import without_password


def written(tmp_path: Path, text: str, env: str = "") -> Path:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    if env:
        (tmp_path / ".env").write_text(env)
    return file


def test_defaults_need_nothing() -> None:
    assert load_settings(None, {}) == LoadedSettings(Settings(), {})


def test_later_layers_win_and_each_value_names_its_place(tmp_path: Path) -> None:
    text = "search:\n  limit: 20\n  profile: classic\nembedder:\n  model: '${MODEL:-small}'\n  batch_size: 8\n"
    file = written(
        tmp_path,
        text,
        "# ours\nexport COCOSEARCH_EMBEDDER_BATCH_SIZE='16'\nCOCOSEARCH_LOG_LEVEL=debug\n",
    )
    loaded = load_settings(
        file,
        {"COCOSEARCH_SEARCH_LIMIT": "30", "COCOSEARCH_LOG_LEVEL": "error"},
        {"search.limit": 40},
    )
    settings = loaded.settings
    assert (settings.search.limit, settings.search.profile, settings.embedder.model) == (
        40,
        "classic",
        "small",
    )
    assert (settings.embedder.batch_size, settings.log.level) == (16, "error")
    assert loaded.origins == {
        "search.limit": ValueOrigin("command line", "--set search.limit"),
        "search.profile": ValueOrigin("config file", f"{file}:3"),
        "embedder.model": ValueOrigin("config file", f"{file}:5"),
        "embedder.batch_size": ValueOrigin(".env", f"{tmp_path}/.env:2"),
        "log.level": ValueOrigin("environment", "COCOSEARCH_LOG_LEVEL"),
    }


def test_extending_settings_are_added_layer_by_layer(tmp_path: Path) -> None:
    file = written(tmp_path, "indexing: {exclude: [a], extend_exclude: [b, c]}")
    loaded = load_settings(
        file, {"COCOSEARCH_INDEXING_EXCLUDE": "x", "COCOSEARCH_INDEXING_EXTEND_EXCLUDE": "d"}
    )
    assert (loaded.settings.indexing.exclude, loaded.settings.indexing.extend_exclude) == (
        ("x",),
        ("b", "c", "d"),
    )
    assert (
        loaded.origins["indexing.extend_exclude"].location
        == f"COCOSEARCH_INDEXING_EXTEND_EXCLUDE and {file}:1"
    )


def test_variables_of_the_file(tmp_path: Path) -> None:
    text = "database: {url: 'postgresql://me:${SECRET}@db/${NAME:-x}'}\nindexing: {exclude: ['${WHAT:-*.gen}', b]}\n"
    file = written(tmp_path, text, "SECRET=of the file\nNAME=y\n")
    settings = load_settings(file, {"SECRET": "s3"}).settings
    assert settings.database.url == "postgresql://me:s3@db/y"
    assert settings.indexing.exclude == ("*.gen", "b")


def test_names_of_habit_mean_the_same(tmp_path: Path) -> None:
    text = "embedding: {provider: ollama, baseUrl: http://e}\nindexing: {chunkSize: 500, excludePatterns: [a]}\n"
    file = written(tmp_path, text + "search: {resultLimit: 7}\nindexing2:\n")
    settings = load_settings(
        file, {"COCOSEARCH_OLLAMA_URL": "http://s", "COCOSEARCH_INDEXING_INCLUDE": "*.py, *.go,"}
    ).settings
    assert (settings.embedder.provider, settings.embedder.url) == ("ollama", "http://e")
    assert (settings.indexing.chunk_size, settings.indexing.exclude, settings.search.limit) == (
        500,
        ("a",),
        7,
    )
    assert (settings.embedder.ollama_url, settings.indexing.include) == (
        "http://s",
        ("*.py", "*.go"),
    )


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cret@db/code?sslpassword=s3cret&sslmode=require",
        "host=db password = s3cret sslpassword='s3cret \\' x' dbname=code",
    ],
)
def test_passwords_are_not_shown(url: str) -> None:
    values = list_values(IndexSettings(load_settings(None, {"COCOSEARCH_DATABASE_URL": url})))
    (text,) = (value for key, value, _, _ in values if key == "database.url")
    for plain in (text, without_password(url)):
        assert "s3cret" not in plain
        assert "code" in plain


def test_every_key_has_a_value() -> None:
    assert all(get_value(Settings(), key) is not Ellipsis for key in setting_keys())
    assert "search.limit" in setting_keys()


@pytest.mark.parametrize(
    ("variables", "sentence", "hint"),
    [
        (
            {"COCOSEARCH_SEARCH_LIMT": "3"},
            "unknown variable COCOSEARCH_SEARCH_LIMT",
            "COCOSEARCH_SEARCH_LIMIT",
        ),
        (
            {"COCOSEARCH_SEARCH_LIMIT": "many"},
            "search.limit in COCOSEARCH_SEARCH_LIMIT is 'many'",
            "a number",
        ),
        (
            {"COCOSEARCH_SEARCH_LIMIT": "0"},
            "search.limit in COCOSEARCH_SEARCH_LIMIT is 0",
            "use 1 to 200",
        ),
        (
            {"COCOSEARCH_EMBEDDER_TIMEOUT_S": "nan"},
            "COCOSEARCH_EMBEDDER_TIMEOUT_S is nan",
            "use 0.1 to 3600",
        ),
        ({"COCOSEARCH_INDEXING_NICE": "-5"}, "COCOSEARCH_INDEXING_NICE is -5", "use 0 to 19"),
        (
            {"COCOSEARCH_DATABASE_FOLLOW": "team_a,team_b"},
            "database.follow in COCOSEARCH_DATABASE_FOLLOW needs database.url",
            "set database.url",
        ),
        (
            {"COCOSEARCH_DATABASE_POOL_MAX": "1"},
            "pool_min in COCOSEARCH_DATABASE_POOL_MAX is 2, more than",
            "use",
        ),
        (
            {"COCOSEARCH_OLLAMA_URL": "http://h:1143x"},
            "embedder.ollama_url in COCOSEARCH_OLLAMA_URL is not",
            "http",
        ),
        (
            {"COCOSEARCH_EMBEDDER_URL": "http://[::1"},
            "embedder.url in COCOSEARCH_EMBEDDER_URL is not a URL",
            "http",
        ),
        (
            {"COCOSEARCH_SEARCH_PROFILE": "best"},
            "COCOSEARCH_SEARCH_PROFILE is 'best'",
            "code, classic",
        ),
        (
            {"COCOSEARCH_SERVER_ENABLED": "perhaps"},
            "COCOSEARCH_SERVER_ENABLED is 'perhaps'",
            "true or false",
        ),
    ],
)
def test_mistakes_in_the_environment(variables: dict[str, str], sentence: str, hint: str) -> None:
    with pytest.raises(BadSettings) as caught:
        load_settings(None, variables)
    assert sentence in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "sentence", "hint"),
    [
        (
            "search: {limt: 3}",
            "unknown setting 'search.limt' in FILE:1",
            "did you mean search.limit?",
        ),
        (
            "indexing:\n  chunkSiz: 3",
            "unknown setting 'indexing.chunkSiz' in FILE:2",
            "did you mean indexing.chunkSize?",
        ),
        ("serach: {}\nlog: {levle: info}", "unknown setting 'log.levle' in FILE:2", "log.level"),
        ("search: 3", "unknown setting 'search' in FILE:1", ""),
        ("- a", "FILE:1 is not sections of settings", "section:"),
        ("a: 1\nsearch: [", "cannot read FILE:2", "mend"),
        ("indexing:\n  include: 3", "indexing.include in FILE:2 is not a list of texts", "[a, b]"),
        ("indexing: {include: [[a]]}", "is not a list of texts", "[a, b]"),
        ("indexing: {exclude: [20260101]}", "is not a list of texts", "in quotes"),
        (
            "indexing:\n  exclude:\n  - 20260101000000000000000",
            "FILE:3 has a number that is larger than that of any setting",
            "in quotes",
        ),
        ("embedder: {model: {a: 1}}", "is not a text", ""),
        ("server: {host: on}", "server.host in FILE:1 is not a text", "in quotes"),
        *(
            (
                f"database: {{shared_buffers: {size}}}",
                f"database.shared_buffers in FILE:1 is '{size}'",
                "128MB",
            )
            for size in ("128mb", "1kB", "15", "2TB", "nan", "-1", "128MB -c x=y", "1.GB")
        ),
        (
            "search:\n  limit: 3\n  limit: 4",
            "search.limit stands twice in FILE: lines 2 and 3",
            "keep one",
        ),
        (
            "embedder: {model: '${NO_SUCH_THING}'}",
            "needs the variable NO_SUCH_THING, which is not set",
            ":-default",
        ),
        (
            "indexing: {chunker: recursive, chunk_size: 300}",
            "is 300, as large as chunk_size 300",
            "smaller overlap",
        ),
        ("indexing: {chunk_size: 10}", "indexing.chunk_size in FILE:1 is 10", "use 100 to 100000"),
        ("[" * 50_000, "cannot read FILE", "mend"),
        ("a: \xff" * 200_000, "larger than 256 kB", "mend"),
    ],
)
def test_mistakes_in_the_file(tmp_path: Path, text: str, sentence: str, hint: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(BadSettings) as caught:
        load_settings(file, {})
    assert sentence.replace("FILE", str(file)) in caught.value.message
    assert hint in caught.value.hint


def test_no_number_may_be_just_any(tmp_path: Path) -> None:
    """A number that no part of the daemon was made for ends it later, with a worse sentence or
    none.
    """
    numbers = [key for key in setting_keys() if type(get_value(Settings(), key)) in (int, float)]
    assert len(numbers) > 20
    optional = ("indexing.processes", "embedder.cache_bytes")  # which are none by themselves
    for key in (*numbers, *optional):
        for value in (-1, 1e30, "inf", "nan"):
            with pytest.raises(BadSettings):
                load_settings(None, {}, {key: value})
        load_settings(None, {}, {key: get_value(Settings(), key)})


def test_clients_wait_longer_than_a_question_does_by_itself() -> None:
    """They do not know what is configured: `cocosearchctl`, and editors with the client as it
    is.
    """
    longest = next(
        field for field in fields(SearchSettings) if field.name == "sync_timeout_ms"
    ).metadata["within"][1]
    call_timeout_s = inspect.signature(client.call).parameters["timeout_s"].default
    assert longest / 1000 <= min(call_timeout_s, daemon_calls.WORK_S) / 2


def test_what_says_nothing(tmp_path: Path) -> None:
    for text in (
        "",
        "# only a comment\n",
        "search:\n#  limit: 3\n",
        "indexing:\n  include:\n#  - a\n",
    ):
        assert load_settings(written(tmp_path, text), {}).settings == Settings()
    assert load_settings(tmp_path / "absent.yaml", {}).settings == Settings()


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("~/work/api", Source("~/work/api")),
        ("/srv/my code topic:a  topic:b ", Source("/srv/my code", ("a", "b"))),
        ("/srv/topic:x/code", Source("/srv/topic:x/code")),
        ("/srv/code topic:", Source("/srv/code topic:")),
    ],
)
def test_a_source_is_a_path_with_topics(text: str, source: Source) -> None:
    assert parse_source(text) == source


def test_sources_are_declared_at_the_top_of_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "sources:\n  - ~/work/api topic:a\n  - /srv/code\n")
    assert load_settings(file, {}).settings.watching.sources == ("~/work/api topic:a", "/srv/code")
    with pytest.raises(BadSettings, match=r"watching\.sources in .*config\.yaml:1 has 'work/api'"):
        load_settings(written(tmp_path, "sources: [work/api]\n"), {})


@pytest.mark.parametrize("size", ["128kB", "16", "1.5GB", "32 MB", "134217728B", "1TB"])
def test_sizes_of_memory_are_those_of_postgresql(tmp_path: Path, size: str) -> None:
    loaded = load_settings(written(tmp_path, f"database: {{shared_buffers: {size}}}"), {})
    assert loaded.settings.database.shared_buffers == size
