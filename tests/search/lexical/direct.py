"""An analyser without a process of its own."""

from collections.abc import Sequence

from cocosearchd.search.lexical.analysis.analyser import Analysed
from cocosearchd.search.lexical.analysis.documents import FileText, documents
from cocosearchd.search.lexical.analysis.terms import Terms


class DirectAnalyser:
    """Stands in for `ProcessAnalyser` where the index above it is tested: a process costs each test half a second.

    That both say the same, and that processes end as they should, is tested in `test_analyser.py`.
    """

    def __init__(self) -> None:
        self._terms = Terms()

    async def analyse(self, files: Sequence[FileText]) -> Analysed:
        return Analysed(tuple(documents(files, self._terms)))
