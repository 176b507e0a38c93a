"""The catalogue lists models: shipped, on a server, or missing with what to do."""

from contextlib import aclosing
from pathlib import Path

import pytest

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.base import Embedder, EmbedderFingerprint
from cocosearchd.embedding.embedder_registry import EmbedderRegistry, settings_for
from cocosearchd.embedding.factory import PROVIDERS, open_embedder
from cocosearchd.embedding.lazy import LazyEmbedder
from cocosearchd.embedding.model_catalogue import CatalogueEntry, list_models
from cocosearchd.embedding.providers.builtin import version
from cocosearchd.errors import EmbedderUnavailable
from tests.embedding.ollama_server import Script, ollama_server

pytestmark = pytest.mark.anyio
NOWHERE = "http://127.0.0.1:9"


async def test_every_provider_is_listed() -> None:
    script = Script(
        models={"nomic-embed-text:latest": "sha256:1", "all-minilm:22m": "sha256:2"}, dimension=8
    )
    with ollama_server(script) as url:
        settings = EmbedderSettings(provider="ollama", ollama_url=url, model="nomic-embed-text")
        embedder = await open_embedder(settings)
        entries = await list_models(settings, embedder.fingerprint, "")
        await embedder.aclose()
    assert {model.provider for model in entries} == set(PROVIDERS)
    assert CatalogueEntry("builtin", version(), "available", "ships with cocosearchd") in entries
    assert [(m.model, m.state) for m in entries if m.provider == "ollama"] == [
        ("all-minilm:22m", "available"),
        ("nomic-embed-text:latest", "in use"),
    ]
    assert [m.state for m in entries if m.provider == "openai"] == ["not configured"]


async def test_a_server_that_is_away_is_said_to_be(tmp_path: Path) -> None:
    (ollama,) = [
        m
        for m in await list_models(EmbedderSettings(ollama_url=NOWHERE), None, "")
        if m.provider == "ollama"
    ]
    assert ollama.state == "unreachable"
    assert NOWHERE in ollama.detail
    settings = EmbedderSettings(provider="openai", url=NOWHERE, model="m", ollama_url=NOWHERE)
    (openai,) = [m for m in await list_models(settings, None, "key") if m.provider == "openai"]
    assert (openai.model, openai.state) == ("m", "unreachable")
    assert "key" not in openai.detail
    settings = EmbedderSettings(provider="onnx", model=str(tmp_path), ollama_url=NOWHERE)
    (onnx,) = [m for m in await list_models(settings, None, "") if m.provider == "onnx"]
    assert onnx.state in ("unreachable", "not installed")


async def made_by(settings: EmbedderSettings) -> tuple[tuple[str, str], ...]:
    async with aclosing(await open_embedder(settings)) as embedder:
        return embedder.fingerprint.pairs()


async def test_an_index_finds_the_embedder_it_was_made_by() -> None:
    builtin = LazyEmbedder(lambda: open_embedder(EmbedderSettings()))
    await builtin.open()
    away = EmbedderRegistry(builtin, EmbedderSettings(ollama_url=NOWHERE), open_embedder)
    assert away.get(builtin.fingerprint.pairs()) is builtin
    script = Script(dimension=8)
    with ollama_server(script) as url:
        settings = EmbedderSettings(provider="ollama", ollama_url=url)
        pairs = await made_by(settings)
        assert await made_by(settings_for(EmbedderSettings(ollama_url=url), pairs)) == pairs
        async with aclosing(
            EmbedderRegistry(builtin, EmbedderSettings(ollama_url=url), open_embedder)
        ) as embedders:
            former = embedders.get(pairs)
            assert len(await former.embed_query("a question")) == 8
            assert former.fingerprint.pairs() == pairs
        script.models = {"nomic-embed-text:latest": "sha256:other"}
        async with aclosing(
            EmbedderRegistry(builtin, EmbedderSettings(ollama_url=url), open_embedder)
        ) as embedders:
            with pytest.raises(EmbedderUnavailable, match="another one of its name"):
                await embedders.get(pairs).embed_query("a question")
    with pytest.raises(EmbedderUnavailable):
        await away.get(pairs).embed_query("a question")
    await away.aclose()


async def test_a_former_server_is_asked_only_where_settings_say_that_it_is() -> None:
    """Not at the provider's default, which is on the internet, nor at that of another provider."""
    fingerprint = EmbedderFingerprint("openai", "local", "", 8).pairs()
    ollama = EmbedderFingerprint("ollama", "nomic-embed-text", "1", 8).pairs()
    requests: list[EmbedderSettings] = []

    async def open_it(settings: EmbedderSettings) -> Embedder:
        requests.append(settings)
        return await open_embedder(EmbedderSettings())

    configured = LazyEmbedder(lambda: open_embedder(EmbedderSettings()))
    await configured.open()
    for settings in (EmbedderSettings(), EmbedderSettings(provider="ollama", url=NOWHERE)):
        async with aclosing(EmbedderRegistry(configured, settings, open_it)) as embedders:
            with pytest.raises(
                EmbedderUnavailable, match="where its server was is not in the settings"
            ):
                await embedders.get(fingerprint).embed_query("a question")
    assert not requests
    assert settings_for(EmbedderSettings(url=NOWHERE), fingerprint).url == NOWHERE
    assert (
        settings_for(EmbedderSettings(provider="openai", url=NOWHERE), fingerprint).url == NOWHERE
    )
    assert settings_for(EmbedderSettings(provider="openai", url=NOWHERE), ollama).url == "", (
        "it has a setting of its own"
    )


async def test_the_shipped_model_is_said_to_be_in_use() -> None:
    configured = LazyEmbedder(lambda: open_embedder(EmbedderSettings()))
    await configured.open()
    settings = EmbedderSettings(ollama_url=NOWHERE)
    async with aclosing(EmbedderRegistry(configured, settings, open_embedder)) as embedders:
        models = await embedders.models()
    assert [(m.model, m.state) for m in models if m.provider == "builtin"] == [
        (configured.fingerprint.model, "in use")
    ]
