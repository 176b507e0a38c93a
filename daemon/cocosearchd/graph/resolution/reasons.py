"""The table of reasons of resolutions: each code has a confidence and a sentence for people."""

from collections.abc import Mapping
from typing import NamedTuple

from cocosearch_ipc.graph_vocabulary import CONFIDENCES, Confidence


class Reason(NamedTuple):
    """A rule of resolution: its confidence, and a sentence that explains it."""

    confidence: Confidence
    sentence: str


# The reason of a definition that a change affects without a use.
OVERRIDES = "overrides"

REASONS: Mapping[str, Reason] = {
    "precise_index": Reason("certain", "a precise index (SCIP) says so"),
    "same_scope": Reason("certain", "an enclosing definition defines the name"),
    "same_file": Reason("certain", "the file defines the name"),
    "import": Reason("certain", "the file imports the name"),
    "module_member": Reason("certain", "the receiver is a module that defines or exports the name"),
    "wildcard_import": Reason("certain", "the file imports all names of a module that defines it"),
    "package": Reason("certain", "another file of the same package defines the name"),
    "class_member": Reason("certain", "the class of the receiver defines the name"),
    "inherited_member": Reason("certain", "a base class of the receiver's class defines the name"),
    "inferred_member": Reason("likely", "the class that the receiver seems to have has the name"),
    "inferred_import": Reason("likely", "the module seems to be a package of this repository"),
    "unique_name": Reason("likely", "only one definition in the index has the name"),
    "several_types": Reason("possible", "the receiver has one of several classes"),
    "through_base": Reason(
        "possible", "a base class declares the member, which this one overrides"
    ),
    OVERRIDES: Reason("possible", "it may have to change with the member that it overrides"),
    "name_only": Reason("possible", "definitions with the name, as the receiver is not known"),
    "foreign": Reason("certain", "the name comes from outside of the index"),
    "unresolved": Reason("possible", "no definition in the index has the name"),
}


def weakest(*reasons: str) -> Confidence:
    """Return the weakest confidence of some reasons."""
    return max((REASONS[reason].confidence for reason in reasons), key=CONFIDENCES.index)
