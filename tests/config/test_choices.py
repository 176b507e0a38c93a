"""Names that settings choose among are the same in each table and option that lists them."""

from dataclasses import fields
from typing import get_args

from cocosearch_ipc.cli.parser import parser
from cocosearch_ipc.cli.questions.search_options import RERANKERS
from cocosearch_ipc.cli.setup.install import ASSISTANTS
from cocosearchd.config.settings import Chunker, Provider, RerankerName
from cocosearchd.embedding.factory import PROVIDERS
from cocosearchd.embedding.model_catalogue import _LISTERS
from cocosearchd.indexing.pipeline.chunker import ChunkLimits
from cocosearchd.indexing.pool.boxed_parser import MODULES


def test_every_provider_has_an_opener_and_a_list_of_models() -> None:
    assert set(get_args(Provider)) == PROVIDERS.keys() == _LISTERS.keys()


def test_every_chunker_has_a_parser() -> None:
    assert set(get_args(Chunker)) == MODULES.keys()
    kinds = {field.name: field.type for field in fields(ChunkLimits)}
    assert get_args(kinds["chunker"]) == get_args(Chunker)


def test_the_command_line_offers_every_reranker() -> None:
    assert get_args(RerankerName) == RERANKERS


def test_the_command_line_installs_for_every_assistant() -> None:
    usage = parser().parse_args
    for name in ASSISTANTS:
        assert usage(["install", name]).assistant == name
