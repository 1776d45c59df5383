"""Questions to whoever sits there, and lengths of time as people write them."""

import getpass
import io
from datetime import UTC, datetime, timedelta

import pytest

from eventhub.cli.asking import confirmed, operator
from eventhub.cli.times import length, since
from eventhub.errors import SettingsError

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("answer", "meant"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_only_yes_is_yes(monkeypatch: pytest.MonkeyPatch, answer: str, *, meant: bool):
    shown = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    monkeypatch.setattr("sys.stderr", shown)
    assert confirmed("Remove \x1b[31mx?", "remove") == meant
    assert shown.getvalue() == "Remove \\x1b[31mx? [y/N] "


def test_nobody_to_ask_is_a_usage_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(SettingsError, match="--yes"):
        confirmed("Sure?", "purge")


def test_who_does_it_is_named(monkeypatch: pytest.MonkeyPatch):
    assert operator("ada") == "ada"

    def nameless() -> str:
        raise OSError

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert operator(None) == "eventhub"


def test_times_are_lengths_or_moments():
    assert length("overlap", "1.5h") == timedelta(minutes=90)
    assert since("since", "2h", NOW) == NOW - timedelta(hours=2)
    assert since("since", "2026-05-04T14:00+02:00", NOW) == NOW
    assert since("since", "2026-05-04", NOW) == NOW.replace(hour=0)


@pytest.mark.parametrize("text", ["", "2", "yesterday", "-2h", "999999999w", "0001-01-01T00:00+10:00", "9999999d"])
def test_other_words_for_a_time_are_usage_errors(text: str):
    with pytest.raises(SettingsError, match="--since is"):
        since("since", text, NOW)
