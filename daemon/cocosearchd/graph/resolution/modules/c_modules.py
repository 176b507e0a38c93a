"""Module rules of C and C++: included files, and all files that these include."""

from cocosearchd.graph.code_files import CodeFile, CodeFiles
from cocosearchd.graph.resolution.modules.base import ModuleRules
from cocosearchd.graph.resolution.modules.module_paths import directory_of, join, nearest

_BUILTIN_MEMBERS = (
    "size begin end empty push_back emplace_back pop_back front back clear insert erase find count "
    "at data c_str length append substr resize reserve swap get reset release lock unlock open "
    "close read write str first second push pop top emplace what load store wait join compare"
)


def find_module(files: CodeFiles, file: CodeFile, module: str) -> tuple[str, ...]:
    """Return the included file.

    Its path is relative to the including file. If no such file exists, return the nearest file with
    that end of its path.
    """
    base = join(directory_of(file.path), module)
    if base and files.has_path(base):
        return (base,)
    tail = module
    while tail.startswith("../"):
        tail = tail[3:]
    return nearest(files.paths_ending(tail), file.path)[:1] if tail else ()


C = ModuleRules(
    family="c",
    find_module=find_module,
    instance_names=frozenset({"this"}),
    builtin_members=frozenset(_BUILTIN_MEMBERS.split()),
    library_names=frozenset({"std"}),
    members_visible=True,
    exports_imports=True,
    is_static=True,
    has_namespaces=True,
    has_prototypes=True,
    methods_need_calls=True,
)
