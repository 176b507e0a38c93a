"""Module rules of Ruby and shell scripts: files that a script includes by path."""

import re

from cocosearchd.graph.code_files import CodeFile, CodeFiles
from cocosearchd.graph.resolution.modules.base import ModuleRules
from cocosearchd.graph.resolution.modules.module_paths import directory_of, join, nearest

# The computed beginning of a path, such as the directory of the script itself.
_COMPUTED = re.compile(r"^.*(?:\$\w+|[)}])/")
_RUBY_MEMBERS = (
    "new each map select reject find first last size length count empty? nil? to_s to_i to_a to_h "
    "to_sym inspect dup freeze call class is_a? respond_to? send puts merge key? fetch delete push "
    "pop shift join split gsub sub strip include? any? all? sort sort_by group_by inject reduce "
    "keys values each_with_index open close read write name start run tap then raise get set "
    "update add remove value key message"
)


def find_module(files: CodeFiles, file: CodeFile, module: str) -> tuple[str, ...]:
    """Return the included file.

    Its path is relative to the including file. If no such file exists, return the nearest file with
    that end of its path.
    """
    suffix = ".rb" if file.language == "ruby" and not module.endswith(".rb") else ""
    module = _COMPUTED.sub("", module) + suffix
    base = join(directory_of(file.path), module)
    if base and files.has_path(base):
        return (base,)
    tail = module.lstrip("./")
    return nearest(files.paths_ending(tail), file.path)[:1] if tail else ()


RUBY = ModuleRules(
    family="ruby",
    find_module=find_module,
    instance_names=frozenset({"self"}),
    parent_names=frozenset({"super"}),
    constructor_names=frozenset({"new"}),
    builtin_members=frozenset(_RUBY_MEMBERS.split()),
    members_visible=True,
    exports_imports=True,
    has_namespaces=True,
)
BASH = ModuleRules(family="bash", find_module=find_module, exports_imports=True)
