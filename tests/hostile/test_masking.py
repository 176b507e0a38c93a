"""Masking of secrets in every part of an address, in settings, status, errors and logs."""

import contextlib
import http.server
import io
import json
import logging
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from hypothesis import given, settings
from hypothesis import strategies as st

from cocosearch_ipc.cli import exits
from cocosearch_ipc.cli.main import run
from cocosearchd.config.index_settings import IndexSettings, list_values
from cocosearchd.config.settings import (
    ADDRESSES,
    EmbedderSettings,
    LoadedSettings,
    Settings,
    ValueOrigin,
    merge_values,
    setting_keys,
)
from cocosearchd.config.settings import parse_value as value
from cocosearchd.embedding.factory import open_embedder
from cocosearchd.errors import BadSettings, CocoSearchError
from cocosearchd.runtime import logs, masking
from cocosearchd.store.connection.database import Database, without_password
from tests.daemon import Daemon, passing_daemon

SECRET = "s3cr3tK3y0fTheUs3r"
ENCODED = "s3cr3t%4b3y0fTheUs3r"  # the same behind percent signs
# A secret in each part of a URL (RFC 3986, section 3) and where habit puts keys.
URLS = (
    "http://user:{}@127.0.0.1:1/v1",
    "http://{}@127.0.0.1:1/v1",
    "http://{}:x@127.0.0.1:1/v1",
    "http://user:{}/x@127.0.0.1:1/v1",
    "http://127.0.0.1:1/{}/v1",
    "http://127.0.0.1:1/v1;key={}",
    "http://127.0.0.1:1/v1?key={}",
    "http://127.0.0.1:1/v1?api-version=1&code={}&x=1",
    "http://127.0.0.1:1/v1?{}",
    "http://127.0.0.1:1/v1?next=https://a:{}@b/c",
    "http://127.0.0.1:1/v1#{}",
    "user:{}@127.0.0.1:1",
)
DSNS = (
    "postgresql://me:{}@127.0.0.1:1/db",
    "postgres://me:{}@127.0.0.1:1/db?sslmode=disable",
    "postgresql://me@127.0.0.1:1/db?password={}",
    "postgresql://127.0.0.1:1/db?user=me&sslpassword={}",
    "postgresql://me:p/{}@127.0.0.1:1/db",
    "postgresql://me:{}@x@127.0.0.1:1/db",
    "host=127.0.0.1 port=1 user=me password={} dbname=db",
    "host=127.0.0.1 port=1 password = 'a {} b' dbname=db",
    "host=127.0.0.1 port=1 password='it\\'s {}'",
    "host=127.0.0.1 port=1 sslpassword={}",
    "host=127.0.0.1 port=1 options='-c app.key={}'",
    "host=127.0.0.1 password={} and what is no keyword",
    "host=127.0.0.1 passwrod={}",
)


def filled(address: str) -> Iterator[str]:
    yield address.format(SECRET)
    if "://" in address:
        yield address.format(ENCODED)


def hidden(text: str) -> bool:
    return SECRET not in text and ENCODED not in text


@pytest.mark.parametrize("address", [*URLS, *DSNS])
def test_an_address_is_shown_without_its_secrets_and_with_its_host(address: str) -> None:
    for filled_in in filled(address):
        assert hidden(masking.mask_address(filled_in))
        assert "127.0.0.1" in masking.mask_address(filled_in)
        assert hidden(masking.mask_urls(f"GET {filled_in}: refused")) or "://" not in filled_in
        spoken = f"<{SECRET}> {json.dumps(SECRET)}"
        assert hidden(masking.mask_secrets(spoken, masking.find_secrets(filled_in))), (
            masking.find_secrets(filled_in)
        )


@pytest.mark.parametrize(
    "plain",
    [
        "http://localhost:11434",
        "https://api.openai.com/v1",
        "https://a.openai.azure.com/openai/deployments/text-embedding-3-small?api-version=2024-02-01",
        "postgresql://me@db.example:5432/code?sslmode=require",
        "host=/run/postgresql dbname=code user=me",
        "http://[::1]:8080/a@b",
        "http://h/a@b",
        "",
    ],
)
def test_texts_that_are_no_secret_are_shown(plain: str) -> None:
    assert masking.mask_address(plain) == plain
    assert masking.mask_urls(f"see {plain}, it helps") == f"see {plain}, it helps"


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.sampled_from("abcXYZ019-._~%/?#@:;=&'\\\" "), max_size=30))
def test_no_text_stops_it(text: str) -> None:
    for shape in ("http://h/?k={}", "postgresql://u:{}@h/d", "password='{}'", "{}", "http://{}"):
        masking.mask_address(shape.format(text))
        masking.find_secrets(shape.format(text))


def test_masking_is_linear() -> None:
    """One megabyte of what expressions may stumble over."""
    for piece in ("a://", "@", "a=", "x:@/", "'\\", "a=b ", "1a" * 3 + "-"):
        text = piece * (200_000 // len(piece))
        masking.mask_address(text)
        masking.find_secrets(text[:20_000])


# ---- settings ----


@pytest.mark.parametrize("key", ADDRESSES)
def test_every_setting_of_an_address_is_masked_where_settings_are_shown(key: str) -> None:
    for address in DSNS if key.startswith("database") else URLS:
        for filled_in in filled(address):
            loaded = LoadedSettings(_with(key, filled_in), {})
            assert hidden(repr([row[:3] for row in list_values(IndexSettings(loaded))]))


def test_every_text_setting_that_holds_a_url_is_masked() -> None:
    for key in setting_keys():
        section, _, name = key.partition(".")
        if isinstance(getattr(getattr(Settings(), section), name), str | None):
            for url in URLS[:11]:
                rows = list_values(
                    IndexSettings(LoadedSettings(_with(key, url.format(SECRET)), {}))
                )
                assert hidden(repr(rows)), key


def _with(key: str, text: str) -> Settings:
    section, _, name = key.partition(".")
    settings = Settings()
    return replace(settings, **{section: replace(getattr(settings, section), **{name: text})})


def test_a_key_in_place_of_the_name_of_its_variable_is_not_quoted() -> None:
    with pytest.raises(BadSettings) as failed:
        merge_values(
            [
                value(
                    "embedder.api_key_variable",
                    f"sk-{SECRET}",
                    ValueOrigin("config file", "config.yaml:3"),
                )
            ]
        )
    assert hidden(failed.value.message + failed.value.hint)
    assert "config.yaml:3" in failed.value.message


# ---- errors ----


async def _refusal(provider: str, url: str, key: str = "") -> CocoSearchError:
    chosen = EmbedderSettings(provider=provider, url=url, timeout_s=2.0)  # type: ignore[arg-type]
    with pytest.raises(CocoSearchError) as failed:
        await open_embedder(chosen, key)
    return failed.value


@pytest.mark.parametrize("provider", ["openai", "ollama"])
@pytest.mark.parametrize("url", URLS)
async def test_errors_of_model_servers_show_no_secret(provider: str, url: str) -> None:
    for filled_in in filled(url):
        error = await _refusal(provider, filled_in)
        assert hidden(error.message + error.hint)
        assert hidden(_raised(error)), "nor do its causes, which the log writes"


def _raised(error: BaseException) -> str:
    """The messages of an error and of all that the log writes of its causes."""
    texts = [repr(error)]
    while error is not None and (
        error.__cause__ or (error.__context__ and not error.__suppress_context__)
    ):
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
        texts.append(repr(error))
    return "\n".join(texts)


@pytest.fixture
def echo() -> Iterator[str]:
    """A model server that answers every request with an error, and quotes the request."""

    class Quoting(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            text = f"no: {self.path} {self.headers}".encode()
            self.send_response(int(self.server.status))  # type: ignore[attr-defined]
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quoting)
    server.status = 500  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("provider", ["openai", "ollama"])
async def test_secrets_that_a_server_quotes_are_masked(provider: str, echo: str) -> None:
    for url in (
        f"http://u:{SECRET}@{echo}/v1",
        f"http://{echo}/v1?key={SECRET}",
        f"http://{echo}/{SECRET}/v1",
    ):
        error = await _refusal(provider, url, SECRET if provider == "openai" else "")
        assert hidden(error.message + error.hint + _raised(error))
        # base64 of user and password
        assert "Basic " not in error.message or "dTpz" not in error.message


@pytest.mark.parametrize("dsn", DSNS)
async def test_errors_of_databases_show_no_secret(dsn: str) -> None:
    for filled_in in filled(dsn):
        with pytest.raises(CocoSearchError) as failed:
            async with Database.open(filled_in, Settings().database):
                pass
        assert hidden(failed.value.message + failed.value.hint + _raised(failed.value))
        with contextlib.suppress(Exception):  # not every one can be parsed
            assert hidden(without_password(filled_in))


# ---- logs ----


@pytest.mark.parametrize("style", ["json", "console"])
def test_no_record_shows_a_secret_or_a_url_with_one(style: str) -> None:
    stream = io.StringIO()
    root = logging.getLogger()
    previous_handlers, level = root.handlers[:], root.level
    try:
        secrets = masking.find_secrets(f"http://u:{SECRET}@h/")
        logs.configure("debug", style, stream=stream, secrets=secrets)  # type: ignore[arg-type]
        log = logging.getLogger("some.library")
        log.warning("connecting to %s", f"https://x:another-{SECRET}@h/p?key=other")
        log.error("failed", extra={"url": f"http://h/?k={SECRET}", "nested": {"a": [SECRET]}})
        try:
            raise ValueError(f"cannot parse {SECRET!r}") from OSError(f"http://q:{SECRET}@h")
        except ValueError:
            log.exception("broken")
    finally:
        root.handlers[:] = previous_handlers
        root.setLevel(level)
    assert hidden(stream.getvalue())
    assert "other" not in stream.getvalue().replace("another", "")
    assert stream.getvalue().count("***") >= 5
    assert "cannot parse" in stream.getvalue()


# ---- the real programs ----


def test_nothing_of_a_daemon_shows_the_secrets_of_its_embedder(
    cluster: Path, tmp_path: Path, echo: str
) -> None:
    (tmp_path / "a.py").write_text("def here():\n    return 1\n")
    secrets = {
        "COCOSEARCH_EMBEDDER_PROVIDER": "openai",
        "COCOSEARCH_EMBEDDER_URL": f"http://u:{SECRET}@{echo}/{SECRET}/v1?key={SECRET}#{SECRET}",
        "COCOSEARCH_EMBEDDER_OLLAMA_URL": f"http://u:{SECRET}@{echo}/?key={SECRET}",
        "COCOSEARCH_EMBEDDER_API_KEY": SECRET,
        "COCOSEARCH_LOG_LEVEL": "debug",
    }
    with passing_daemon(cluster, **secrets) as daemon:
        daemon.start()
        output = "".join(_told(daemon, tmp_path))
        log = daemon.log
        assert daemon.stop() == 0
    assert hidden(output)
    assert hidden(log)
    assert "***" in output
    assert "127.0.0.1" in output
    assert "rpc_failed" not in log, "each method answers, or refuses with a reason"


def _told(daemon: Daemon, root: Path) -> Iterator[str]:
    """Return the output of every verb and method that shows settings, addresses or errors."""
    verbs = (
        ("status",), ("status", "--json"), ("config", "show"), ("config", "show", "--json"), ("config", "check"),
        ("doctor",), ("doctor", "--json"), ("models",), ("models", "--json"), ("up", str(root), "--no-wait"),
        ("list",), ("query", "here"), ("top", "--once"), ("logs",), ("version",),
    )  # fmt: skip
    for verb in verbs:
        done = daemon.ctl(*verb, check=False, limit_s=60)
        yield done.stdout + done.stderr
    for method in ("status", "models", "config", "list_indexes", "languages"):
        with contextlib.suppress(Exception):
            yield json.dumps(daemon.call(method))
    token = (daemon.home / "state" / "token").read_text().strip()
    url = daemon.call("status")["mcp"]["url"]
    for path in ("/metrics", "/status"):
        command = ["curl", "-s", "-H", f"Authorization: Bearer {token}", url.replace("/mcp", path)]
        yield subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False
        ).stdout
    yield from _of_tools(url, token)


def _of_tools(url: str, token: str) -> Iterator[str]:
    async def ask() -> list[str]:
        async with Client(
            StreamableHttpTransport(url, headers={"Authorization": f"Bearer {token}"})
        ) as client:
            names = [tool.name for tool in await client.list_tools()]
            arguments = {
                "query": "here",
                "filename": "a.py",
                "line": 1,
                "path": "/nowhere",
                "index_name": "none",
            }
            return [
                repr(await client.call_tool(name, arguments, raise_on_error=False))
                for name in names
            ]

    yield "".join(anyio.run(ask))


@pytest.mark.parametrize(
    "dsn",
    [DSNS[0], DSNS[7], *(pytest.param(dsn, marks=pytest.mark.slow) for dsn in (DSNS[2], DSNS[11]))],
)
def test_a_daemon_that_cannot_start_shows_no_password(dsn: str) -> None:
    with passing_daemon(COCOSEARCH_DATABASE_URL=dsn.format(SECRET), PGPASSWORD=SECRET) as daemon:
        for verb in (
            ("up", str(daemon.home)),
            ("config", "show"),
            ("config", "check"),
            ("doctor",),
        ):
            done = daemon.ctl(*verb, check=False, limit_s=60)
            assert hidden(done.stdout + done.stderr), verb
        assert hidden(
            "".join(
                path.read_text("utf-8", "replace")
                for path in (daemon.home / "state").glob("*.log*")
            )
        )


def test_a_service_holds_its_secrets_in_a_private_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "systemctl"  # a real one needs a machine that systemd booted
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    env = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "PATH": os.environ["PATH"]}
    env["COCOSEARCH_DATABASE_URL"] = DSNS[0].format(SECRET)
    assert run(["service", "install"], env) == exits.OK
    units = tmp_path / ".config" / "systemd" / "user"
    holding = [
        path for path in units.rglob("*") if path.is_file() and not hidden(path.read_text("utf-8"))
    ]
    assert [path.name for path in holding] == ["environment.env"]
    assert holding[0].stat().st_mode & 0o777 == 0o600
    assert f"EnvironmentFile={holding[0]}" in (
        units / "cocosearchd.service.d" / "environment.conf"
    ).read_text("utf-8")
