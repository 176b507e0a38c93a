"""Resolution over facts that are written by hand: each layer, its confidence, and its bounds."""

from dataclasses import replace

import pytest

from benchmarks.graph.parsed_files import ParsedFiles, parse_texts
from cocosearchd.graph.code_files import CodeFile, DefinitionKey
from cocosearchd.graph.resolution import use_search
from cocosearchd.graph.resolution.resolver import Resolver
from cocosearchd.languages.code_facts import TOP_LEVEL, Binding, BindingKind, CodeFacts
from cocosearchd.languages.references.package_facts import extract_package_facts
from tests.graph.resolver_files import file, imported, names_of, resolve, use

CLIENT = file("pkg/client.py", "Client(Client.get, Client.close)")


@pytest.mark.parametrize(
    ("files", "target"),
    [
        pytest.param([file("a.py", "run main", uses=[use("run", 1)])], "a.py:run", id="same file"),
        pytest.param(
            [file("a.py", "run outer(outer.run)", uses=[use("run", 1)])],
            "a.py:outer.run",
            id="the nearest scope wins",
        ),
        pytest.param(
            [file("a.py", "run A(A.run, A.go)", uses=[use("run", 3)])],
            "a.py:run",
            id="members need a receiver in Python",
        ),
        pytest.param(
            [file("a.py", "A(A.run, A.go)", uses=[use("self.run", 2)])],
            "a.py:A.run",
            id="self",
        ),
        pytest.param(
            [
                file("pkg/a.py", "", [imported(".client", "Client", "C")], [use("C")]),
                CLIENT,
            ],
            "pkg/client.py:Client",
            id="relative import with an alias",
        ),
        pytest.param(
            [
                file(
                    "tests/t.py",
                    "",
                    [imported("pkg.client", "", "pkg.client")],
                    [use("pkg.client.Client")],
                ),
                file("src/pkg/__init__.py"),
                file("src/pkg/client.py", "Client"),
            ],
            "src/pkg/client.py:Client",
            id="dotted import below src",
        ),
        pytest.param(
            [
                file("t.py", "", [imported("pkg", "Client")], [use("Client")]),
                file("pkg/__init__.py", "", [imported(".client", "*", "")]),
                CLIENT,
            ],
            "pkg/client.py:Client",
            id="wildcard of a package",
        ),
        pytest.param(
            [
                file("t.py", "", [imported("pkg", "client")], [use("client.Client")]),
                file("pkg/__init__.py"),
                CLIENT,
            ],
            "pkg/client.py:Client",
            id="module of a package",
        ),
        pytest.param(
            [
                file(
                    "pkg/t.py",
                    "T(T.__init__, T.go)",
                    [imported(".client", "Client")],
                    [use("self.client.get", 2)],
                    [Binding("call", "self.client", "Client", 1)],
                ),
                CLIENT,
            ],
            "pkg/client.py:Client.get",
            id="attribute that another method assigns",
        ),
        pytest.param(
            [
                file(
                    "pkg/t.py",
                    "Sub(Sub.go)",
                    [imported(".client", "Client")],
                    [use("self.get", 1), use("Client", 0, "inherit")],
                ),
                CLIENT,
            ],
            "pkg/client.py:Client.get",
            id="inherited member",
        ),
        pytest.param(
            [
                file(
                    "pkg/t.py",
                    "main",
                    [imported(".client", "make")],
                    [use("make().get", 0)],
                ),
                file(
                    "pkg/client.py",
                    "Client(Client.get) make",
                    bindings=[Binding("return", "", "Client", 2)],
                ),
            ],
            "pkg/client.py:Client.get",
            id="declared result",
        ),
        pytest.param(
            [
                file("src/a.ts", "", [imported("./barrel.js", "run")], [use("run")]),
                file("src/barrel.ts", "", [imported("./deep", "go", "run", exported=True)]),
                file("src/deep/index.ts", "go"),
            ],
            "src/deep/index.ts:go",
            id="renamed re-export of a directory",
        ),
        pytest.param(
            [
                file("src/a.ts", "", [imported("./b", "default", "Anything")], [use("Anything")]),
                file(
                    "src/b.ts",
                    "Real",
                    [imported("", "Real", "default", True)],
                ),
            ],
            "src/b.ts:Real",
            id="default export",
        ),
        pytest.param(
            [
                file(
                    "pkg/t.ts",
                    "main",
                    [imported("./client", "make")],
                    [use("make().get", 0)],
                ),
                file(
                    "pkg/client.ts",
                    "Client(Client.get, Client.create) _make",
                    [imported("", "_make", "make", exported=True)],
                    bindings=[
                        Binding("value", "_make", "Client.create", -1),
                        Binding("return", "", "Client", 2),
                    ],
                ),
            ],
            "pkg/client.ts:Client.get",
            id="a variable that holds a function",
        ),
    ],
)
def test_layers(files: list[CodeFile], target: str) -> None:
    names, confidence, _ = resolve(files)
    assert (names, confidence) == ([target], "certain")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        pytest.param("call", "Client", id="constructed variable"),
        pytest.param("type", "Client", id="annotated variable"),
        pytest.param("type", "Optional['Client']", id="annotated parameter"),
    ],
)
def test_variables_have_the_members_of_their_class(kind: BindingKind, text: str) -> None:
    member = use("c.get", 0, is_local=True)
    imports = [imported("pkg.client", "Client")]
    files = [file("pkg/t.py", "main", imports, [member], [Binding(kind, "c", text, 0)]), CLIENT]
    assert resolve(files)[:2] == (["pkg/client.py:Client.get"], "certain")


@pytest.mark.parametrize(
    ("name", "confidence"),
    [
        pytest.param("reload_all", "likely", id="unique name"),
        pytest.param("get", "possible", id="unique name that dictionaries have too"),
    ],
)
def test_members_of_unknown_receivers_are_found_by_name(name: str, confidence: str) -> None:
    member = use(f"thing.{name}", 0, is_local=True)
    files = [file("a.py", "main", uses=[member]), file("b.py", f"Thing(Thing.{name})")]
    assert resolve(files)[:2] == ([f"b.py:Thing.{name}"], confidence)


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(
            [file("a.py", "main", uses=[use("print", 0)]), file("b.py", "print")], id="builtin"
        ),
        pytest.param(
            [
                file("a.py", "", [imported("json")], [use("json.dumps")]),
                file("pkg/__init__.py"),
                file("pkg/json.py", "dumps"),
            ],
            id="a module of a package is not the standard library's",
        ),
        pytest.param(
            [file("a.py", "", uses=[use('"x".join')]), file("b.py", "A(A.join)")], id="literal"
        ),
    ],
)
def test_foreign_names_have_no_definitions(files: list[CodeFile]) -> None:
    assert resolve(files) == ([], "certain", "foreign")


LITERALS = [
    'b":"',
    "rb'x'",
    'f"{x}"',
    "r'|'",
    'u8"x"',
    'r#"x"#',
    '$"{x}"',
    '@"x"',
    "`x`",
    "[1]",
    "1.5",
]


@pytest.mark.parametrize("literal", LITERALS)
def test_a_member_of_a_literal_is_foreign(literal: str) -> None:
    files = [file("a.py", "", uses=[use(f"{literal}.join")]), file("b.py", "A(A.join)")]
    assert resolve(files) == ([], "certain", "foreign")


@pytest.mark.parametrize("receiver", ["sql`x`", 'sql"x"'])
def test_a_member_of_a_tagged_text_is_not_foreign(receiver: str) -> None:
    files = [file("a.py", "", uses=[use(f"{receiver}.join")]), file("b.py", "A(A.join)")]
    assert resolve(files)[2] != "foreign"


def test_circles_end() -> None:
    """Imports, base classes and values that name each other in a circle have no definition."""
    files = [
        file(
            "a.py",
            "A(A.go)",
            [imported(".b", "B"), imported(".b", "x")],
            [use("self.missing", 1), use("x", 1), use("B", 0, "inherit"), use("v.run", 1)],
            [Binding("value", "v", "w", 1), Binding("value", "w", "v", 1)],
        ),
        file("b.py", "B", [imported(".a", "A"), imported(".a", "x")], [use("A", 0, "inherit")]),
    ]
    assert [resolve(files, position)[0] for position in (0, 1, 3)] == [[], [], []]


def test_chains_of_imports_and_calls_are_bounded() -> None:
    """A thousand modules that pass a name on, and a receiver of 400 steps, take no deep stack."""
    count = 3000
    chain = [file(f"m{i}.py", "", [imported(f".m{i + 1}", "x")]) for i in range(count)]
    first = file("a.py", "f", [imported(".m0", "x")], [use("x"), use("f" + "().f" * 99 + ".g")])
    files = [first, *chain, file(f"m{count}.py", "x")]
    assert resolve(files)[0] == []
    assert resolve(files, 1)[0] == []


def test_chains_of_classes_and_values_are_bounded() -> None:
    """Base classes that are members of classes, and variables of variables, take no deep stack."""
    count = 3000
    bindings = [Binding("value", f"v{i}", f"v{i + 1}", 0) for i in range(count)]
    uses = [use("v0.run", 0), use("C0.run", 0)]
    uses += [use(f"C{i + 1}.X", i + 1, "inherit") for i in range(count)]
    names = "main " + " ".join(f"C{i}" for i in range(count))
    files = [file("a.py", names, uses=uses, bindings=bindings)]
    assert [resolve(files, position)[0] for position in (0, 1)] == [[], []]


def test_uses_of_a_definition_are_found_under_its_aliases() -> None:
    files = [
        file("src/a.ts", "run"),
        file("src/b.ts", "", [imported("./a", "run", "go", exported=True)]),
        file("src/c.ts", "main", [imported("./b", "go", "start")], [use("start", 0)]),
        file("src/d.ts", "main run", uses=[use("run", 0)]),
    ]
    index = ParsedFiles(files)
    uses = list(Resolver(index).uses_of(DefinitionKey("src/a.ts", 0)))
    assert [(item.file.path, item.use.name) for item in uses] == [("src/c.ts", "start")]
    items = list(Resolver(index).imports_of(DefinitionKey("src/a.ts", 0)))
    assert [item.file.path for item in items] == ["src/b.ts", "src/c.ts"]


def test_default_exports_are_found_under_any_name() -> None:
    files = [
        file("src/thing.ts", "Real", [imported("", "Real", "default", exported=True)]),
        file("src/c.ts", "main", [imported("./thing", "default", "Any")], [use("Any", 0)]),
    ]
    uses = list(Resolver(ParsedFiles(files)).uses_of(DefinitionKey("src/thing.ts", 0)))
    assert [item.use.name for item in uses] == ["Any"]


def test_imported_files() -> None:
    files = [
        file("t.py", "", [imported("pkg", "client"), imported("os"), imported("pkg")]),
        file("pkg/__init__.py"),
        CLIENT,
    ]
    resolver = Resolver(ParsedFiles(files))
    paths = [resolver.imported_files(files[0], item) for item in files[0].facts.imports]
    assert paths == [("pkg/client.py",), (), ("pkg/__init__.py",)]


def test_overloads_are_one_definition() -> None:
    files = [file("a.ts", "run run run main", uses=[use("run", 3)])]
    index = ParsedFiles(files)
    resolution = Resolver(index).resolve(files[0], files[0].facts.uses[0])
    assert names_of(index, resolution) == ["a.ts:run"] * 3
    assert len(list(Resolver(index).uses_of(DefinitionKey("a.ts", 1)))) == 1


def test_equal_names_of_callbacks_are_told_apart_by_their_lines() -> None:
    """Tests define the same name in one callback after the other: the nearest before a use wins."""
    text = "".join(
        f"it('{i}', () => {{\n  const run = () => {i}\n  const other = 1\n  run()\n}})\n"
        for i in range(3)
    )
    files = parse_texts({"a.test.ts": text}, {"typescript"})
    test_file = files.load(["a.test.ts"])["a.test.ts"]
    runs = [i for i, symbol in enumerate(test_file.symbols) if symbol.name == "run"]
    for number, position in enumerate(runs):
        line = 5 * number + 4
        resolution = Resolver(files).resolve(test_file, use("run")._replace(line=line))
        assert resolution.definitions == (DefinitionKey("a.test.ts", position),)


def test_functions_that_are_arguments_are_no_members() -> None:
    text = "const api = make({ endpoints() { return 1 } })\n"
    files = parse_texts({"a.ts": text}, {"typescript"})
    code_file = files.load(["a.ts"])["a.ts"]
    bound_file = replace(
        code_file, facts=CodeFacts(bindings=(Binding("call", "api", "make", TOP_LEVEL),))
    )
    resolution = Resolver(ParsedFiles([bound_file])).resolve(bound_file, use("api.endpoints"))
    assert (resolution.definitions, resolution.confidence) != (
        (DefinitionKey("a.ts", 1),),
        "certain",
    )


def settings(path: str, text: str) -> CodeFile:
    return CodeFile(path, "json", (), extract_package_facts(path, text.encode()))


@pytest.mark.parametrize(
    ("module", "manifests"),
    [
        pytest.param(
            "@internal/run",
            [
                settings("packages/a/tsconfig.json", '{"extends": "./tsconfig.base"}'),
                settings(
                    "packages/a/tsconfig.base.json",
                    '{"compilerOptions": {"paths": {"@internal/*": ["./src/*"]}}}',
                ),
            ],
            id="a mapped path of extended settings",
        ),
        pytest.param(
            "@scope/named/run",
            [settings("packages/a/package.json", '{"name": "@scope/named"}')],
            id="a package by its name",
        ),
        pytest.param(
            "a/run", [settings("packages/a/package.json", "{}")], id="a package by its directory"
        ),
    ],
)
def test_modules_of_packages_and_settings(module: str, manifests: list[CodeFile]) -> None:
    first = file("packages/a/tests/t.ts", "", [imported(module, "run")], [use("run")])
    assert resolve([first, file("packages/a/src/run.ts", "run"), *manifests])[0] == [
        "packages/a/src/run.ts:run"
    ]


def test_definitions_that_share_a_name_have_the_uses_that_they_have_alone() -> None:
    """A question that asks for several definitions resolves the uses of their name once."""
    calls = [use("run", 0), use("thing.run", 0, is_local=True), use("A.run", 0)]
    files = [
        file("a.py", "A(A.run)"),
        file("b.py", "B(B.run) run"),
        file("c.py", "main", [imported("a", "A"), imported("b", "run")], calls),
        file("d.py", "main", [imported("b", "run", "go")], [use("go", 0), use("other.run", 0)]),
    ]
    index = ParsedFiles(files)
    definitions = [DefinitionKey("a.py", 1), DefinitionKey("b.py", 1), DefinitionKey("b.py", 2)]
    resolver = Resolver(index)
    for definition in [*definitions, *definitions]:
        alone = list(Resolver(index).uses_of(definition))
        assert list(resolver.uses_of(definition)) == alone
        assert alone


def test_uses_that_were_not_all_read_are_not_remembered() -> None:
    text = "def run(): ...\n" + "run()\n" * 5
    files = parse_texts({"a.py": text}, {"python"})
    resolver, definition = Resolver(files), DefinitionKey("a.py", 0)
    next(resolver.uses_of(definition))
    assert len(list(resolver.uses_of(definition))) == 5


def test_a_question_remembers_a_bounded_number_of_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(use_search, "MAX_REMEMBERED", 2)
    files = parse_texts({"a.py": "def run(): ...\n" + "run()\n" * 5}, {"python"})
    resolver, definition = Resolver(files), DefinitionKey("a.py", 0)
    assert [len(list(resolver.uses_of(definition))) for _ in range(3)] == [5, 5, 5]
