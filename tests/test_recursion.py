"""Every function that may call itself is listed here with the bound of its depth."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.test_architecture import syntax_tree

ROOT = Path(__file__).parents[1]
PACKAGES = ("daemon/cocosearchd", "ipc/cocosearch_ipc")

# Functions of one class that infer values for each other.
_INFERENCE = (
    "_variable_around",
    "_bound_value",
    "_call",
    "_call_variable",
    "_value_behind",
    "_declared_result",
    "_element",
    "_enclosing_object",
    "_evaluate",
    "_find_bases",
    "_find_member",
    "_first_value",
    "_instance",
    "_member_of_classes",
    "_member_of_content",
    "_member_of_definitions",
    "_named_type",
    "_object_of_class",
    "_own_member",
    "_owner_elsewhere",
    "_parent_object",
    "_reserved_value",
    "_result",
    "_same_named_variable",
    "_type_elsewhere",
    "_value_of_binding",
    "_value_of_text",
    "bases",
    "evaluate",
    "instance_of",
    "member",
    "member_of_scope",
)
# (File name, function) -> what bounds how deep it goes. Functions that call each other in a circle
# are listed as well. What the event loop calls, or runs as a task, begins at its level again and is
# none.
BOUNDED = {
    (
        "__main__.py",
        "_first_failure",
    ): "groups of exceptions are nested as task groups of the program are",
    ("batching.py", "_embed_or_split"): "halves a batch: its depth is the logarithm of its length",
    ("cocoindex_app.py", "IndexApp._confirm"): "calls itself once, with again=False",
    ("cut_points.py", "_cut"): "goes at most _MAX_ROUNDS deep",
    ("cut_points.py", "_parts"): "goes at most _MAX_ROUNDS deep",
    (
        "transaction_group.py",
        "GroupWriter._fill",
    ): "parts a group into single files, which have no parts",
    (
        "transaction_group.py",
        "GroupWriter._write_part",
    ): "parts a group into single files; what was made whole is not outdated again",
    ("code_digest.py", "_lines"): "walks the installed package, which is ours",
    ("content_keys.py", "_sources"): "walks the installed package, which is ours",
    ("symbols.py", "_clean_name"): "a name has at most 400 bytes, and each call takes 8 of them",
    ("repository.py", "GitRules.tracks"): "calls itself once, without the slash at the end",
    ("git_config.py", "_RepositoryConfig._read_included"): "goes at most MAX_INCLUDE_DEPTH deep",
    ("git_config.py", "_RepositoryConfig.lines"): "goes at most MAX_INCLUDE_DEPTH deep",
    ("masking.py", "_parts"): "calls itself once, with a scheme before the address",
    ("settings.py", "_convert"): "goes as deep as the annotations of settings",
    ("settings_files.py", "_EntryReader.entries"): "sections have no sections",
    ("layers.py", "_Expansion.expand"): "lists have no lists",
    ("tool_calls.py", "_escape_all"): "goes as deep as a reply of the protocol",
    ("openrpc.py", "_find_nested"): "goes as deep as the protocol's own types",
    ("openrpc.py", "_type"): "goes as deep as the protocol's own types",
    ("explain_view.py", "outline"): "goes as deep as the daemon's explanation",
    ("shapes.py", "_object_schema"): "goes as deep as the protocol's own types",
    ("shapes.py", "_value"): "goes as deep as the protocol's own types",
    ("shapes.py", "decode"): "goes as deep as the protocol's own types",
    ("shapes.py", "schema"): "goes as deep as the protocol's own types",
    **{
        ("name_lookup.py", f"NameLookup.{name}"): (
            "a package has at most chain_text.MAX_TEXT characters, and each call takes a part of it"
        )
        for name in ("_search_package", "find_in_package")
    },
    **{
        ("type_inference.py", f"TypeInference.{name}"): "goes at most MAX_DEPTH values deep"
        for name in _INFERENCE
    },
}
TASKS = frozenset(["create_task", "ensure_future"])

Functions = Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef]


def test_every_recursion_is_bounded() -> None:
    circles = {
        (path.name, name)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for name in circular(syntax_tree(path))
    }
    assert circles - BOUNDED.keys() == set(), "iterate, or list what bounds the depth"
    assert BOUNDED.keys() - circles == set(), (
        "these call themselves no more: take them off the list"
    )


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(x):\n    return f(x)", {"f"}),
        (
            "class A:\n    def f(self):\n        self.g()\n    def g(self):\n        self.f()",
            {"A.f", "A.g"},
        ),
        ("def f(x):\n    return g(x)\ndef g(x):\n    return x", set()),
    ],
)
def test_circles_are_seen(source: str, names: set[str]) -> None:
    assert circular(ast.parse(source)) == names


def circular(tree: ast.Module) -> set[str]:
    """Names of the functions of a module that may call themselves, directly or through others."""
    functions = dict(_functions(tree, ""))
    calls = {name: set(_calls(name, function, functions)) for name, function in functions.items()}
    return {name for name in calls if name in _reached(calls, name)}


def _functions(
    node: ast.AST, lead: str
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield lead + child.name, child
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _functions(child, f"{lead}{child.name}.")
        else:
            yield from _functions(child, lead)


def _calls(name: str, function: ast.AST, functions: Functions) -> Iterator[str]:
    owner = name.rpartition(".")[0]
    for node in _waited_for(function):
        called = node.func
        if isinstance(called, ast.Name):
            candidates = [f"{name}.{called.id}", called.id]
        elif isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            candidates = [f"{owner}.{called.attr}"] if called.value.id in ("self", "cls") else []
        else:
            candidates = []
        yield from (candidate for candidate in candidates if candidate in functions)


def _waited_for(function: ast.AST) -> Iterator[ast.Call]:
    """The calls in a function whose end it waits for: not those that become tasks of their own."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    tasks = {
        id(argument)
        for call in calls
        if getattr(call.func, "attr", "") in TASKS
        for argument in call.args
    }
    return (call for call in calls if id(call) not in tasks)


def _reached(calls: Mapping[str, set[str]], start: str) -> set[str]:
    reached, waiting = set[str](), list(calls[start])
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += calls[name]
    return reached
