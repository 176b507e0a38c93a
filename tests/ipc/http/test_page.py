"""The status page: its files, the methods it may call, and its behaviour in a headless Chromium
(`make page`).
"""

import http.client
import itertools
import json
import re
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cocosearch_ipc import error_codes
from cocosearch_ipc import graph_protocol as g
from cocosearch_ipc import protocol as p
from cocosearch_ipc import structure_protocol as s
from cocosearch_ipc.page import site
from tests.ipc.clients.browser import PROGRAM, Browser, Page, browser
from tests.ipc.conftest import Served
from tests.ipc.engine import RESULT
from tests.ipc.mcp.test_mcp import CTL

HOME = Path(site.__file__).parent
needs_chromium = pytest.mark.skipif(
    PROGRAM is None, reason="no Chromium: `make page`, or apt-get install chromium"
)


def _get(served: Served, path: str, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", served.bound.port, timeout=50)
    connection.request("GET", path, headers=headers)
    reply = connection.getresponse()
    reply.body = reply.read()  # type: ignore[attr-defined]
    connection.close()
    return reply


def _ask(served: Served, method: str, params: object, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", served.bound.port, timeout=50)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    all_headers = {
        "Content-Type": "application/json",
        "Authorization": f"Bearer {served.token}",
    } | headers
    connection.request("POST", site.RPC, body, all_headers)
    reply = connection.getresponse()
    answer = reply.status, json.loads(reply.read())
    connection.close()
    return answer


def test_the_files_are_open_and_carry_a_strict_policy(served: Served) -> None:
    for path in site.PATHS:
        reply = _get(served, path)
        assert reply.status == 200, path
        policy = reply.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "http" not in policy
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert _get(served, "/status/../site.py").status in (401, 404)
    assert _get(served, "/status/site.py").status == 401
    assert _get(served, "/status/site.py", Authorization=f"Bearer {served.token}").status == 404
    assert _get(served, site.PREFIX, Host="evil.example").status == 421


def test_every_file_is_sent_and_none_needs_another_origin() -> None:
    files = {path.name for path in HOME.iterdir() if path.is_file() and path.suffix != ".py"}
    assert files == {
        site.PATHS and Path(path).name for path in site.PATHS if path != site.PREFIX
    } | {"index.html"}
    for name in files:
        text = (HOME / name).read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//[a-z0-9.-]+\.[a-z]{2,}/", text), name
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(| style=| on[a-z]+=",
            text,
        ), name


def test_the_page_can_read_and_change_nothing(served: Served) -> None:
    assert _ask(served, "status", {})[1]["result"]["version"] == "0.1.0"
    for method in (
        "clear_index",
        "shutdown",
        "index_codebase",
        "reindex",
        "get_file",
        "watch",
        "impact",
    ):
        status, reply = _ask(served, method, {"index": "demo"} if method != "shutdown" else {})
        assert (status, reply["error"]["code"]) == (200, error_codes.REFUSED), method
    assert served.engine.indexes == {"demo": "/srv/demo"}
    assert _ask(served, "status", {}, Authorization="Bearer wrong")[0] == 401
    assert _ask(served, "status", {}, Origin="https://evil.example")[0] == 403
    assert _ask(served, "status", {}, Origin=served.url)[0] == 200


@pytest.mark.parametrize("there_is_one", [True, False])
def test_the_command_line_opens_it_without_showing_the_token_to_others(
    served: Served, there_is_one: bool
) -> None:
    browser = served.state / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {served.state}/asked\n')
    browser.chmod(0o755)
    env = served.environment | (
        {"BROWSER": str(browser)} if there_is_one else {"PATH": "/nowhere", "BROWSER": "none"}
    )
    done = subprocess.run(
        [*CTL, "status", "--open"], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    url = f"{served.url}/status#token={served.token}"
    if not there_is_one:
        assert done.stdout == f"{url}\n"
        return
    assert served.token not in done.stdout
    (file,) = [
        Path(word.removeprefix("file://")) for word in (served.state / "asked").read_text().split()
    ]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert f'content="0;url={url}"' in file.read_text()
    listing = subprocess.run(
        [*CTL, "status", "--open", "--json"], env=env, capture_output=True, text=True, timeout=120
    )
    assert json.loads(listing.stdout) == {"url": url}


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium") / "profile") as running:
        yield running


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    with chromium.page() as opened:
        yield opened


@needs_chromium
def test_in_a_browser(served: Served, page: Page) -> None:
    served.engine.indexes["<img src=x onerror=alert(1)>"] = "/srv/<script>alert(2)</script>"
    page.call("Page.navigate", url=f"{served.url}/status#token={served.token}")
    page.until("document.querySelectorAll('#indexes svg').length === 4")
    text = page.run("document.body.innerText")
    assert "demo" in text
    assert "median 4.00" in text
    assert "/srv/<script>alert(2)</script>" in text  # as a text
    assert page.run("document.title") == "cocosearchd"
    assert page.run("document.getElementById('health').textContent") == "fresh"
    # the token is taken out of the address
    assert page.run("location.href") == f"{served.url}/status"

    assert page.run("document.activeElement.id") == "query"
    page.type("retry times")
    page.until("document.querySelectorAll('#results > li').length === 1")
    assert "src/retry.py:3" in page.run("document.getElementById('results').innerText")
    assert page.run(
        "[...document.querySelectorAll('#results mark')].map((m) => m.textContent)"
    ) == [
        "retry",
        "times",
        "times",
    ]
    # context comes before the hit
    assert page.run("document.querySelector('#results .line').textContent") == "2"
    page.press("ArrowDown")
    assert page.run("document.activeElement.tagName") == "SUMMARY"
    page.press("/", "/")
    assert page.run("document.activeElement.id") == "query"
    page.press("Escape")
    page.until("document.getElementById('answers').hidden")
    requests = [
        request for request in served.engine.requests if isinstance(request, p.SearchRequest)
    ]
    assert requests[-1] == p.SearchRequest("retry times", all_indexes=True, limit=10)

    page.call("Page.reload")
    # the token is kept for the tab
    page.until("document.querySelectorAll('#indexes svg').length === 4")
    assert {request.split("/status")[0] for request in page.requests} == {served.url}
    assert not [request for request in page.requests if served.token in request.partition("#")[0]]
    assert page.messages == []  # no error, no breach of the policy


@needs_chromium
def test_an_answer_shows_its_places_its_relevance_and_what_is_alike(
    served: Served, page: Page
) -> None:
    send_method = p.Place(
        9, 12, 200, 300, "method", "Client.send", "def send()", 0.5, 10, "retry()", (20,)
    )
    lines = "".join(f"    step_{number}()\n" for number in range(60))
    served.engine.results = (
        replace(
            RESULT,
            content=lines,
            start_line=40,
            end_line=99,
            line=90,
            context_before="class Client:\n…\n    def retry(self):",
            also=(send_method,),
            similar=5,
            similar_paths=("v1/retry.py", "v2/retry.py", "v3/retry.py", "v4/retry.py", "<b>.py"),
            similar_lines=(70,),
        ),
    )
    page.call("Page.navigate", url=f"{served.url}/status#token={served.token}")
    page.until("document.querySelectorAll('#indexes svg').length === 2")
    page.type("retry times")
    page.until("document.querySelectorAll('#results > li').length === 1")
    numbers = page.run(
        "[...document.querySelectorAll('#results .line')].map((line) => line.textContent)"
    )
    # a line above the gap is far from the place
    assert numbers == ["", "", "39", *map(str, range(40, 100))]
    best = page.run("document.querySelector('#results .best').textContent")
    assert best == "90"
    assert page.run("document.querySelector('#results pre').scrollTop") > 0
    assert page.run("document.querySelector('#results meter').value") == pytest.approx(0.73)
    row = page.run("document.querySelector('#results .also li').innerText")
    assert row.split() == [":10", "Client.send", "retry()", "alike:", "20"]
    text = page.run("document.querySelector('#results .links').innerText")
    assert "alike in this file: 70" in text
    assert "5 alike: v1/retry.py, v2/retry.py, v3/retry.py, …" in text
    assert "<b>.py" in page.run("document.querySelector('#results .similar').title")
    assert page.messages == []


@needs_chromium
def test_the_code_graph_is_drawn_with_links(served: Served, page: Page) -> None:
    page.call("Page.navigate", url=f"{served.url}/status#token={served.token}")
    page.until("document.querySelectorAll('#indexes svg').length === 2")
    page.type("retry times")
    page.until("document.querySelectorAll('#results .links a').length === 1")
    page.run("document.querySelector('#results .links a').click()")
    page.until("document.querySelectorAll('#graph svg a').length === 2")
    assert "Callers and callees of method Client.retry" in page.run(
        "document.getElementById('graph-title').textContent"
    )
    assert page.run("location.hash") == "#symbol=src%2Fretry.py%3A3&index=demo"
    calls = [request for request in served.engine.requests if isinstance(request, g.CallsRequest)]
    assert {(request.target, request.index, request.depth) for request in calls} == {
        ("src/retry.py:3", "demo", 1)
    }
    # a node leads to its own neighbours
    page.run("document.querySelector('#graph svg a').focus()")
    page.press("Enter")
    page.until("location.hash === '#symbol=src%2Fapp.py%3A6&index=demo'")
    page.run("document.querySelector('#indexes a').click()")
    page.until("document.getElementById('graph-title').textContent === 'Imports of src/app.py'")
    page.until("document.querySelectorAll('#graph svg a').length === 1")
    page.run("document.querySelector('#graph .close a').click()")
    page.until("document.getElementById('graph').hidden")
    assert page.messages == []


@needs_chromium
def test_modules_are_drawn_in_columns_and_circles_end(served: Served, page: Page) -> None:
    """A hostile tree may have any graph: names as texts, circles, edges to unknown modules."""
    names = ["<img src=x onerror=alert(1)>", *(f"m{number}" for number in range(40))]
    served.engine.dependencies_reply = s.DependenciesReply(
        "demo",
        True,
        None,
        None,
        kind="directory",
        modules=tuple(s.DependencyNode(name) for name in names),
        edges=(
            *(s.DependencyEdge(a, b) for a, b in itertools.pairwise(names)),
            s.DependencyEdge(names[-1], names[0]),
            s.DependencyEdge(names[3], names[3]),
            s.DependencyEdge(names[3], "unknown"),
        ),
        cycles=(tuple(names),),
    )
    page.call("Page.navigate", url=f"{served.url}/status#token={served.token}")
    page.until("document.querySelectorAll('#indexes a').length === 1")
    page.run("document.querySelector('#indexes a').click()")
    page.until("document.querySelectorAll('#graph svg a').length === 24")
    assert "17 more modules" in page.run("document.getElementById('graph-facts').textContent")
    assert page.run("document.querySelectorAll('#graph img').length") == 0
    assert page.messages == []


@needs_chromium
def test_a_drawing_and_the_page_say_what_they_lack(served: Served, page: Page) -> None:
    served.engine.paused = "indexing is paused"
    served.engine.dependencies_reply = s.DependenciesReply(
        "demo",
        False,
        "changes are pending",
        None,
        kind="directory",
        modules=(s.DependencyNode("src"),),
        complete=False,
        notes=("not all files were read",),
    )
    page.call("Page.navigate", url=f"{served.url}/status#token={served.token}")
    page.until("document.querySelectorAll('#indexes a').length === 1")
    assert page.run("document.getElementById('trouble').textContent").splitlines() == [
        "indexing is paused",
        "port 7 is taken",
    ]
    page.run("document.querySelector('#indexes a').click()")
    page.until("document.getElementById('graph-title').textContent === 'Modules of demo'")
    facts = page.run("document.getElementById('graph-facts').textContent")
    assert "not all files were read · not fresh: changes are pending" in facts
    assert "circle" not in facts
    assert page.messages == []


@needs_chromium
def test_light_dark_and_narrow(served: Served, page: Page) -> None:
    page.call("Page.navigate", url=f"{served.url}/status#token={served.token}")
    page.until("document.querySelectorAll('#indexes svg').length === 2")
    screenshots = set()
    for scheme in ("light", "dark"):
        page.look(scheme)
        screenshots.add(page.run("getComputedStyle(document.body).backgroundColor"))
        worst = page.run(_CONTRAST)
        assert worst["ratio"] >= 4.5, (scheme, worst)  # WCAG 2.2, 1.4.3
    assert len(screenshots) == 2
    page.look("light", width=360, height=700)
    assert page.run("document.documentElement.scrollWidth") <= 360


@needs_chromium
def test_without_the_token_it_says_what_to_do(served: Served, page: Page) -> None:
    page.call("Page.navigate", url=f"{served.url}/status")
    page.until("document.getElementById('trouble')?.hidden === false")
    assert "cocosearchctl status --open" in page.run(
        "document.getElementById('trouble').textContent"
    )
    page.run(f"location.hash = 'token={served.token}'")
    page.until("document.querySelectorAll('#indexes svg').length === 2")
    assert page.run("document.getElementById('trouble').hidden")


# The lowest contrast of any text against what is behind it.
_CONTRAST = """
(() => {
  const light = (colour) => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((n) => n / 255);
    const [r, g, b] = parts.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  let worst = { ratio: 21, text: "" };
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.getClientRects().length || element.closest(".hidden, .skip")) continue;
    const style = getComputedStyle(element);
    const colours = [element instanceof SVGElement ? style.fill : style.color, behind(element)].map(light);
    const ratio = (Math.max(...colours) + 0.05) / (Math.min(...colours) + 0.05);
    if (ratio < worst.ratio) worst = { ratio, text: element.textContent.slice(0, 40), tag: element.tagName };
  }
  return worst;
})()
"""
