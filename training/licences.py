"""Decides which text may be trained on: text under a licence that is known to be permissive.

Standard library only, so that the policy can be tested without the training environment.
"""

import fnmatch
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

PERMISSIVE = {
    "0bsd", "afl-2.1", "afl-3.0", "apache", "apache-1.1", "apache-2", "apache-2.0", "artistic-2.0", "blueoak-1.0.0",
    "bsd", "bsd-1-clause", "bsd-2", "bsd-2-clause", "bsd-3", "bsd-3-clause", "bsd-4-clause", "bsl-1.0", "boost",
    "boost-1.0", "cc0", "cc0-1.0", "curl", "edl-1.0", "eclipse-distribution-license-1.0", "epl-like-bsd", "expat",
    "expat-mit", "hpnd", "icu", "isc", "libpng", "mit", "mit-0", "mit-cmu", "mit-style", "mit-x11", "mit/x11", "ncsa",
    "openssl", "postgresql", "psf", "psf-2", "psf-2.0", "public-domain", "python-2.0", "ruby", "ruby-license", "tcl",
    "unicode-dfs-2015", "unicode-dfs-2016", "unicode-3.0", "unlicense", "upl-1.0", "w3c", "wtfpl", "x11", "zlib",
    "zlib/libpng", "zpl-2.1",
}  # fmt: skip
# Free-text names of these licences as package indexes carry them. Matched on the whole lower-case
# text.
NAMES = (
    r"(the )?mit( license| licence)?( \(mit\))?",
    r"(the )?apache(( software)? license)?,?( version)?[ -]?v?2(\.0)?( license| licence)?( \(apache[ -]2\.0\))?",
    r"apache (software )?license( \(apache[ -]2\.0\))?",
    r"(the )?(new |modified |simplified |revised |3-clause |2-clause )*bsd[ -]*(license|licence)?",
    r"bsd[ -]?[23]?[ -]?clause( \"?(new|simplified|revised)\"?)?( license| licence)?",
    r"[23][ -]clause bsd( license)?",
    r"isc( license)?( \(iscl\))?",
    r"(python software foundation|psf)( license)?( version 2)?",
    r"(the )?unlicense( \(unlicense\))?",
    r"zope public license( 2\.1)?",
    r"(in the )?public domain",
    r"historical permission notice and disclaimer( \(hpnd\))?",
    r"cc0 1\.0 universal.*",
)
COPYLEFT = re.compile(
    r"\b([al]?gpl|gnu|copyleft|sspl|busl|eupl|cc-by-(sa|nc)|cddl|mpl|epl)", re.IGNORECASE
)
# In a file's own head this settles it, whatever the package says.
COPYLEFT_HEAD = re.compile(
    r"GNU\s+(Lesser |Library |Affero )?(General )?Public Licen[sc]e|SPDX-License-Identifier:[^\n]*\b[AL]?GPL"
    r"|Mozilla Public Licen[sc]e|Eclipse Public Licen[sc]e|All rights reserved\.?\s+Proprietary",
    re.IGNORECASE,
)
# What a file must say itself where nothing says it for the file.
PERMISSIVE_HEAD = re.compile(
    r"Licensed to the Apache Software Foundation|Apache Licen[sc]e,?\s+(Version )?2|Permission is hereby granted, free"
    r"|Redistribution and use in source and binary forms|SPDX-License-Identifier:\s*(MIT|Apache-2\.0|BSD|ISC|BSL)"
    r"|Permission to use, copy, modify,? and(/or)? distribute this software|BSD-style license|the MIT licen[sc]e",
    re.IGNORECASE,
)
HEAD_CHARACTERS = 4000


def is_permissive(expression: str) -> bool:
    """Return true if a declared licence allows training: one alternative, or all of a conjunction.

    Any mention of a copyleft licence refuses the whole expression, even as an alternative; so does
    an empty one.
    """
    text = expression.strip().lower().replace("licence", "license")
    if not text or COPYLEFT.search(text):
        return False
    return any(_all_known(part) for part in re.split(r"\s+or\s+|\s*\|\s*", _bare(text)))


def _all_known(conjunction: str) -> bool:
    if _known(_bare(conjunction)):  # "Apache License, Version 2.0" is one
        return True
    parts = [_bare(part) for part in re.split(r"\s+and\s+|\s*[,&;]\s+", conjunction)]
    return all(_known(part) for part in parts if part) and any(parts)


def _bare(text: str) -> str:
    """Without brackets around the whole and without a bracket whose partner another part of the
    expression has.
    """
    text = text.strip()
    while text.startswith("(") and (text.endswith(")") or ")" not in text):
        text = text[1:].removesuffix(")").strip()
    return text.removesuffix(")").strip() if "(" not in text else text


def _known(name: str) -> bool:
    plain = re.sub(r"\s+with llvm-exception$|\.$|(?<=\S) license$", "", name)
    # Debian numbers its variants: BSD-3-clause-Google, Expat~Foo, MIT-1.
    variant = (
        r"(bsd-[1234]-clause|expat|mit|isc|bsd|hpnd|public-domain|ncsa|apache-2(\.0)?)[-~.][\w.+-]*"
    )
    base = re.fullmatch(variant, plain)
    if plain in PERMISSIVE or (base and not COPYLEFT.search(plain)):
        return True
    return any(re.fullmatch(pattern, name) or re.fullmatch(pattern, plain) for pattern in NAMES)


def licence_of_wheel(tree: Path) -> str:
    """The licence a wheel declares: its expression, else its classifiers, else a short free text.
    Empty: unknown.
    """
    metadata_files = sorted(tree.glob("*.dist-info/METADATA"))
    if not metadata_files:
        return ""
    metadata = HeaderParser().parsestr(metadata_files[0].read_text("utf-8", "replace"))
    if metadata["License-Expression"]:
        return str(metadata["License-Expression"])
    prefix = "License :: OSI Approved :: "
    classifiers = [
        str(value)
        for value in metadata.get_all("Classifier", [])
        if str(value).startswith("License ::")
    ]
    names = [
        value.removeprefix(prefix) for value in classifiers if value != "License :: OSI Approved"
    ]
    if names:
        return " and ".join(names)
    text = str(metadata["License"] or "").strip()
    return text if len(text) < 100 else text.splitlines()[0].strip()


def licence_of_npm(tree: Path) -> tuple[str, str]:
    """(licence, version) as package.json declares them. Empty licence: unknown."""
    manifests = sorted(tree.glob("*/package.json"))
    if not manifests:
        return "", ""
    package = json.loads(manifests[0].read_text("utf-8", "replace"))
    declared = package.get("license") or package.get("licenses") or ""
    if isinstance(declared, list):
        declared = " or ".join(
            str(entry.get("type", "") if isinstance(entry, dict) else entry) for entry in declared
        )
    if isinstance(declared, dict):
        declared = declared.get("type", "")
    return str(declared), str(package.get("version", ""))


@dataclass(frozen=True, slots=True)
class Stanza:
    """One `Files:` paragraph of a machine-readable Debian copyright file."""

    patterns: tuple[str, ...]
    licence: str


def stanzas(copyright_text: str) -> tuple[Stanza, ...]:
    """The `Files:` paragraphs in order; empty when the file is not machine-readable (then the
    licence is unknown).
    """
    if not re.search(r"^Format:.*copyright-format", copyright_text, re.MULTILINE):
        return ()
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", copyright_text):
        fields = dict[str, str]()
        for match in re.finditer(r"^(\w+): *((?:.*)(?:\n[ \t]+.*)*)", paragraph, re.MULTILINE):
            fields[match[1].lower()] = match[2]
        if "files" in fields and "license" in fields:
            licence = fields["license"].splitlines()
            paragraphs.append(
                Stanza(tuple(fields["files"].split()), licence[0].strip() if licence else "")
            )
    return tuple(paragraphs)


def package_licence(paragraphs: Sequence[Stanza]) -> str:
    """The licences of all but the packaging, joined by `and`: for packages whose paths differ from
    the source's.
    """
    licences = [
        stanza.licence
        for stanza in paragraphs
        if not all(pattern.startswith("debian/") for pattern in stanza.patterns)
    ]
    return " and ".join(dict.fromkeys(licences))


def file_licences(paragraphs: Sequence[Stanza]) -> Callable[[str], str]:
    """Path in the source package -> declared licence, the last matching paragraph winning. Empty:
    unknown.
    """

    def licence(path: str) -> str:
        for stanza in reversed(paragraphs):
            if any(fnmatch.fnmatchcase(path, pattern) for pattern in stanza.patterns):
                return stanza.licence
        return ""

    return licence


def head_allows(text: str, *, alone: bool = False) -> bool:
    """Return true if the head of a file names no copyleft licence.

    With `alone`, it must also name a permissive one.
    """
    head = re.sub(r"\n\s*[*/#;-]*\s*", " ", text[:HEAD_CHARACTERS])
    return not COPYLEFT_HEAD.search(head) and (not alone or bool(PERMISSIVE_HEAD.search(head)))


def excluded_by(name: str, exclusions: Sequence[str]) -> str:
    """The exclusion whose words occur in a row in the package's name, or "": rather too many than
    too few.

    `golang-github-spf13-cobra-dev` is excluded by `cobra`, `@trpc/server` by `trpc`,
    `requests-oauthlib` by `requests`.
    """
    parts = _parts(name)
    for exclusion in exclusions:
        words = _parts(exclusion)
        if any(parts[i : i + len(words)] == words for i in range(len(parts) - len(words) + 1)):
            return exclusion
    return ""


def _parts(name: str) -> list[str]:
    return [part for part in re.split(r"[^a-z0-9]+", name.lower()) if part]


def read_exclusions(path: Path) -> tuple[str, ...]:
    """One name a line; `#` starts a comment."""
    lines = (line.partition("#")[0].strip() for line in path.read_text("utf-8").splitlines())
    return tuple(line for line in lines if line)
