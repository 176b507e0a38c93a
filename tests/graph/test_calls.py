"""Trees of calls: levels, cycles, constructors, pages, and bounds."""

from cocosearchd.filters.filter_fields import make_filter
from cocosearchd.graph.code_files import CodeFiles, DefinitionKey
from cocosearchd.graph.questions.calls import CallQuery, CallTree, find_callees, find_callers
from cocosearchd.graph.questions.target import parse_target
from cocosearchd.graph.questions.target_search import find_target_definitions
from cocosearchd.graph.resolution.resolver import Resolver
from tests.graph.sources import parse_sources

FILES = parse_sources(
    {
        "a.py": """
            from b import helper

            class Job:
                def __init__(self):
                    helper()

                def run(self):
                    self.step()
                    print("x")

                def step(self):
                    helper()
                    helper()

            def main():
                job = Job()
                job.run()
                main()

            main()
            """,
        "b.py": """
            def helper():
                return 1
            """,
    }
)


def callers(name: str, query: CallQuery, files: CodeFiles = FILES) -> CallTree:
    resolver = Resolver(files)
    keys = find_target_definitions(files, resolver, parse_target(name)).keys
    return find_callers(files, resolver, keys, query, lambda: False)


def callees(name: str, query: CallQuery, files: CodeFiles = FILES) -> CallTree:
    resolver = Resolver(files)
    keys = find_target_definitions(files, resolver, parse_target(name)).keys
    return find_callees(files, resolver, keys, query, lambda: False)


def rows(tree: CallTree) -> list[tuple[int, str, int]]:
    """Return depth, name and parent of each entry."""
    return [
        (node.depth, node.symbol.qualified_name if node.symbol else node.key.path, node.parent)
        for node in tree.nodes
    ]


def test_callers_come_level_by_level() -> None:
    tree = callers("helper", CallQuery(depth=5))
    assert rows(tree) == [
        (1, "Job.__init__", -1),
        (1, "Job.step", -1),
        (2, "main", 0),
        (2, "Job.run", 1),
        (3, "a.py", 2),
        (3, "main", 2),
        (3, "main", 3),
    ]
    step = tree.nodes[1]
    assert step.site_count == 2
    assert [(site.line, site.column) for site in step.sites] == [(12, 9), (13, 9)]
    assert tree.is_last
    assert tree.is_complete


def test_a_function_that_calls_itself_is_a_cycle_and_another_way_to_it_a_repetition() -> None:
    nodes = callers("helper", CallQuery(depth=5)).nodes
    recursion, repetition = nodes[5], nodes[6]
    assert recursion.is_cycle
    assert (repetition.first_occurrence, repetition.is_cycle) == (2, False)


def test_one_level_is_the_default() -> None:
    assert {row[0] for row in rows(callers("helper", CallQuery()))} == {1}


def test_calls_of_a_class_are_callers_of_its_constructor() -> None:
    assert rows(callers("Job.__init__", CallQuery())) == [(1, "main", -1)]


def test_callees_follow_definitions_and_name_the_rest() -> None:
    tree = callees("main", CallQuery(depth=3))
    assert rows(tree) == [
        (1, "Job", -1),
        (1, "Job.run", -1),
        (1, "main", -1),
        (2, "helper", 0),
        (2, "Job.step", 1),
        (3, "helper", 4),
    ]
    assert tree.nodes[2].is_cycle
    assert tree.nodes[5].first_occurrence == 3
    assert tree.external == ("print",)


def test_a_class_as_target_calls_what_its_members_call() -> None:
    assert {row[1] for row in rows(callees("Job", CallQuery()))} == {"helper", "Job.step"}


def test_a_prototype_and_its_definition_are_one() -> None:
    files = parse_sources(
        {
            "db.h": "int open_db(int a);\n",
            "db.cpp": '#include "db.h"\nint open_db(int a) { return a; }\n',
            "main.cpp": '#include "db.h"\nint main() { return open_db(3); }\n',
        }
    )
    (node,) = callers("open_db", CallQuery(), files).nodes
    assert (node.key.path, node.site_count) == ("main.cpp", 1)


def test_files_are_left_out_with_what_is_behind_them() -> None:
    where = make_filter({"not_paths": ["a.py"]})
    assert callers("helper", CallQuery(where, depth=5)).nodes == ()


def test_left_out_files_take_no_place_of_a_page() -> None:
    """Tests come last, behind the callers that the filter leaves out."""
    source = "from lib import helper\ndef f():\n    helper()\n"
    users = {f"src/user{number}.py": source for number in range(10)}
    files = parse_sources({"lib.py": "def helper(): pass\n", **users, "tests/test_lib.py": source})
    tree = callers("helper", CallQuery(make_filter({"paths": ["tests"]}), limit=2), files)
    assert [node.key.path for node in tree.nodes] == ["tests/test_lib.py"]
    assert tree.is_last


def test_pages_continue_a_tree() -> None:
    everything = callers("helper", CallQuery(depth=5)).nodes
    pages = [callers("helper", CallQuery(depth=5, limit=3, offset=o)) for o in (0, 3, 6)]
    assert tuple(node for page in pages for node in page.nodes) == everything
    assert [page.is_last for page in pages] == [False, False, True]


def test_a_chain_of_a_thousand_calls_is_followed() -> None:
    lines = "".join(f"def f{i}():\n    f{i + 1}()\n" for i in range(1000))
    files = parse_sources({"chain.py": f"{lines}def f1000(): pass\n"})
    tree = callees("f0", CallQuery(depth=1000, limit=1000), files)
    assert [node.depth for node in tree.nodes] == list(range(1, 1001))
    back = callers("f1000", CallQuery(depth=1000, limit=1000), files)
    assert back.nodes[-1].symbol is not None
    assert back.nodes[-1].symbol.name == "f0"


def test_a_dense_graph_is_bounded() -> None:
    body = "".join(f"    f{i}()\n" for i in range(60))
    files = parse_sources({"dense.py": "".join(f"def f{i}():\n{body}" for i in range(60))})
    tree = callers("f0", CallQuery(depth=1000, limit=1000), files)
    assert len(tree.nodes) == 1000
    assert not tree.is_last
    assert (
        len({node.key for node in tree.nodes if node.first_occurrence < 0 and not node.is_cycle})
        == 59
    )


def test_uses_of_the_target_without_a_call_are_counted() -> None:
    files = parse_sources(
        {
            "a.py": """
                class Rules:
                    def build(self):
                        return Request(errback=self.failed)

                    def failed(self):
                        return log(self.logged)

                    def logged(self):
                        pass
                """,
        }
    )
    tree = callers("Rules.failed", CallQuery(depth=3), files)
    assert (tree.total, tree.other_uses) == (0, 1)
    tree = callers("Rules.build", CallQuery(depth=3), files)
    assert (tree.total, tree.other_uses) == (0, 0)


def test_a_walk_ends_when_the_time_is_over() -> None:
    lines = "helper()\n" * 200
    files = parse_sources(
        {"b.py": "def helper(): pass\n", "c.py": f"from b import helper\n{lines}"}
    )
    keys = [DefinitionKey("b.py", 0)]
    tree = find_callers(files, Resolver(files), keys, CallQuery(), lambda: True)
    assert not tree.is_complete
