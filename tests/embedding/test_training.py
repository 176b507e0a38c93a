"""The policy of the training text, and that the shipped manifest obeys it. Training itself needs
torch: see there.
"""

from pathlib import Path

import pytest

from training.documentation import clean
from training.fetch import MANIFEST, read_manifest, wanted
from training.licences import (
    excluded_by,
    file_licences,
    head_allows,
    is_permissive,
    read_exclusions,
    stanzas,
)

EXCLUSIONS = read_exclusions(MANIFEST.parent / "exclusions.txt")


@pytest.mark.parametrize(
    "licence",
    [
        "MIT",
        "(MIT OR Apache-2.0)",
        "Apache License, Version 2.0",
        "Apache Software License (Apache 2.0)",
        "BSD-3-clause-Google",
        "Expat and BSD-3-Clause",
        "Expat or Ruby",
        "ISC License (ISCL)",
        "MIT License and BSD License",
        "Apache-2.0 with LLVM-exception or MIT",
    ],
)
def test_permissive(licence: str) -> None:
    assert is_permissive(licence)


@pytest.mark.parametrize(
    "licence",
    [
        "",
        "UNKNOWN",
        "SEE LICENSE IN LICENSE.md",
        "GPL-3.0-only",
        "MIT and LGPL-2.1+",
        "MIT OR GPL-2.0",  # an alternative, but why argue
        "GNU Lesser General Public License v3 (LGPLv3)",
        "AGPL-3.0-or-later",
        "MPL-2.0",
        "BUSL-1.1",
        "Expat and CC-BY-SA-3.0",
        "Apache-2.0 AND CNRI-Python",
        "MIT License and License :: Other/Proprietary License",
    ],
)
def test_refused(licence: str) -> None:
    assert not is_permissive(licence)


def test_a_files_own_words_count_more_than_its_package() -> None:
    gpl = "/*\n * This is free software under the GNU\n * General Public License, version 2\n */"
    assert not head_allows(gpl)
    assert not head_allows("// SPDX-License-Identifier: MIT OR LGPL-2.1")
    assert head_allows("int main(void);")
    assert not head_allows("int main(void);", alone=True)
    assert head_allows("/* Licensed to the Apache Software Foundation (ASF) */", alone=True)


def test_debian_paragraphs_the_last_match_wins() -> None:
    text = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: somebody
License: Expat

Files: src/special/*
 src/other.c
Copyright: somebody
License: GPL-2+

License: Expat
 Permission is hereby granted
"""
    licence = file_licences(stanzas(text))
    assert [licence(path) for path in ("src/a.c", "src/other.c", "src/special/b/c.c")] == [
        "Expat",
        "GPL-2+",
        "GPL-2+",
    ]
    assert stanzas("This package was debianized by somebody. License: MIT") == ()


@pytest.mark.parametrize(
    ("package", "exclusion"),
    [
        ("golang-github-spf13-cobra-dev", "cobra"),
        ("@trpc/server", "trpc"),
        ("requests-oauthlib", "requests"),
        ("librust-clap-3-dev", "clap"),
        ("php-symfony-console", "symfony"),
        ("networkx", ""),
        ("fastjson", ""),
    ],
)
def test_benchmark_projects_are_recognised_by_name(package: str, exclusion: str) -> None:
    assert excluded_by(package, EXCLUSIONS) == exclusion


def test_the_manifest_obeys() -> None:
    entries = read_manifest().values()
    assert len(entries) > 1000
    roles = {(source, name): role for source, name, role in wanted()}
    for entry in entries:
        if entry.verdict.startswith("refused"):
            continue
        assert entry.version, entry
        assert len(entry.sha256) == 64, entry
        assert roles[entry.source, entry.name] == entry.role
        if entry.role != "benchmark":
            assert not excluded_by(entry.name, EXCLUSIONS), entry
            assert entry.verdict in ("by file", "by head") or is_permissive(entry.licence), entry


def test_nothing_of_the_training_names_an_address() -> None:
    for path in MANIFEST.parent.rglob("*"):
        if path.suffix in (".py", ".txt", ".tsv", ".md"):
            for address in ("deb.debian.org", "pypi.org", "registry.npmjs", "files.pythonhosted"):
                assert address not in path.read_text("utf-8"), path


@pytest.mark.parametrize(
    ("raw", "language", "name", "expected"),
    [
        ('"""Return the x of the given thing. More."""', "python", "f", "Return the x of the given thing."),
        ("/**\n * Adds two numbers {@link Foo} to the list.\n *\n * @param a x\n */", "java", "add",
         "Adds two numbers Foo to the list."),
        ("// Foo returns the number of bytes.\n// It is.", "go", "Foo", "returns the number of bytes."),
        ("/// Creates a new `Foo` from bar.\n///\n/// # Examples", "rust", "new", "Creates a new Foo from bar."),
        ("/* TODO: write something useful here */", "c", "f", ""),
        ("# Ja, größer ist immer besser", "ruby", "f", ""),
        ("// short", "go", "f", ""),
    ],
)  # fmt: skip
def test_documentation_becomes_one_plain_sentence(
    raw: str, language: str, name: str, expected: str
) -> None:
    assert clean(raw, language, name) == expected


def test_sources_name_each_package_once() -> None:
    names = [(source, name) for source, name, _ in wanted()]
    assert len(names) == len(set(names))
    assert Path(MANIFEST).suffix == ".tsv"
