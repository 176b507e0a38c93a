"""Settings that a project may make for its own index, and refused ones of a hostile project."""

import errno
import os
from pathlib import Path

import pytest

from cocosearchd.config.index_settings import read_index_settings
from cocosearchd.config.layers import load_settings
from cocosearchd.config.project import Project, read_project, stamps
from cocosearchd.config.setting_effects import PROJECT_SETTINGS
from cocosearchd.config.settings import ValueOrigin, setting_keys
from cocosearchd.errors import BadSettings

ENVIRONMENT = {
    "AWS_SECRET": "s3cret",
    "COCOSEARCH_DATABASE_URL": "postgresql://me:pw@db/x",
    "COCOSEARCH_VAR_TEAM": "blue",
}


def project(root: Path, text: str, env: str = "", name: str = "cocosearch.yaml") -> Project:
    (root / name).write_text(text)
    if env:
        (root / ".env").write_text(env)
    return read_project(os.fsencode(root), ENVIRONMENT)


FULL = """\
name: shop
topics: [backend, '${COCOSEARCH_VAR_TEAM}']
linkedIndexes:
  - library
indexing:
  chunkSize: 600
  include: ['src/**']
  extend_exclude: [generated/]
  respectGitignore: false
search:
  limit: 5
"""


def test_all_that_may_stand_there(tmp_path: Path) -> None:
    read = project(tmp_path, FULL)
    assert (read.file, read.name, read.topics, read.linked_indexes) == (
        "cocosearch.yaml", "shop", ("backend", "blue"), ("library",),
    )  # fmt: skip
    assert dict(read.origins)["linked_indexes"] == ValueOrigin("project", "cocosearch.yaml:3")
    assert {value.key: (value.value, value.origin.location) for value in read.values} == {
        "indexing.chunk_size": (600, "cocosearch.yaml:6"),
        "indexing.include": (("src/**",), "cocosearch.yaml:7"),
        "indexing.extend_exclude": (("generated/",), "cocosearch.yaml:8"),
        "indexing.respect_gitignore": (False, "cocosearch.yaml:9"),
        "search.limit": (5, "cocosearch.yaml:11"),
    }
    assert read.warnings == ()
    assert not PROJECT_SETTINGS - set(setting_keys())


def test_project_settings_rank_between_the_users_file_and_the_environment(tmp_path: Path) -> None:
    config = tmp_path / "user" / "config.yaml"
    config.parent.mkdir()
    config.write_text(
        "indexing: {chunk_size: 700, exclude: [a], extend_exclude: [b]}\nsearch: {limit: 3}"
    )
    loaded = load_settings(config, {"COCOSEARCH_SEARCH_LIMIT": "30"})
    effective = loaded.with_values(
        project(tmp_path, FULL, "COCOSEARCH_INDEXING_CHUNK_SIZE=800\n").values
    )
    assert (effective.settings.search.limit, effective.settings.indexing.chunk_size) == (30, 800)
    assert effective.settings.indexing.exclude == ("a",)
    assert effective.settings.indexing.extend_exclude == ("b", "generated/")
    assert effective.origins["indexing.chunk_size"] == ValueOrigin(".env", ".env:1")
    assert loaded.settings.search.limit == 30, "what was loaded stays as it was"


def test_the_hidden_file_and_none(tmp_path: Path) -> None:
    assert read_project(os.fsencode(tmp_path), {}) == Project()
    assert project(tmp_path, "name: hidden", name=".cocosearch.yaml").name == "hidden"
    read = project(tmp_path, "name: plain")
    assert (read.name, read.warnings) == (
        "plain",
        (".cocosearch.yaml is not read, because cocosearch.yaml is there",),
    )


@pytest.mark.parametrize("key", sorted(set(setting_keys()) - PROJECT_SETTINGS))
def test_no_other_setting_is_taken_from_a_project(tmp_path: Path, key: str) -> None:
    """A database, an embedder's address, a key, a directory: whoever clones a repository has not
    said these.
    """
    section, _, name = key.partition(".")
    variable = f"COCOSEARCH_{key.upper().replace('.', '_')}"
    read = project(tmp_path, f"{section}:\n  {name}: '1'\n", f"{variable}=1\n")
    assert (read.values, read.topics, read.name) == ((), (), None)
    assert read.warnings == (
        f"ignored in cocosearch.yaml:2: {key} (not for a project; set it in the user's config.yaml)",
        f"ignored in .env:1: {variable} (not for a project; set it for the daemon)",
    )


def test_files_of_cocosearch_are_understood(tmp_path: Path) -> None:
    text = "indexName: old\nembedding: {provider: openai, baseUrl: 'http://evil'}\n"
    text += "search: {resultLimit: 4, minScore: .3}\n"
    read = project(tmp_path, text + "controller: {enabled: true}\nlogging: {file: true}\n")
    assert (read.name, [(value.key, value.value) for value in read.values]) == (
        "old",
        [("search.limit", 4)],
    )
    assert [sentence.count(", ") for sentence in read.warnings] == [1, 3], (
        "one sentence for all of a kind"
    )


def test_the_environment_is_out_of_reach(tmp_path: Path) -> None:
    for name in ("AWS_SECRET", "COCOSEARCH_DATABASE_URL", "HOME"):
        with pytest.raises(BadSettings, match="needs the variable"):
            project(tmp_path, f"topics: ['${{{name}}}']")
    with pytest.raises(BadSettings, match="needs the variable"):
        project(tmp_path, "topics: ['${TOKEN}']", "TOKEN=of another program\n")
    assert project(tmp_path, "topics: ['${AWS_SECRET:-none}']").topics == ("none",)


@pytest.mark.parametrize(
    ("text", "sentence", "hint"),
    [
        ("topcis: [a]", "unknown setting 'topcis' in cocosearch.yaml:1", "did you mean topics?"),
        ("indexing:\n  chunk_siz: 5", "setting 'indexing.chunk_siz' in cocosearch.yaml:2", "indexing.chunk_size?"),
        ("name: [a]", "name in cocosearch.yaml:1 is not a name", "printable"),
        ("name: \"a\\e[31mb\"", "name in cocosearch.yaml:1 is not a name", "printable"),
        ("topics: [a, 3]", "topics in cocosearch.yaml:1 is not a list of names", "printable"),
        ("indexing: {chunk_size: 1}", "indexing.chunk_size in cocosearch.yaml:1 is 1", "use 100 to"),
        (f"indexing: {{exclude: [{'a, ' * 501}]}}", "indexing.exclude in cocosearch.yaml:1 is too long", "500"),
        ("indexing: {\n", "cannot read cocosearch.yaml:", "mend the file"),
        ("<<: {name: a}", "unknown setting '<<.name'", ""),
        ("search: {limit: !!bool maybe}", "cannot read cocosearch.yaml: it is not YAML", "mend the file"),
        ("search: {limit: !!int ''}", "cannot read cocosearch.yaml: it is not YAML", "mend the file"),
        ("search: {limit: !!timestamp x}", "cannot read cocosearch.yaml: it is not YAML", "mend the file"),
        ("name: \"\\ud800\"", "cannot read cocosearch.yaml: it is not YAML", "mend the file"),
        ("indexing: {exclude: [\"\\ud800\"]}", "cannot read cocosearch.yaml: it is not YAML", "mend the file"),
        ("indexing: {include: [\"a\\0b\"]}", "cannot read cocosearch.yaml: it is not YAML", "mend the file"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_with_one_sentence(
    tmp_path: Path, text: str, sentence: str, hint: str
) -> None:
    with pytest.raises(BadSettings) as caught:
        project(tmp_path, text)
    assert sentence in caught.value.message
    assert "\n" not in caught.value.message
    assert hint in caught.value.hint


def test_files_that_are_something_else(tmp_path: Path) -> None:
    """Nothing outside is read, and nothing that never ends."""
    (tmp_path / "private").write_text("name: secret of somebody")
    path = tmp_path / "cocosearch.yaml"
    path.symlink_to("private")
    with pytest.raises(BadSettings, match=r"cannot read cocosearch\.yaml: it is a symbolic link"):
        read_project(os.fsencode(tmp_path), {})
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(BadSettings, match="it is not a file"):
        read_project(os.fsencode(tmp_path), {})
    path.unlink()
    path.mkdir()
    with pytest.raises(BadSettings, match="it is not a file"):
        read_project(os.fsencode(tmp_path), {})
    path.rmdir()
    path.write_bytes(b"name: \xff\xfe")
    with pytest.raises(BadSettings, match="it is not UTF-8"):
        read_project(os.fsencode(tmp_path), {})


def test_an_env_file_that_cannot_be_read_costs_itself_alone(tmp_path: Path) -> None:
    """It is other programs' as well: work trees link it, some keep a virtual environment there."""
    path = tmp_path / ".env"
    path.symlink_to("/nowhere")
    linked = project(tmp_path, "name: shop\n")
    assert (linked.name, linked.warnings) == (
        "shop",
        ("cannot read .env: it is a symbolic link; nothing of it is used",),
    )
    path.unlink()
    path.mkdir()
    assert project(tmp_path, "name: shop\n").warnings == (
        "cannot read .env: it is not a file; nothing of it is used",
    )
    path.rmdir()
    path.write_bytes(b"COCOSEARCH_SEARCH_LIMIT=3 # \xe9")
    assert project(tmp_path, "name: shop\n").values == ()


def test_stamps_tell_every_change(tmp_path: Path) -> None:
    history = [stamps(os.fsencode(tmp_path))]
    for name, text in [
        ("cocosearch.yaml", "a"),
        (".cocosearch.yaml", "b"),
        (".env", "c"),
        ("cocosearch.yaml", "dd"),
    ]:
        (tmp_path / name).write_text(text)
        history.append(stamps(os.fsencode(tmp_path)))
    (tmp_path / ".env").unlink()
    history.append(stamps(os.fsencode(tmp_path)))
    assert len(set(history)) == len(history)


def test_a_file_whose_status_cannot_be_read_now_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file server may fail for a moment: without the file, other files would be indexed."""
    (tmp_path / "cocosearch.yaml").write_text("indexing: {exclude: [gen/]}\n")
    root = os.fsencode(tmp_path)
    loaded = load_settings(None, {})
    settings = read_index_settings(root, loaded)
    read_status = os.lstat

    def fail(path: bytes | str | Path) -> os.stat_result:
        if os.fsencode(path).endswith(b"/cocosearch.yaml"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read_status(path)

    monkeypatch.setattr("cocosearchd.config.settings_files.os.lstat", fail)
    failed = read_index_settings(root, loaded, settings.project)
    assert failed.indexing.exclude == settings.indexing.exclude == ("gen/",)
    assert failed.stamps != settings.stamps
    monkeypatch.undo()
    assert stamps(root) == settings.stamps
