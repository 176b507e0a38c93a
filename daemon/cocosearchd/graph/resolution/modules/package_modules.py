"""Module rules of Java, Kotlin, Scala, C# and PHP: names belong to the declared packages."""

from cocosearchd.graph.code_files import CodeFile, CodeFiles
from cocosearchd.graph.resolution.modules.base import ModuleRules
from cocosearchd.graph.resolution.modules.module_paths import directory_of, join, nearest

_COMMON_MEMBERS = (
    "equals hashCode toString get set put add size remove contains containsKey iterator next hasNext "
    "length charAt substring append close read write getName getClass valueOf name ordinal values "
    "of stream map filter collect forEach run apply accept test compare compareTo isEmpty clear "
    "indexOf split replace trim format print println getMessage getKey getValue keySet entrySet "
    "addAll removeAll toArray sort reverse start stop join wait notify call invoke execute submit "
    "parse build create copy flush reset peek pop push first last min max sum count find any all "
    "let also with takeIf toList toSet toMap fold reduce flatMap groupBy zip head tail key value "
)
_DOTNET_MEMBERS = (
    "Equals GetHashCode ToString Get Set Add Remove Contains ContainsKey TryGetValue Count Length "
    "Select Where First FirstOrDefault Any All ToList ToArray Dispose Read Write Close Flush Parse "
    "Format Join Split Replace Trim Substring IndexOf StartsWith EndsWith Invoke Clear Insert "
    "GetType Name Value Key Keys Values Item Create Run Start Stop Wait Execute Compare CompareTo"
)


def find_included_file(files: CodeFiles, file: CodeFile, module: str) -> tuple[str, ...]:
    """Return the file that a PHP script includes by path; packages are found by name elsewhere."""
    if not module.endswith((".php", ".inc")):
        return ()
    base = join(directory_of(file.path), module.lstrip("/"))
    if base and files.has_path(base):
        return (base,)
    return nearest(files.paths_ending(module.lstrip("./")), file.path)[:1]


JAVA = ModuleRules(
    family="jvm",
    instance_names=frozenset({"this"}),
    parent_names=frozenset({"super"}),
    builtin_members=frozenset(_COMMON_MEMBERS.split()),
    members_visible=True,
    needs_import=True,
    has_packages=True,
    is_static=True,
    methods_need_calls=True,
)
KOTLIN = ModuleRules(
    family="jvm",
    instance_names=frozenset({"this"}),
    parent_names=frozenset({"super"}),
    builtin_members=frozenset(_COMMON_MEMBERS.split()),
    members_visible=True,
    needs_import=True,
    has_packages=True,
)
SCALA = KOTLIN
CSHARP = ModuleRules(
    family="csharp",
    instance_names=frozenset({"this"}),
    parent_names=frozenset({"base"}),
    builtin_members=frozenset(_DOTNET_MEMBERS.split()),
    library_names=frozenset({"System"}),
    members_visible=True,
    has_packages=True,
    has_outer_packages=True,
)
PHP = ModuleRules(
    family="php",
    find_module=find_included_file,
    instance_names=frozenset({"$this", "self", "static"}),
    parent_names=frozenset({"parent"}),
    constructor_names=frozenset({"__construct"}),
    builtin_members=frozenset(_COMMON_MEMBERS.split()),
    has_packages=True,
    methods_need_calls=True,
)
