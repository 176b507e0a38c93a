"""Opening an embedder: imports, messages about missing parts, and fingerprints."""

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from cocosearchd.config.settings import EmbedderSettings
from cocosearchd.embedding.base import EmbedderFingerprint
from cocosearchd.embedding.factory import PROVIDERS, open_embedder
from cocosearchd.errors import BadSettings

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {
    "torch",
    "onnxruntime",
    "tokenizers",
    "sentence_transformers",
    "ollama",
    "httpx",
    "openai",
    "litellm",
}


def test_importing_and_using_the_built_in_loads_no_other_client() -> None:
    program = """
import asyncio, sys
import cocosearchd.embedding.embedder_registry
from cocosearchd.embedding.factory import open_embedder
from cocosearchd.config.settings import EmbedderSettings
async def main():
    embedder = await open_embedder(EmbedderSettings())
    assert (await embedder.embed_query("open a file")).any()
asyncio.run(main())
print(" ".join(sys.modules))
"""
    path = f"{ROOT / 'daemon'}:{ROOT / 'ipc'}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not HEAVY & set(done.stdout.split())


def test_every_provider_of_the_settings_can_be_opened() -> None:
    assert set(PROVIDERS) == set(EmbedderSettings.__annotations__["provider"].__args__)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("provider", "package"), [("onnx", "onnxruntime"), ("sentence-transformers", "torch")]
)
async def test_a_missing_extra_says_how_to_install_it(
    provider: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # None in sys.modules is how Python itself marks a module as not importable.
    for name in ("onnxruntime", "sentence_transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    for entry in PROVIDERS.values():
        module = f"cocosearchd.embedding.providers.{entry.module}"
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(BadSettings) as caught:
        await open_embedder(EmbedderSettings(provider=provider))  # type: ignore[arg-type]
    assert caught.value.hint == f"pip install 'cocosearchd[{provider}]'"


def test_each_field_of_the_identity_changes_its_digest() -> None:
    base = EmbedderFingerprint("ollama", "m", "r", 8)
    digests = {base.digest()}
    for field in fields(base):
        value = getattr(base, field.name)
        changed: Any = (
            not value
            if isinstance(value, bool)
            else value + 1
            if isinstance(value, int)
            else value + "x"
        )
        digests.add(replace(base, **{field.name: changed}).digest())
    assert len(digests) == len(fields(base)) + 1
