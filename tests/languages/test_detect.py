"""The language of a file, by its shebang line, name and extension."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocosearchd.languages import blocks
from cocosearchd.languages.detect import (
    DECIDING_BYTES,
    HEAD_BYTES,
    detect,
    is_supported,
)
from cocosearchd.languages.language_table import LanguageInfo, by_name, languages
from cocosearchd.languages.symbols import grammars_of, query_text
from cocosearchd.languages.syntax import compile_query

DESIGN = (
    "python javascript typescript go rust java c cpp csharp ruby php swift kotlin scala r solidity fortran pascal sql"
    " html css yaml json toml xml markdown mdx dtd hcl dockerfile bash"
)


def test_every_language_of_the_design_is_there_first() -> None:
    assert [info.name for info in languages()][:31] == DESIGN.split()


def test_names_and_places_are_unique() -> None:
    extensions = [extension for info in languages() for extension in info.extensions]
    assert len(set(extensions)) == len(extensions)
    names = [info.name for info in languages()] + [
        alias for info in languages() for alias in info.aliases
    ]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("info", languages(), ids=lambda info: info.name)
def test_a_row_keeps_its_promises(info: LanguageInfo) -> None:
    assert info.extensions
    assert all(
        extension == extension.lower() and extension.startswith(".")
        for extension in info.extensions
    )
    assert info.symbols == info.context == bool(query_text(info.name))
    if info.symbols:
        for grammar in grammars_of(info):
            compile_query(grammar, query_text(info.name))
    for extension in info.extensions:
        assert is_supported(f"a/b{extension}")
        assert detect(f"a/b{extension}", b"") == info.name


@pytest.mark.parametrize(
    ("path", "head", "language"),
    [
        ("a.py", b"", "python"),
        ("A.PY", b"", "python"),
        ("Dockerfile", b"", "dockerfile"),
        ("docker/Dockerfile.prod", b"", "dockerfile"),
        ("Containerfile", b"", "dockerfile"),
        ("Makefile", b"", "make"),
        ("infra/terraform.tfvars.example", b"", "hcl"),
        ("config.yaml.SAMPLE", b"", "yaml"),
        ("phpunit.xml.dist", b"", "xml"),
        ("settings.py.template", b"", "python"),
        ("Makefile.example", b"", "make"),
        ("notes.example", b"", ""),
        (".py.example", b"", ""),
        (".example", b"", ""),
        ("Jenkinsfile", b"", "groovy"),
        ("CMakeLists.txt", b"", "cmake"),
        ("notes.txt", b"", "text"),
        ("LICENSE", b"", "text"),
        ("app/.env.example", b"KEY=\n", "ini"),
        ("deploy/prod.env", b"KEY=1\n", "ini"),
        ("bin/run", b"#!/usr/bin/env python3\n", "python"),
        ("bin/run", b"#!/usr/bin/env -S uv run --script\n", "python"),
        ("bin/run", b"#!/usr/bin/env NODE_ENV=test node\n", "javascript"),
        ("bin/run", b"#! /bin/sh -e\n", "bash"),
        ("bin/run", b"\xef\xbb\xbf#!/usr/local/bin/ruby2.7\r\n", "ruby"),
        ("bin/run", b"#!\n", ""),
        ("bin/run", b"plain", ""),
        ("photo.png", b"#!/bin/sh\n", ""),
        ("a.h", b"int f(void);\n", "c"),
        ("a.h", b"#pragma once\nnamespace a {\n", "cpp"),
        ("a.h", b"template <typename T>\n", "cpp"),
        ("x.yaml", b"a: 1\n", "yaml"),
        ("x.yaml", b"apiVersion: v1\nkind: Pod\n", "kubernetes"),
        ("x.yaml", b"apiVersion: argoproj.io/v1alpha1\nkind: AppProject\n", "argocd"),
        ("x.yaml", b"apiVersion: argoproj.io/v1alpha1\nkind: Rollout\n", "kubernetes"),
        (".github/workflows/ci.yml", b"", "github-actions"),
        ("a/.github/workflows/ci.yaml", b"", "github-actions"),
        (".github/dependabot.yml", b"version: 2\n", "yaml"),
        ("act/action.yml", b"name: x\nruns:\n  using: node20\n", "github-actions"),
        ("act/action.yml", b"name: x\n", "yaml"),
        (".gitlab-ci.yml", b"", "gitlab-ci"),
        (".gitlab/ci/build.yml", b"", "gitlab-ci"),
        ("docker-compose.override.yml", b"", "docker-compose"),
        ("compose.yaml", b"", "docker-compose"),
        ("chart/Chart.yaml", b"", "helm-chart"),
        ("chart/values-prod.yaml", b"", "helm-values"),
        ("chart/templates/a.yaml", b"{{ if }}", "helm-template"),
        ("chart/templates/a.yaml", b"a: 1", "yaml"),
        ("chart/templates/_x.tpl", b'{{- define "x" }}', "helm-template"),
        ("roles/web/tasks/main.yml", b"", "ansible"),
        ("site.yml", b"---\n- name: x\n  hosts: all\n", "ansible"),
        ("main.tf", b"", "hcl"),
    ],
)
def test_detect(path: str, head: bytes, language: str) -> None:
    assert detect(path, head) == language


@pytest.mark.parametrize(
    "path", ["a.py", "bin/run", ".bashrc", "LICENSE", "Dockerfile.dev", "x/.gitlab-ci.yml"]
)
def test_supported(path: str) -> None:
    assert is_supported(path)


@pytest.mark.parametrize("path", ["a.png", "a.tar.gz", "a.pyc", ".DS_Store.bak", "poetry.lock"])
def test_not_supported(path: str) -> None:
    assert not is_supported(path)


@given(st.text(), st.binary(max_size=200))
def test_every_detected_language_is_supported(path: str, head: bytes) -> None:
    if detect(path, head):
        assert is_supported(path)


def test_families() -> None:
    assert blocks.language_dialects("python") == ("python",)
    assert set(blocks.language_dialects("yaml")) > {
        "yaml",
        "github-actions",
        "kubernetes",
        "helm-values",
    }
    assert all(blocks.base_language(dialect.name) in by_name() for dialect in blocks.DIALECTS)
    assert blocks.base_language("go") == "go"


@pytest.mark.parametrize(
    "licence", [b"/*\n" + b" * A licence.\n" * 1000 + b" */\n", b"// A line.\n" * 1000]
)
def test_a_long_licence_hides_no_language(licence: bytes) -> None:
    assert DECIDING_BYTES < len(licence) < HEAD_BYTES
    guard = b"#ifndef A_H\n#define A_H\n"
    assert detect("a.h", licence + guard + b"namespace a {\n") == "cpp"
    assert detect("a.h", licence + guard + b"int add(int a, int b);\n") == "c"


@pytest.mark.parametrize(
    ("path", "head", "language"),
    [
        ("scripts/build", b"#!/bin/sh -e\nif true; then :; fi\n", "bash"),
        ("BUILD", b'cc_library(name = "a")\n', "starlark"),
        (
            "Rakefile",
            b"#!/usr/bin/env rake\ntask :a\n",
            "ruby",
        ),  # an interpreter without a language
        ("README", b"#!/bin/sh\n", "bash"),
        ("build.bazel", b"#!/bin/sh\n", "starlark"),
    ],
)
def test_a_shebang_goes_before_a_name_without_extension(
    path: str, head: bytes, language: str
) -> None:
    assert detect(path, head) == language


@pytest.mark.parametrize("name", ["prod.tfvars", "prod.auto.tfvars", "main.tf"])
def test_terraform_is_hcl(name: str) -> None:
    assert detect(name, b'region = "eu"\n') == "hcl"


def test_the_head_is_enough() -> None:
    assert (
        detect(
            "x.yaml", (b"# comment\n" * 10 + b"apiVersion: v1\nkind: Pod\n").ljust(DECIDING_BYTES)
        )
        == "kubernetes"
    )
