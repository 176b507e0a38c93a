"""Analyser without a process of its own"""

from collections.abc import Sequence

from cocosearchd.search.lexical.analysis.analyser import AnalysedFiles
from cocosearchd.search.lexical.analysis.documents import FileText, make_documents
from cocosearchd.search.lexical.analysis.terms import TermCache


class DirectAnalyser:
    """Stand-in for `ProcessAnalyser` in tests of the index.

    A process would cost each test half a second. That both give the same results, and that
    processes end as they should, is tested in `test_analyser.py`.
    """

    def __init__(self) -> None:
        self._terms = TermCache()

    async def analyse(self, files: Sequence[FileText]) -> AnalysedFiles:
        return AnalysedFiles(tuple(make_documents(files, self._terms)))
