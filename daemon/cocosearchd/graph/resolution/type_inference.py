"""Infers values of expressions: receivers, typed variables, results of calls, members."""

import re
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

from cocosearchd.graph.code_files import DefinitionKey
from cocosearchd.graph.resolution.block_bindings import ANYWHERE
from cocosearchd.graph.resolution.expression import ExpressionStep, parse_expression
from cocosearchd.graph.resolution.file_names import FileNames
from cocosearchd.graph.resolution.inferred_value import FOREIGN, UNKNOWN, Value, WrittenType, merge
from cocosearchd.graph.resolution.modules.rules_table import rules_of
from cocosearchd.graph.resolution.name_lookup import NameLookup
from cocosearchd.graph.resolution.type_text import TypeName, parse_type
from cocosearchd.languages.code_facts import TOP_LEVEL, Binding, Import, Use
from cocosearchd.languages.references.chain_text import first_name
from cocosearchd.languages.symbols import (
    CALLABLE_KINDS,
    CONTAINER_KINDS,
    FUNCTION_KINDS,
    TYPE_KINDS,
    VALUE_KINDS,
)
from cocosearchd.model import Symbol

K = TypeVar("K", bound=Hashable)

# Largest depth of values that depend on each other: deeper ones are circles or generated code.
MAX_DEPTH = 24
# Classes, including base classes, that are searched for one member.
MAX_CLASSES = 200
# A text with the prefix that its language writes, such as `b"x"` (Python, Rust), `u8"x"` (C++) and
# `$"x"` (C#), or another literal. Other prefixes are functions: those of JavaScript and Scala.
_LITERAL = re.compile(r"(?:[bBrRuUfFtTL]{0,2}|u8R?|[$@]{1,2})#{0,8}['\"]|[`\[{/\d]")
# Bindings of one name that are evaluated.
_MAX_BINDINGS = 6
# Files that are searched for a class by name.
_MAX_DEFINING = 50
# A value that is being inferred: it ends circles.
_UNFINISHED = Value("unknown", reason="unresolved")
_SELF_TYPES = frozenset({"Self", "this", "self", "static"})


class TypeInference:
    """Infers values for one question, with caches: each expression of a scope is evaluated once."""

    def __init__(self, names: NameLookup) -> None:
        self._names = names
        self._values: dict[tuple[str, int, str, bool, int], Value] = {}
        self._members: dict[tuple[tuple[DefinitionKey, ...], str], Value] = {}
        # Results of calls of variables
        self._results: dict[DefinitionKey, Value] = {}
        # Keyed by path and position of a class: thousands of adjacent classes may have one name
        self._objects: dict[tuple[str, int], Value] = {}
        self._bases: dict[DefinitionKey, Sequence[DefinitionKey]] = {}
        self._depth = 0
        self._cut_off_count = 0  # look-ups that a circle or the depth has ended

    def evaluate(
        self, path: str, position: int, text: str, is_local: bool = False, region: int = ANYWHERE
    ) -> Value:
        """Return the value of an expression in the body of a symbol.

        `is_local` means that the expression begins with a variable of a function, not with a name
        of the file. `region` is the block of that variable: see `BlockBindings`.
        """
        return self._infer_once(
            self._values,
            (path, position, text, is_local, region),
            lambda: self._evaluate(path, position, text, is_local, region),
        )

    def member(self, value: Value, name: str) -> Value:
        """Return the member of a value by name."""
        if value.kind == "module":
            rules = self._names.rules(value.paths[0])
            member = self._names.find_export(rules, value.paths, name)
            return member.because("module_member") if member.is_usable else member
        if not value.is_usable:
            return value
        if value.kind == "definition" and self._names_itself(value, name):
            return value._replace(kind="instance")
        member = self._member_of_definitions(value, name)
        owners = value.definitions if value.kind == "instance" else ()
        return member._replace(
            owners=value.owners or owners or value.definitions,
            is_inferred=member.is_inferred or value.is_inferred,
        )

    def _member_of_definitions(self, value: Value, name: str) -> Value:
        member = self._member_of_classes(value.definitions, name)
        if not member.is_usable and value.definitions:
            member = self._member_of_namespace(value, name) or member
        if not member.is_usable and value.kind == "definition":
            member = self._member_of_content(value, name)
        return member

    def _member_of_classes(self, keys: tuple[DefinitionKey, ...], name: str) -> Value:
        """Return the first member with a name in classes and their base classes, cached."""
        return self._infer_once(self._members, (keys, name), lambda: self._find_member(keys, name))

    def _member_of_namespace(self, value: Value, name: str) -> Value | None:
        """Return the member of a namespace that visible other files define; None without one."""
        key = value.definitions[0]
        symbol = self.symbol(key)
        if symbol is None or symbol.kind not in CONTAINER_KINDS:
            return None
        if not self._names.rules(key.path).has_namespaces:
            return None
        origin = value.paths[0] if value.paths else key.path
        member = self._names.find_visible(origin, name)
        return member if member.is_usable else None

    def _names_itself(self, value: Value, name: str) -> bool:
        """Return True if a name means the object of an outer class: `Outer.this`."""
        rules = self._names.rules(value.definitions[0].path) if value.definitions else None
        return rules is not None and name in rules.instance_names

    def member_of_scope(self, path: str, position: int, name: str) -> Value:
        """Return the member of a class around a symbol that a name without receiver means."""
        names = self._names.file_names(path)
        if names is None or position == TOP_LEVEL:
            return UNKNOWN
        owner = names.enclosing_type(position)
        member = self.member(self._enclosing_object(names, position), name)
        while owner is not None and not member.is_usable:
            owner = names.enclosing_type(names.parents[owner])
            if owner is not None:
                outer = self.member(self._enclosing_object(names, owner), name)
                member = outer if outer.is_usable else member
        return member

    def classes_around(self, path: str, position: int) -> tuple[DefinitionKey, ...]:
        """Return the class around a symbol, with its parts elsewhere; empty outside of a class."""
        names = self._names.file_names(path)
        if names is None or position == TOP_LEVEL:
            return ()
        return self._enclosing_object(names, position).definitions

    def own_members(self, key: DefinitionKey, name: str) -> tuple[DefinitionKey, ...]:
        """Return the definitions of a member in a class itself, without its base classes."""
        value = self._own_member(key, name)
        return () if value.is_content or value.kind != "definition" else value.definitions

    def symbol(self, key: DefinitionKey) -> Symbol | None:
        """Return the symbol of a definition; None for a file or an unknown definition."""
        names = self._names.file_names(key.path)
        if names is None or not 0 <= key.position < len(names.file.symbols):
            return None
        return names.file.symbols[key.position]

    def _infer_once(self, values: dict[K, Value], key: K, infer: Callable[[], Value]) -> Value:
        """Return the cached value of a key, else run an inference; `_UNFINISHED` in a circle."""
        value = values.get(key)
        if value is None:
            values[key] = _UNFINISHED
            value = values[key] = self._within_depth(infer)
        elif value is _UNFINISHED:
            self._cut_off_count += 1
        return value

    def _within_depth(self, infer: Callable[[], Value]) -> Value:
        """Run an inference; return `UNKNOWN` if the recursion is too deep.

        Every recursive inference passes through this method.
        """
        if self._depth >= MAX_DEPTH:
            self._cut_off_count += 1
            return UNKNOWN
        self._depth += 1
        value = infer()
        self._depth -= 1
        return value

    def _evaluate(self, path: str, position: int, text: str, is_local: bool, region: int) -> Value:
        steps = parse_expression(text)
        if not steps:
            return FOREIGN if _LITERAL.match(text) else UNKNOWN
        value, width = self._first_value(path, position, steps, is_local, region)
        for step in steps[width:]:
            if step.kind == "name":
                value = self.member(value, step.text)
            elif step.kind == "call":
                value = self._call(value)
            else:
                value = self._element(value)
        return value

    def _first_value(
        self,
        path: str,
        position: int,
        steps: Sequence[ExpressionStep],
        is_local: bool,
        region: int,
    ) -> tuple[Value, int]:
        """Return the value of the first steps of an expression, and the number of these steps."""
        names = self._names.file_names(path)
        if names is None:
            return UNKNOWN, 1
        first = self._reserved_value(names, position, steps)
        first = first or self._variable_around(names, position, steps, region)
        if first is not None:
            return first
        if is_local:
            return self._same_named_variable(names, position, steps, region), 1
        rules = rules_of(names.file.language)
        name = steps[0].text
        if rules.members_visible:
            member = self.member_of_scope(path, position, name)
            if member.is_usable:
                return member, 1
        if name in rules.library_names and not names.imports(name):
            return FOREIGN, 1
        return self._imported_value(names, position, steps)

    def _reserved_value(
        self, names: FileNames, position: int, steps: Sequence[ExpressionStep]
    ) -> tuple[Value, int] | None:
        """Return the value of a written type, or of a reserved word such as `self`; else None."""
        rules = rules_of(names.file.language)
        name = steps[0].text
        if steps[0].kind == "type":
            return self.instance_of(WrittenType(name, names.file.path, position)), 1
        if name in rules.path_heads:
            paths = self._names.find_module(names.file, name)
            return (Value("module", paths=paths) if paths else FOREIGN), 1
        if name in rules.instance_names:
            return self._enclosing_object(names, position), 1
        if name in rules.parent_names:
            width = 2 if len(steps) > 1 and steps[1].kind == "call" else 1
            return self._parent_object(names, position), width
        return None

    def _variable_around(
        self, names: FileNames, position: int, steps: Sequence[ExpressionStep], region: int
    ) -> tuple[Value, int] | None:
        """Return the value of a variable in the enclosing definitions; None without one."""
        for outer in (*names.enclosing(position), TOP_LEVEL):
            is_type = outer != TOP_LEVEL and names.kinds[outer] in TYPE_KINDS
            if is_type and outer != position:
                continue
            bindings = names.bindings(outer, steps[0].text, region)
            if bindings:
                value = self._bound_value(names, bindings)
                # at the top level, a name without a usable value may be a class or function that is
                # reassigned
                if value.is_usable or outer != TOP_LEVEL:
                    return value, 1
        return None

    def _same_named_variable(
        self, names: FileNames, position: int, steps: Sequence[ExpressionStep], region: int
    ) -> Value:
        """Return the value of a variable with the same name in other blocks, as a guess.

        Several callbacks often have the same parameters, and the type is written in only one of
        them.
        """
        if region == ANYWHERE:
            return UNKNOWN
        namesake = self._variable_around(names, position, steps, ANYWHERE)
        return UNKNOWN if namesake is None else namesake[0]._replace(is_inferred=True)

    def _imported_value(
        self, names: FileNames, position: int, steps: Sequence[ExpressionStep]
    ) -> tuple[Value, int]:
        """Return the value of the longest imported dotted name, else of the first name."""
        for count, item in _dotted_imports(names, steps):
            value = self._names.find_import(names.file.path, item)
            if value.is_usable:
                return value, count
        name = steps[0].text
        value = self._names.find_name(names.file.path, position, name)
        if not value.is_usable and rules_of(names.file.language).modules_visible:
            paths = self._names.find_module(names.file, name)
            value = Value("module", paths=paths) if paths else value
        # the members of a namespace are those that are visible in this file
        return value._replace(paths=value.paths or (names.file.path,)), 1

    def _enclosing_object(self, names: FileNames, position: int) -> Value:
        owner = names.enclosing_type(position)
        if owner is None:
            return self._owner_elsewhere(names, position)
        first = names.same_definition(owner)[0]
        key = (names.file.path, first)
        if key not in self._objects:
            self._objects[key] = self._object_of_class(names, first)
        return self._objects[key]

    def _object_of_class(self, names: FileNames, owner: int) -> Value:
        """Return an object of a class with its overloads, and of its parts elsewhere."""
        keys = tuple(self._same_definitions(names, owner))
        if not any(self._is_type(key) for key in keys):
            # the type of an `impl` or an extension is defined elsewhere
            name = names.file.symbols[owner].qualified_name
            elsewhere = self._type_elsewhere(name, names.file.path)
            keys = (*keys, *elsewhere.definitions)
        return Value("instance", keys, "class_member")

    def _is_type(self, key: DefinitionKey) -> bool:
        symbol = self.symbol(key)
        return symbol is not None and symbol.kind in TYPE_KINDS - {"extension"}

    def _type_elsewhere(self, name: str, path: str) -> Value:
        """Return an object of a class by its name in a file.

        The class is found by the qualified name, else by the last part of the name.
        """
        value = self.instance_of(WrittenType(name, path, TOP_LEVEL))
        if value.is_usable or "." not in name:
            return value
        return self.instance_of(WrittenType(name.rpartition(".")[2], path, TOP_LEVEL))

    def _owner_elsewhere(self, names: FileNames, position: int) -> Value:
        """Return an object of the class of a method that is written outside of its class."""
        for outer in names.enclosing(position):
            for item in names.bindings(outer, names.file.symbols[outer].name):
                if item.kind == "type":  # a test is a method of its fixture
                    return self.instance_of(WrittenType(item.text, names.file.path, TOP_LEVEL))
            parent = names.file.symbols[outer].parent
            if parent and names.kinds[outer] in FUNCTION_KINDS:
                return self._type_elsewhere(parent, names.file.path)
        return UNKNOWN

    def _parent_object(self, names: FileNames, position: int) -> Value:
        owner = names.enclosing_type(position)
        if owner is None:
            return UNKNOWN
        keys = self.bases(DefinitionKey(names.file.path, owner))
        return Value("instance", tuple(keys), "inherited_member") if keys else FOREIGN

    def _same_definitions(self, names: FileNames, position: int) -> Iterator[DefinitionKey]:
        """Yield a definition and its overloads in the same file."""
        for item in names.same_definition(position):
            yield DefinitionKey(names.file.path, item)

    def _bound_value(self, names: FileNames, bindings: Sequence[Binding]) -> Value:
        """Return the value of a variable by its written type, else by the assigned values."""
        written = [item for item in bindings if item.kind == "type"]
        items = (written or bindings)[:_MAX_BINDINGS]
        return merge([self._value_of_binding(names, item) for item in items])

    def _value_of_binding(self, names: FileNames, item: Binding) -> Value:
        path = names.file.path
        if item.kind in ("type", "return"):
            return self.instance_of(WrittenType(item.text, path, item.symbol))
        # such an assignment gives no information about the variable
        if item.text == item.name:
            return UNKNOWN
        value = self._value_of_text(names, item)
        if item.kind == "call" and not item.text.endswith(")"):
            value = self._call(value)
        if item.kind == "element":
            value = self._element(value)
        return value

    def _value_of_text(self, names: FileNames, item: Binding) -> Value:
        """Evaluate the assigned text. For an attribute, evaluate it first in the constructor."""
        path = names.file.path
        if "." in item.name and item.symbol != TOP_LEVEL:
            owner = names.file.symbols[item.symbol]
            for name in sorted(rules_of(names.file.language).constructor_names):
                for position in names.members(owner.qualified_name, name):
                    value = self.evaluate(path, position, item.text)
                    if value.is_usable:
                        return value
        region = names.blocks.region_of_value(item, first_name(item.text))
        return self.evaluate(path, item.symbol, item.text, region=region)

    def instance_of(self, written: WrittenType, owners: tuple[DefinitionKey, ...] = ()) -> Value:
        """Return an object of a written type."""
        names = parse_type(written.text)
        return self._within_depth(
            lambda: merge([self._instance(name, written, owners) for name in names])
        )

    def _instance(
        self, name: TypeName, written: WrittenType, owners: tuple[DefinitionKey, ...]
    ) -> Value:
        if name.name in _SELF_TYPES and owners:
            return Value("instance", owners, "class_member")
        if name.is_value:
            return self.evaluate(written.path, written.position, name.name)
        value = self._named_type(name.name, written)
        arguments = tuple(written._replace(text=text) for text in name.arguments)
        if value.kind != "definition":
            return Value("foreign", arguments=arguments, reason="foreign")
        if name.is_class:
            return value
        return value._replace(kind="instance", arguments=arguments)

    def _named_type(self, name: str, written: WrittenType) -> Value:
        """Return the definitions of a type name; aliases are followed."""
        steps = parse_expression(name)
        names = self._names.file_names(written.path)
        if not steps or names is None:
            return UNKNOWN
        bound = self._bound_type(names, written.position, name)
        if bound is not None:
            return self._within_depth(lambda: self._named_type(bound.text, written))
        rules = rules_of(names.file.language)
        reserved = self._reserved_value(names, written.position, steps)
        value, width = reserved or self._imported_value(names, written.position, steps)
        for step in steps[width:]:
            value = self.member(value, step.text) if step.kind == "name" else UNKNOWN
        if (
            not value.is_usable
            and not rules.needs_import
            and steps[0].text not in rules.library_names
        ):
            return self._unique_type(rules.family, steps[-1].text)
        return value

    def _unique_type(self, family: str, name: str) -> Value:
        """Return the only class with a name.

        Headers often use a class without including its header.
        """
        keys = self._names.definitions_of(family, name, _MAX_DEFINING)
        types = {key: self.symbol(key) for key in keys if self._is_type(key)}
        if len({symbol.qualified_name for symbol in types.values() if symbol is not None}) != 1:
            return UNKNOWN
        return Value("definition", tuple(types), "unique_name", is_inferred=True)

    def _bound_type(self, names: FileNames, position: int, name: str) -> Binding | None:
        """Return the binding of a type parameter's bound, or of a local type alias; else None."""
        for outer in names.enclosing(position):
            for item in names.bindings(outer, name):
                if item.kind == "value" and item.text != name:
                    return item
        return None

    def _call(self, value: Value) -> Value:
        """Return the value of a call."""
        if value.kind != "definition":
            return UNKNOWN
        results = [self._result(key, value) for key in value.definitions[:_MAX_BINDINGS]]
        result = merge(results)
        return result._replace(is_inferred=result.is_inferred or value.is_inferred)

    def _result(self, key: DefinitionKey, value: Value) -> Value:
        symbol = self.symbol(key)
        names = self._names.file_names(key.path)
        if symbol is None or names is None:
            return UNKNOWN
        if symbol.kind in TYPE_KINDS:
            return Value("instance", (key,), value.reason)
        if symbol.kind in VALUE_KINDS:
            return self._infer_once(self._results, key, lambda: self._call_variable(key))
        if symbol.kind not in CALLABLE_KINDS:
            return UNKNOWN
        if symbol.name in rules_of(names.file.language).constructor_names and value.owners:
            return Value("instance", value.owners, value.reason)
        return self._declared_result(names, key, value)

    def _call_variable(self, key: DefinitionKey) -> Value:
        content = self._value_behind(key, UNKNOWN)
        return self._call(content) if content.definitions != (key,) else UNKNOWN

    def _declared_result(self, names: FileNames, key: DefinitionKey, value: Value) -> Value:
        returns = [item for item in names.bindings(key.position, "") if item.kind == "return"]
        if not returns:
            return UNKNOWN
        written = WrittenType(returns[0].text, key.path, key.position)
        return self.instance_of(written, value.owners)

    def _element(self, value: Value) -> Value:
        """Return an element of a container: an object of its last type argument."""
        if not value.arguments:
            return UNKNOWN
        return self.instance_of(value.arguments[-1])

    def _find_member(self, keys: Sequence[DefinitionKey], name: str) -> Value:
        """Return the first member with a name in classes and their base classes, nearest first."""
        waiting = deque((key, False) for key in keys)
        visited = set(keys)
        is_open = False
        while waiting and len(visited) <= MAX_CLASSES:
            key, is_inherited = waiting.popleft()
            value = self._own_member(key, name)
            if value.is_usable:
                return value.because("inherited_member") if is_inherited else value
            bases = self.bases(key)
            is_open = is_open or self._has_foreign_base(key, bases)
            waiting += [(base, True) for base in bases if base not in visited]
            visited.update(bases)
        return FOREIGN if is_open else UNKNOWN

    def _own_member(self, key: DefinitionKey, name: str) -> Value:
        """Return a member that a class itself has: a definition, or the value of an attribute."""
        names = self._names.file_names(key.path)
        symbol = self.symbol(key)
        if names is None or symbol is None:
            return UNKNOWN
        positions = names.members(symbol.qualified_name, name)
        if positions and not self._holds_call_result(names, key.position):
            members = tuple(DefinitionKey(key.path, position) for position in positions)
            return Value("definition", members, "class_member")
        bindings = list(names.bindings(key.position, name))
        for prefix in sorted(rules_of(names.file.language).instance_names):
            bindings += self._attributes(names, key.position, f"{prefix}.{name}")
        if bindings:
            return self._bound_value(names, bindings)._replace(is_content=True)
        return self._member_elsewhere(names, symbol, name)

    def _holds_call_result(self, names: FileNames, position: int) -> bool:
        """Return True for a variable with the result of a call: functions inside it are arguments."""
        symbol = names.file.symbols[position]
        bindings = names.bindings(names.parents[position], symbol.name)
        return symbol.kind in VALUE_KINDS and any(item.kind == "call" for item in bindings)

    def _attributes(self, names: FileNames, owner: int, name: str) -> Iterator[Binding]:
        """Yield the assignments to an attribute in a class and its methods."""
        yield from names.bindings(owner, name)
        for item in names.blocks.of_name(name):
            if item.symbol != owner and names.enclosing_type(item.symbol) == owner:
                yield item

    def _member_elsewhere(self, names: FileNames, owner: Symbol, name: str) -> Value:
        """Return a member that another file of the package defines."""
        neighbours = set(self._names.neighbours(names.file))
        keys: list[DefinitionKey] = []
        if neighbours:
            paths = [path for path in self._names.files.files_defining(name) if path in neighbours]
            self._names.load(paths)
            for path in paths:
                outer = self._names.file_names(path)
                if outer is not None:
                    positions = outer.members(owner.qualified_name, name)
                    keys += [DefinitionKey(path, position) for position in positions]
        return Value("definition", tuple(keys), "class_member") if keys else UNKNOWN

    def bases(self, key: DefinitionKey) -> Sequence[DefinitionKey]:
        """Return the base classes of a class that are in the index, in order.

        They are cached unless a circle or the depth of this look-up has hidden some.
        """
        bases = self._bases.get(key)
        if bases is None:
            cut_off_count = self._cut_off_count
            bases = self._find_bases(key)
            if self._cut_off_count == cut_off_count:
                self._bases[key] = bases
        return bases

    def _find_bases(self, key: DefinitionKey) -> Sequence[DefinitionKey]:
        names = self._names.file_names(key.path)
        if names is None:
            return []
        keys: dict[DefinitionKey, None] = {}
        outer = names.parents[key.position] if key.position >= 0 else TOP_LEVEL
        for use in self._base_uses(names, key):
            text = f"{use.receiver}.{use.name}" if use.receiver else use.name
            value = self._named_type(text, WrittenType(text, key.path, outer))
            keys.update(dict.fromkeys(value.definitions))
        symbol = self.symbol(key)
        if symbol is not None and symbol.kind == "type":
            content = self._within_depth(lambda: self._value_behind(key, UNKNOWN))
            keys.update(dict.fromkeys(content.definitions))
        keys.pop(key, None)
        return list(keys)

    def _base_uses(self, names: FileNames, key: DefinitionKey) -> list[Use]:
        """Return the uses that name base classes of a class, including its parts in the same file."""
        if key.position < 0:
            return []
        parts = self._same_definitions(names, key.position)
        return [use for part in parts for use in names.bases(part.position)]

    def _has_foreign_base(self, key: DefinitionKey, bases: Sequence[DefinitionKey]) -> bool:
        names = self._names.file_names(key.path)
        return names is not None and len(self._base_uses(names, key)) > len(bases)

    def _member_of_content(self, value: Value, name: str) -> Value:
        """Return a member of the value behind a definition: of a variable's value, or of a result."""
        for key in value.definitions[:_MAX_BINDINGS]:
            content = self._value_behind(key, value)
            if content.is_usable and content.definitions != value.definitions:
                if content.kind == "module":
                    member = self.member(content, name)
                else:
                    member = self._member_of_classes(content.definitions, name)
                if member.is_usable:
                    return member._replace(owners=content.definitions)
        return UNKNOWN

    def _value_behind(self, key: DefinitionKey, value: Value) -> Value:
        """Return the value behind a variable, an alias or a property."""
        symbol = self.symbol(key)
        names = self._names.file_names(key.path)
        if symbol is None or names is None:
            return UNKNOWN
        bindings = names.bindings(names.parents[key.position], symbol.name)
        if symbol.kind == "type":
            texts = [WrittenType(item.text, key.path, item.symbol) for item in bindings[:1]]
            return merge([self.instance_of(written) for written in texts])
        if symbol.kind in VALUE_KINDS:
            return self._bound_value(names, bindings) if bindings else UNKNOWN
        if symbol.kind in FUNCTION_KINDS:  # a property
            return self._result(key, value)
        return UNKNOWN


def _dotted_imports(
    names: FileNames, steps: Sequence[ExpressionStep]
) -> Iterator[tuple[int, Import]]:
    """Yield the imports of dotted names at the start of an expression.

    The longest name comes first. Each import comes with the length of its name.
    """
    if len(steps) < 2 or steps[0].text not in names.dotted_imports:
        return
    width = next((i for i, step in enumerate(steps) if step.kind != "name"), len(steps))
    for count in range(min(width, 8), 1, -1):
        dotted = ".".join(step.text for step in steps[:count])
        yield from ((count, item) for item in names.imports(dotted))
