"""`status --open`: opens the status page in the user's browser.

The URL of the page carries the token, and every user can read the command line of a process. So the
browser opens a file that only the user can read and that redirects to the page.
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
<a href="{url}">Continue to the status page of cocosearchd</a>
"""


def open_page(status: dict[str, Any], env: Mapping[str, str], *, as_json: bool) -> int:
    """Open the page, or print its URL if there is no browser. `status` is the daemon's reply.

    Raises `client.CallFailed` if the token would go to another program than the daemon.
    """
    page = status["mcp"].get("page_url")
    if not listener.require_token_address(env, status) or page is None:
        output.error(
            "the daemon has no TCP listener", "set server.enabled to true", as_json=as_json
        )
        return exits.FAILED
    url = f"{page}#token={TokenFile(Path(address.token_file(env))).ensure()}"
    if as_json:
        output.document({"url": url})
    elif webbrowser.open(_sender(url, env).as_uri()):
        output.line(f"opened {page} in your browser")
    else:
        output.line(url)
        output.note("could not start a browser; this URL contains the token, so keep it secret")
    return exits.OK


def _sender(url: str, env: Mapping[str, str]) -> Path:
    """Write a private file that redirects a browser to `url`."""
    path = Path(address.runtime_dir(env)) / "page.html"
    path.unlink(missing_ok=True)
    descriptor = os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(_SENT_ON.format(url=html.escape(url)))
    return path
