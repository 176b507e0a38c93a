"""`status --open`: the status page in the user's browser.

The page's address carries the token, and what a program is started with can be read by everybody on
the machine: the browser is given a file that only the user can read, and that sends it on.
"""

import html
import os
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cocosearch_ipc import address
from cocosearch_ipc.cli import exits
from cocosearch_ipc.cli.setup import listener
from cocosearch_ipc.render import output
from cocosearch_ipc.trust.credentials import TokenFile

_SENT_ON = """\
<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={url}">
<title>cocosearchd</title>
<a href="{url}">Go on to the status page of cocosearchd</a>
"""


def open_page(status: dict[str, Any], env: Mapping[str, str], *, as_json: bool) -> int:
    """Open the page, or print its address where there is no browser. `status` is the daemon's
    reply.

    Raises `client.CallFailed` when another program than the daemon would be sent the token.
    """
    page = status["mcp"].get("page_url")
    if not listener.require_token_address(env, status) or page is None:
        output.error("the daemon listens on no port", "set server.enabled to true", as_json=as_json)
        return exits.FAILED
    url = f"{page}#token={TokenFile(Path(address.token_file(env))).ensure()}"
    if as_json:
        output.document({"url": url})
    elif webbrowser.open(_sender(url, env).as_uri()):
        output.line(f"{page} is opened in your browser")
    else:
        output.line(url)
        output.note(
            "no browser could be started; this address holds the token: whoever has it can search"
        )
    return exits.OK


def _sender(url: str, env: Mapping[str, str]) -> Path:
    """A file of the user's own that sends a browser on to `url`."""
    path = Path(address.runtime_dir(env)) / "page.html"
    path.unlink(missing_ok=True)
    descriptor = os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(_SENT_ON.format(url=html.escape(url)))
    return path
