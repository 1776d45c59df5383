"""Log records go to standard error, for people or as JSON, whoever writes them."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

SCRIPT = """
    import logging, structlog
    from eventhub.observe.logging import configure

    configure("{level}", "{form}")
    structlog.get_logger("eventhub.bus").warning("attempt failed", event_id=7, error="503")
    structlog.get_logger("eventhub.bus").debug("too quiet")
    logging.getLogger("other").error("disk %s", "full")
    try:
        raise ValueError("no")
    except ValueError:
        structlog.get_logger().exception("crashed")
"""


def lines(level: str, form: str) -> list[str]:
    script = textwrap.dedent(SCRIPT.format(level=level, form=form))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_json_is_one_object_a_line():
    failed, foreign, crashed = map(json.loads, lines("info", "json"))
    assert (failed["message"], failed["event_id"], failed["level"]) == ("attempt failed", 7, "warning")
    assert failed["timestamp"].endswith("Z")
    assert (foreign["message"], foreign["logger"]) == ("disk full", "other")
    assert "ValueError: no" in crashed["exception"]


def test_people_get_lines_without_colour_when_piped():
    written = lines("info", "human")
    assert "attempt failed" in written[0]
    assert "event_id=7" in written[0]
    assert written[-1] == "ValueError: no"
    assert not any("\x1b" in line for line in written)


@pytest.mark.parametrize(
    ("env", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)], ids=str
)
def test_a_terminal_gets_colour_unless_it_wants_none(env: dict[str, str], *, coloured: bool):
    plain = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
    script = textwrap.dedent(SCRIPT.format(level="error", form="human")).partition("try:")[0]
    master, terminal = os.openpty()
    subprocess.run([sys.executable, "-c", script], stderr=terminal, env=plain | env, check=True)
    written = os.read(master, 65_536).decode()
    os.close(terminal)
    os.close(master)
    assert "disk full" in written
    assert ("\x1b" in written) == coloured


@pytest.mark.parametrize(("level", "count"), [("debug", 4), ("info", 3), ("error", 2), ("critical", 0)])
def test_the_level_holds_for_everyone(level: str, count: int):
    assert len(lines(level, "json")) == count
