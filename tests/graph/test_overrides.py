"""Uses of a member through a base class whose member it overrides, from source text to impact."""

from collections import Counter
from collections.abc import Sequence

import pytest

from benchmarks.graph.parsed_files import ParsedFiles, parse_texts
from cocosearchd.graph.code_files import DefinitionKey
from cocosearchd.graph.questions.impact import ImpactBounds, find_impact
from cocosearchd.graph.resolution.block_bindings import ANYWHERE
from cocosearchd.graph.resolution.file_names import FileNames
from cocosearchd.graph.resolution.name_lookup import NameLookup
from cocosearchd.graph.resolution.resolver import Resolver
from cocosearchd.graph.resolution.type_inference import TypeInference
from cocosearchd.languages.code_facts import TOP_LEVEL, Binding

BASE = """\
class Job:
    def run(self):
        self.work()
        Job.work(self)

    def work(self): ...
    def __init__(self): ...

class Named(Job): ...

def start(job: Job, named: Named, idle: "Idle", other):
    job.work()
    named.work()
    idle.work()
    other.work()

class Idle(Job):
    def rest(self):
        self.work()
"""
SUBCLASS = """\
from base import Named

class Mail(Named):
    def work(self):
        super().work()

    def __init__(self):
        super().__init__()

def send(mail: Mail):
    mail.work()
"""
SCRIPT = """\
abstract class Job { abstract work(): void; run() { this.work() } }
interface Worker { work(): void }
class Mail extends Job implements Worker { work() {} }
function a(job: Job) { job.work() }
function b(worker: Worker) { worker.work() }
function c(other: Rest) { other.work() }
class Rest extends Job {}
"""
JAVA = """\
interface Worker { void work(); }
abstract class Job implements Worker { void run() { work(); } }
class Mail extends Job { public void work() {} }
class Main { void main(Worker worker, Job job, Rest rest) { worker.work(); job.work(); rest.work(); } }
class Rest extends Job {}
"""


def key_of(files: ParsedFiles, path: str, name: str) -> DefinitionKey:
    symbols = files.load([path])[path].symbols
    return DefinitionKey(path, [symbol.qualified_name for symbol in symbols].index(name))


def uses_of(files: ParsedFiles, path: str, name: str) -> list[tuple[str, int, str, str]]:
    """Return path, line, reason and confidence of the uses of a definition."""
    uses = Resolver(files).uses_of(key_of(files, path, name))
    return [
        (use.file.path, use.use.line, use.resolution.reason, use.resolution.confidence)
        for use in uses
    ]


@pytest.fixture
def files() -> ParsedFiles:
    return parse_texts({"base.py": BASE, "mail.py": SUBCLASS}, {"python"})


def test_a_call_through_a_base_class_is_a_possible_use(files: ParsedFiles) -> None:
    assert uses_of(files, "mail.py", "Mail.work") == [
        ("base.py", 3, "through_base", "possible"),
        ("base.py", 12, "through_base", "possible"),  # of Job
        ("base.py", 13, "through_base", "possible"),  # of Named, which inherits it
        ("base.py", 15, "name_only", "possible"),
        ("mail.py", 11, "class_member", "certain"),
    ]


def test_a_base_class_has_its_own_uses_only(files: ParsedFiles) -> None:
    lines = [(path, line) for path, line, _, _ in uses_of(files, "base.py", "Job.work")]
    assert lines == [
        *(("base.py", line) for line in (3, 4, 12, 13, 14, 15, 19)),
        ("mail.py", 5),
    ]


def test_a_constructor_overrides_nothing(files: ParsedFiles) -> None:
    assert uses_of(files, "mail.py", "Mail.__init__") == []


def test_uses_in_one_file_are_those_of_all(files: ParsedFiles) -> None:
    key = key_of(files, "mail.py", "Mail.work")
    resolver = Resolver(files)
    uses_by_file = [
        use
        for path in resolver.mentioning_paths(key)
        for use in resolver.uses_in(key, files.load([path])[path])
    ]
    all_uses = list(resolver.uses_of(key))
    assert uses_by_file == all_uses == list(resolver.uses_of(key)), "the second time from memory"


def test_what_calls_a_base_class_is_affected_as_possible(files: ParsedFiles) -> None:
    bounds = ImpactBounds(depth=2, weakest="possible", is_over=lambda: False)
    key = key_of(files, "mail.py", "Mail.work")
    impact = find_impact(files, Resolver(files), [key], bounds)
    affected = {
        item.symbol.qualified_name: (item.distance, item.confidence)
        for item in impact.affected
        if item.symbol is not None
    }
    assert affected == {
        "Job.run": (1, "possible"),
        "start": (1, "possible"),
        "send": (1, "certain"),
    }


def test_members_that_override_a_changed_one_are_affected(files: ParsedFiles) -> None:
    bounds = ImpactBounds(depth=2, weakest="possible", is_over=lambda: False)
    key = key_of(files, "base.py", "Job.work")
    impact = find_impact(files, Resolver(files), [key], bounds)
    affected = {
        item.symbol.qualified_name: (item.distance, item.reason, item.use_location.line)
        for item in impact.affected
        if item.symbol is not None
    }
    # its `super().work()` is a certain use
    assert affected["Mail.work"] == (1, "inherited_member", 5)
    assert affected["send"] == (2, "class_member", 11)
    text = "from base import Job\nclass Quiet(Job):\n    def work(self): ...\n"
    quiet = parse_texts({"base.py": BASE, "quiet.py": text}, {"python"})
    impact = find_impact(quiet, Resolver(quiet), [key], bounds)
    overriders = [
        (item.key.path, item.use_location.line, item.via_name, item.confidence)
        for item in impact.affected
        if item.reason == "overrides"
    ]
    assert overriders == [("quiet.py", 3, "Job.work", "possible")]


@pytest.mark.parametrize(
    ("path", "text", "language", "lines"),
    [("a.ts", SCRIPT, "typescript", [1, 4, 5]), ("a.java", JAVA, "java", [2, 4, 4])],
)
def test_interfaces_and_abstract_classes_are_bases(
    path: str, text: str, language: str, lines: list[int]
) -> None:
    uses = uses_of(parse_texts({path: text}, {language}), path, "Mail.work")
    assert [line for _, line, _, _ in uses] == lines
    assert {(reason, confidence) for _, _, reason, confidence in uses} == {
        ("through_base", "possible")
    }


def test_base_classes_that_name_each_other_end() -> None:
    text = "class A(B):\n    def run(self): self.go()\n    def go(self): ...\n"
    text += "class B(A):\n    def go(self): ...\n"
    files = parse_texts({"a.py": text}, {"python"})
    assert ("a.py", 2, "through_base", "possible") in uses_of(files, "a.py", "B.go")


def test_base_classes_that_a_circle_has_hidden_are_searched_again() -> None:
    source = """\
class A(B.C): ...
class B(A.D, E): ...
class E:
    class C: ...
"""
    types = TypeInference(NameLookup(parse_texts({"a.py": source}, {"python"})))
    # `B.C` is searched in the base classes of `A`, whose only one is `B.C`
    types.evaluate("a.py", TOP_LEVEL, "B.C")
    assert types.bases(DefinitionKey("a.py", 0)) == [DefinitionKey("a.py", 3)]


@pytest.mark.parametrize(
    "source",
    [
        "class A(B.C): ...\nB = A\nA().go()\n",
        "a = b()\nb = a()\na().go()\n",
    ],
)
def test_variables_that_mean_each_other_end(source: str) -> None:
    files = parse_texts({"a.py": source}, {"python"})
    file = files.load(["a.py"])["a.py"]
    resolutions = [Resolver(files).resolve(file, use) for use in file.facts.uses]
    assert file.facts.uses[-1].name == "go"
    assert not resolutions[-1].definitions


def test_each_variable_of_a_chain_of_calls_is_called_once(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = "".join(f"a{number} = a{number + 1}()\n" * 2 for number in range(5))
    types = TypeInference(NameLookup(parse_texts({"a.py": chain}, {"python"})))
    names = list[str]()
    find_bindings = FileNames.bindings

    def record_name(
        file: FileNames, position: int, name: str, region: int = ANYWHERE
    ) -> Sequence[Binding]:
        names.append(name)
        return find_bindings(file, position, name, region)

    monkeypatch.setattr(FileNames, "bindings", record_name)
    types.evaluate("a.py", TOP_LEVEL, "a0()")
    # Each name has two definitions. If each of these called the next ones, there would be hundreds.
    assert max(Counter(names).values()) < 10
