"""Derives the names of imported packages, by the rules of each language. Pure."""

from collections.abc import Callable, Mapping

HOST_PARTS = 3  # parts of a Go module on a host: host, owner, repository
MAX_NAMESPACE_PARTS = 3  # parts of a namespace, such as com.google.gson


def package_name(language: str, module: str) -> str:
    """Return the package of a module as written in an import; "" for a path in the repository.

    For example, `@scope/tool/lib` belongs to the package `@scope/tool`, and `os.path` to `os`.
    """
    if module.startswith((".", "/")) or not module:
        return ""
    rule = _RULES.get(language)
    return rule(module) if rule is not None else module


def _first_dotted(module: str) -> str:
    return module.partition(".")[0]


def _node_package(module: str) -> str:
    if module.startswith(("~", "#", "@/")):  # common aliases of directories of a project
        return ""
    parts = module.split("/")
    return "/".join(parts[: 2 if module.startswith("@") else 1])


def _go_package(module: str) -> str:
    host, _, _ = module.partition("/")
    return "/".join(module.split("/")[:HOST_PARTS]) if "." in host else module


def _rust_crate(module: str) -> str:
    crate = module.removeprefix("::").partition("::")[0]
    return "" if crate in ("crate", "self", "super") else crate


def _namespace(module: str) -> str:
    """Return the namespace of a class: the parts before the first part with a capital letter."""
    parts = module.split(".")
    lowered = next((i for i, part in enumerate(parts) if part[:1].isupper()), len(parts))
    return ".".join(parts[:MAX_NAMESPACE_PARTS] if not lowered else parts[:lowered])


def _backslash_namespace(module: str) -> str:
    return "\\".join(module.strip("\\").split("\\")[:2])


_RULES: Mapping[str, Callable[[str], str]] = {
    "python": _first_dotted,
    **dict.fromkeys(("javascript", "typescript", "tsx", "jsx", "vue", "svelte"), _node_package),
    "go": _go_package,
    "rust": _rust_crate,
    **dict.fromkeys(("java", "kotlin", "scala", "csharp", "groovy"), _namespace),
    "php": _backslash_namespace,
}
