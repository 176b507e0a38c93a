"""Module rules of Swift: a file sees all files of its module, without an import."""

from cocosearchd.graph.resolution.modules.base import ModuleRules

_BUILTIN_MEMBERS = (
    "append count map filter reduce forEach first last contains insert remove removeAll isEmpty "
    "sorted index split joined init description hash encode decode get set start stop run close "
    "read write value key keys values resume cancel update add wait sync async lock unlock"
)

# No rule finds the other files of a module: most names are unique, so a search by name suffices.
SWIFT = ModuleRules(
    family="swift",
    instance_names=frozenset({"self", "Self"}),
    parent_names=frozenset({"super"}),
    builtin_members=frozenset(_BUILTIN_MEMBERS.split()),
    constructor_names=frozenset({"init"}),
    members_visible=True,
)
