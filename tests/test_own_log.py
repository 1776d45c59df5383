"""Where the hub's own log records go, and what they carry."""

import logging
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import structlog

from eventhub.handling.logs import get_logger

log = get_logger("eventhub.bus")


def test_without_structlog_they_go_to_logging_with_their_fields_and_their_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log.warning("attempt failed", event_id=7, error="100 % wrong")
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("eventhub.bus", logging.WARNING)
    assert record.getMessage() == "event='attempt failed' event_id=7 error='100 % wrong'"
    assert record.filename == Path(__file__).name


def test_an_error_is_told_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("why")
    log.error("broke off", exc_info=error)
    try:
        raise error
    except ValueError:
        log.exception("crashed")
    assert [record.exc_info and record.exc_info[1] for record in caplog.records] == [error, error]
    assert [record.getMessage() for record in caplog.records] == ["event='broke off'", "event='crashed'"]


def test_a_level_that_nobody_wants_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    log.warning("attempt failed")
    assert not caplog.records


def test_where_structlog_is_configured_they_go_there(caplog: pytest.LogCaptureFixture) -> None:
    with structlog.testing.capture_logs() as told:
        log.warning("attempt failed", event_id=7)
    assert told == [{"event": "attempt failed", "event_id": 7, "log_level": "warning"}]
    assert not caplog.records


def test_it_may_be_configured_after_the_import_and_after_the_first_record() -> None:
    script = """
        import sys
        from eventhub.handling.logs import get_logger
        log = get_logger("eventhub.bus")
        log.warning("first", number=1)
        import structlog
        log.warning("second")
        structlog.configure(processors=[structlog.processors.JSONRenderer()])
        log.warning("third", number=3)
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)], check=True, capture_output=True, text=True
    )
    assert done.stderr.splitlines() == ["event='first' number=1", "event='second'"]
    assert done.stdout.splitlines() == ['{"number": 3, "event": "third"}']
