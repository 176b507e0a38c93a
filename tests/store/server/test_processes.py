"""The list of processes: Linux's /proc, and `ps` where there is none."""

import os
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cocosearchd.store.server import processes as module
from cocosearchd.store.server.processes import (
    child_pids,
    list_processes,
    open_process_handle,
    read_process,
)


def test_this_process_is_listed() -> None:
    (me,) = [running for running in list_processes() if running.pid == os.getpid()]
    assert me.parent == os.getppid()
    assert "pytest" in me.command


@pytest.mark.skipif(not shutil.which("ps"), reason="no ps here")
def test_ps_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS has no /proc; arguments with spaces and odd bytes must not break a line."""
    argument = "two  words \x01 -D /some where/pg/data -c config_file=x"
    child = subprocess.Popen([sys.executable, "-c", "input()", argument], stdin=subprocess.PIPE)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(module, "PROC", Path("/nonexistent"))
            (listed,) = [running for running in list_processes() if running.pid == child.pid]
            searched = child_pids(os.getpid())
        assert listed.parent == os.getpid()
        assert child.pid in searched
        assert child.pid in child_pids(os.getpid())
        assert " -D /some where/pg/data -c config_file=" in listed.command
    finally:
        child.communicate(b"\n")


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="no such descriptors here")
def test_the_end_of_a_process_is_an_event() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    descriptor = open_process_handle(child.pid)
    assert descriptor is not None
    try:
        assert select.select([descriptor], [], [], 0)[0] == []
        child.kill()
        assert select.select([descriptor], [], [], 10)[0] == [descriptor]
    finally:
        os.close(descriptor)
        child.communicate()
    assert open_process_handle(child.pid) is None


def test_a_process_that_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert read_process(child.pid) is None
