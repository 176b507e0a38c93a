"""The first quarter of an hour with cocosearchd, as a script: from an installed wheel to `down`.

    python -m tests.flows.newcomer          builds the wheel, installs it with all it needs into a new environment,
                                            and has the session; `make newcomer` is this

The tests have the same session with the dependencies that are there already.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport

PIN = re.compile(r"^\w.*?==[^\\\n]+", re.MULTILINE)
ROOT = Path(__file__).resolve().parents[2]
PROJECT = {
    "src/retry.py": "def should_retry(status: int, attempt: int) -> bool:\n"
    '    """Only server errors, and at most three times."""\n    return status >= 500 and attempt < 3\n',
    "src/server.go": "package main\n\nfunc ListenAndServe(addr string) error {\n\treturn serve(addr)\n}\n",
    "README.md": "# Sample\n\nA project with a retry policy and a server.\n",
}


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A person with the programs in `bin` and a home of their own."""

    bin: Path
    home: Path

    @property
    def environment(self) -> Mapping[str, str]:
        inherited = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("COCOSEARCH_", "XDG_", "PYTHON", "PG"))
        }
        # Directories of its own, and not below /root: as root, PostgreSQL gives up root's rights.
        variables = {
            "HOME": str(self.home),
            "COCOSEARCH_STATE_DIR": str(self.home / "state"),
            "COCOSEARCH_SERVER_PORT": "0",
        }
        return (
            inherited | variables | {"PATH": f"{self.bin}{os.pathsep}{inherited.get('PATH', '')}"}
        )

    def ctl(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [self.bin / "cocosearchctl", *arguments],
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == code, (
            f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        return done.stdout

    def session(self) -> None:
        """Everything a newcomer does. Raises AssertionError where something is not as the README
        says.
        """
        project = self.home / "project"
        for name, text in PROJECT.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_text(text, "utf-8")
        assert "project: " in self.ctl("up", str(project))
        assert self.ctl("query", "should_retry").startswith(
            " 1. src/retry.py:1  function should_retry"
        )
        with (project / "src" / "retry.py").open("a", encoding="utf-8") as file:
            file.write("\n\ndef give_up_after(attempts: int) -> bool:\n    return attempts > 3\n")
        answer = self.ctl("query", "give_up_after")
        assert "give_up_after(attempts" in answer, answer
        assert answer.rstrip().endswith(", fresh"), answer
        asyncio.run(self._assistants())
        assert "fail " not in self.ctl("doctor")
        pid = json.loads(self.ctl("status", "--json"))["pid"]
        assert self.ctl("down") == f"cocosearchd (pid {pid}) has stopped\n"
        self.ctl("query", "should_retry", code=69)
        leftovers = [
            p.info
            for p in psutil.process_iter(["cmdline"])
            if str(self.home) in " ".join(p.info["cmdline"] or ())
        ]
        assert leftovers == [], "a process is left"

    async def _assistants(self) -> None:
        """The same question over each of MCP's transports."""
        mcp = json.loads(self.ctl("status", "--json"))["mcp"]
        headers = {"Authorization": f"Bearer {self.ctl('token').strip()}"}
        transports: tuple[Any, ...] = (
            StdioTransport(
                str(self.bin / "cocosearchctl"),
                ["mcp"],
                env=dict(self.environment),
                cwd=str(self.home),
            ),
            StreamableHttpTransport(mcp["url"], headers=headers),
            SSETransport(mcp["sse_url"], headers=headers),
        )
        for transport in transports:
            async with Client(transport) as client:
                answer = await client.call_tool(
                    "search_code", {"query": "give_up_after", "index_name": "project"}
                )
                (block,) = answer.content
                assert block.text.split("\n\n")[1].startswith("src/retry.py:")
                assert "\n\nFresh as of " in block.text

    def leave(self) -> None:
        """End what a failed session left, and remove the home."""
        subprocess.run(
            [self.bin / "cocosearchctl", "down"],
            env=self.environment,
            capture_output=True,
            timeout=60,
        )
        shutil.rmtree(self.home, ignore_errors=True)


def newcomer(bin: Path) -> Newcomer:  # noqa: A002 - what the directory is called
    """Someone with a new home, which PostgreSQL may enter when root runs it."""
    home = Path(tempfile.mkdtemp(prefix="cocosearch-test-"))
    home.chmod(0o711)
    return Newcomer(bin, home)


def build_wheel(out: Path) -> Path:
    """The wheel of this checkout."""
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(out),
        str(ROOT),
    ]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = out.glob("*.whl")
    return built


def main() -> None:
    """Everything from nothing, with the time that each part took."""
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    with tempfile.TemporaryDirectory(prefix="cocosearch-newcomer-") as directory:
        wheel = build_wheel(Path(directory) / "dist")
        say(f"built {wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB")
        venv.create(Path(directory) / "venv", with_pip=True)
        programs = Path(directory) / "venv" / "bin"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        pip = [
            str(programs / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        # The versions alone: with hashes, pip would ask for one of the wheel that was built just
        # now as well.
        pinned = PIN.findall((ROOT / "requirements.lock").read_text("utf-8"))
        (Path(directory) / "versions").write_text("\n".join(pinned))
        locked = ["--constraint", str(Path(directory) / "versions")]
        subprocess.run([*pip, *locked, str(wheel)], check=True, env=environment)
        say("installed it into a new environment")
        person = newcomer(programs)
        try:
            person.session()
        finally:
            person.leave()
        say("had the session: up, query, edit, query, MCP over stdio, HTTP and SSE, doctor, down")


if __name__ == "__main__":
    main()
