"""The table of module rules, one row per language that has rules."""

from collections.abc import Mapping

from cocosearchd.graph.resolution.modules.base import ModuleRules
from cocosearchd.graph.resolution.modules.c_modules import C
from cocosearchd.graph.resolution.modules.go_modules import GO
from cocosearchd.graph.resolution.modules.javascript_modules import JAVASCRIPT
from cocosearchd.graph.resolution.modules.package_modules import CSHARP, JAVA, KOTLIN, PHP, SCALA
from cocosearchd.graph.resolution.modules.python_modules import PYTHON
from cocosearchd.graph.resolution.modules.rust_modules import RUST
from cocosearchd.graph.resolution.modules.script_modules import BASH, RUBY
from cocosearchd.graph.resolution.modules.swift_modules import SWIFT

RULES: Mapping[str, ModuleRules] = {
    "bash": BASH,
    "c": C,
    "cpp": C,
    "csharp": CSHARP,
    "go": GO,
    "java": JAVA,
    "kotlin": KOTLIN,
    "php": PHP,
    "python": PYTHON,
    "ruby": RUBY,
    "rust": RUST,
    "scala": SCALA,
    "swift": SWIFT,
    "javascript": JAVASCRIPT,
    "typescript": JAVASCRIPT,
}


def rules_of(language: str) -> ModuleRules:
    """Return the rules of a language; without a row, rules that use only names within the language."""
    return RULES.get(language) or ModuleRules(family=language)
