"""Warnings and errors of PostgreSQL reach the daemon's log once each, also after its file was cut."""

import logging
from pathlib import Path

import pytest

from cocosearchd.store.server import server_log
from cocosearchd.store.server.server_log import ServerLog

OLD = "2026-11-21 14:00:00.000 UTC [7] ERROR:  of yesterday\n"
NEW = (
    "2026-11-21 14:26:00.200 UTC [123] LOG:  checkpoint complete\n"
    "2026-11-21 14:26:00.201 UTC [124] WARNING:  could not open statistics file\n"
    "2026-11-21 14:26:00.202 UTC [124] HINT:  nothing of interest\n"
    "2026-11-21 14:26:00.203 UTC [125] PANIC:  could not write to file: No space left on device\n"
)


def test_complaints_are_told_once(tmp_path: Path) -> None:
    file = tmp_path / "postgres.log"
    assert ServerLog(file).unread() == []
    file.write_text(OLD)
    log = ServerLog(file)
    assert log.unread() == []
    with file.open("a") as more:
        more.write(NEW + "2026-11-21 14:26:01.000 UTC [126] ERR")
    assert log.unread() == [
        (logging.WARNING, "WARNING: could not open statistics file"),
        (logging.ERROR, "PANIC: could not write to file: No space left on device"),
    ]
    assert log.unread() == []
    with file.open("a") as more:
        more.write("OR:  half a line is not lost\n")
    assert log.unread() == [(logging.WARNING, "ERROR: half a line is not lost")]
    file.write_text(OLD)  # cut
    assert log.unread() == [(logging.WARNING, "ERROR: of yesterday")]
    file.unlink()
    assert log.unread() == []


def test_a_long_log_is_cut_while_the_server_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By weeks of complaints. None of them is told again for that, and the one after it is."""
    monkeypatch.setattr(server_log, "LOG_LIMIT", 2000)
    monkeypatch.setattr(server_log, "LOG_TAIL", 500)
    file = tmp_path / "postgres.log"
    log = ServerLog(file)
    log.trim()
    with file.open("ab") as server:  # the server's handle, which lasts as long as it does
        for _ in range(2):
            server.write(NEW.encode() * 10)
            server.flush()
            assert len(log.unread()) == 20
            log.trim()
            assert file.stat().st_size == 500
            assert log.unread() == []
        server.write(OLD.encode())
        server.flush()
    log.trim()
    assert log.unread() == [(logging.WARNING, "ERROR: of yesterday")]
