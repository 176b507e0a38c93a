"""A headless Chromium, controlled by its protocol (CDP), for the test of the page."""

import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

PROGRAM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root, where Chromium has no other
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-port=0",
)


class Page:
    """One tab. `messages` are what it logged, `requests` the URLs it asked for."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self.messages = list[str]()
        self.requests = list[str]()
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        """One command; events that come meanwhile are noted."""
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=120))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self._note(message)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        result = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def until(self, script: str) -> Any:
        """The value of an expression as soon as it is true."""
        end = time.monotonic() + 60
        while not (value := self.run(script)):
            assert time.monotonic() < end, (
                script,
                self.messages,
                self.run("document.body.innerText"),
            )
            time.sleep(0.05)
        return value

    def press(self, key: str, text: str = "") -> None:
        """A key, down and up."""
        more = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def type(self, text: str) -> None:
        """Words into what has the focus."""
        self.call("Input.insertText", text=text)

    def look(self, scheme: str, width: int = 1100, height: int = 900) -> None:
        """Prefer light or dark, in a window of this size."""
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event.get("method") == "Log.entryAdded":
            self.messages.append(params["entry"]["text"])
        elif event.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.messages.append(json.dumps(params)[:500])


class Browser:
    """A running browser, by the address of its protocol. To start one takes 1.5 s of CPU."""

    def __init__(self, port: str, path: str) -> None:
        self._port = port
        self._path = path

    @contextmanager
    def page(self) -> Iterator[Page]:
        """An empty tab that shares no storage, cache or cookie with another; gone at the end."""
        with self._connect(self._path) as socket:
            context = _ask(socket, "Target.createBrowserContext")["browserContextId"]
            tab = _ask(socket, "Target.createTarget", url="about:blank", browserContextId=context)[
                "targetId"
            ]
            try:
                with self._connect(f"/devtools/page/{tab}") as tab_socket:
                    yield Page(tab_socket)
            finally:
                _ask(socket, "Target.disposeBrowserContext", browserContextId=context)

    def _connect(self, path: str) -> ClientConnection:
        return connect(f"ws://127.0.0.1:{self._port}{path}", max_size=64 << 20)


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A new browser; gone at the end."""
    command = [str(PROGRAM), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield Browser(*_address(profile / "DevToolsActivePort"))
    finally:
        process.terminate()
        process.wait(20)


def _address(file: Path) -> tuple[str, str]:
    end = time.monotonic() + 60
    while not (file.exists() and len(lines := file.read_text().splitlines()) == 2):
        assert time.monotonic() < end, "Chromium did not start"
        time.sleep(0.05)
    return lines[0], lines[1]


def _ask(socket: ClientConnection, method: str, **params: Any) -> Any:
    """The result of one command to the browser itself."""
    socket.send(json.dumps({"id": 0, "method": method, "params": params}))
    while (message := json.loads(socket.recv(timeout=120))).get("id") != 0:
        pass
    assert "error" not in message, message
    return message["result"]
