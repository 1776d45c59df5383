"""`eventhub keys`, on both engines, and the file that it keeps its secret in."""

import asyncio
import re
import stat
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from eventhub.keys import KeyRing, Principal
from eventhub.store import open_store
from tests.cli.support import Command

TEXT = re.compile(r"^eh_[A-Za-z0-9]{12}_[A-Za-z0-9]{32}$", re.MULTILINE)


@pytest.fixture
def hub(store_url: str) -> str:
    return store_url


def accepted(eventhub: Command, url: str, text: str) -> Principal | None:
    """What a server with the same settings says to a key."""

    async def ask() -> Principal | None:
        async with open_store(url) as store:
            ring = await KeyRing.open(store, secret_of(eventhub, url))
            try:
                return await ring.verify(text)
            finally:
                await ring.close()

    return asyncio.run(ask())


def secret_of(eventhub: Command, url: str) -> Path:
    """Where the command keeps the secret by default."""
    beside = Path(url.removeprefix("sqlite:///")).parent if url.startswith("sqlite:") else eventhub.directory
    return beside / "eventhub.secret"


def moment(text: str) -> datetime:
    assert text.endswith("Z")
    return datetime.fromisoformat(text)


def test_create_shows_the_key_once_and_it_is_good(eventhub: Command, hub: str):
    made = eventhub.json("keys", "create", "mailer", "--scopes", "publish,work:email", "--db", hub)
    assert (made["name"], made["scopes"], made["state"]) == ("mailer", ["publish", "work:email"], "live")
    assert TEXT.match(made["key"])
    assert made["key"].split("_")[1] == made["id"]
    assert made["expires_at"] is None
    principal = accepted(eventhub, hub, made["key"])
    assert principal is not None
    assert principal.scopes.texts == ("publish", "work:email")
    for output in (
        eventhub("keys", "list", "--db", hub).stdout,
        eventhub("keys", "list", "--db", hub, "--json").stdout,
    ):
        assert made["id"] in output
        assert made["key"].split("_")[2] not in output
        assert "digest" not in output


def test_create_for_people_says_that_it_is_shown_once(eventhub: Command, hub: str):
    done = eventhub("keys", "create", "the mailer", "--scopes", " publish , read ", "--expires", "90d", "--db", hub)
    assert done.returncode == 0, done.stderr
    (text,) = TEXT.findall(done.stdout)
    assert "shown this one time" in done.stdout
    assert "publish, read" in done.stdout
    assert accepted(eventhub, hub, text)
    narrow = eventhub("keys", "create", "n", "--scopes", "read", "--db", hub, env={"COLUMNS": "20"})
    assert len(TEXT.findall(narrow.stdout)) == 1


def test_create_makes_the_database_and_a_private_secret_beside_it(eventhub: Command):
    (eventhub.directory / "data").mkdir()
    made = eventhub.json("keys", "create", "n", "--scopes", "read", "--db", "data/app.db")
    secret = eventhub.directory / "data" / "eventhub.secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert accepted(eventhub, f"sqlite:///{eventhub.directory}/data/app.db", made["key"])


def test_list_tells_how_each_key_stands(eventhub: Command, hub: str):
    assert eventhub("migrate", "--db", hub).returncode == 0
    assert eventhub.json("keys", "list", "--db", hub) == {"keys": []}
    assert "No keys" in eventhub("keys", "list", "--db", hub).stdout
    create = ("keys", "create", "--db", hub, "--scopes", "read")
    expired, revoked = (eventhub.json(*create, name) for name in "ab")
    live = eventhub.json("keys", "rotate", expired["id"], "--overlap", "0s", "--db", hub)
    eventhub.json("keys", "revoke", revoked["id"], "--db", hub)
    accepted(eventhub, hub, live["key"])
    keys = {key["id"]: key for key in eventhub.json("keys", "list", "--db", hub)["keys"]}
    assert {key: facts["state"] for key, facts in keys.items()} == {
        live["id"]: "live",
        expired["id"]: "expired",
        revoked["id"]: "revoked",
    }
    assert moment(keys[live["id"]]["last_used_at"]) >= moment(keys[live["id"]]["created_at"])
    assert keys[expired["id"]]["last_used_at"] is None
    shown = eventhub("keys", "list", "--db", hub).stdout
    for state in ("live", "expired", "revoked"):
        assert shown.count(f" {state} ") == 1


def test_expiry_counts_from_now(eventhub: Command, hub: str):
    made = eventhub.json("keys", "create", "n", "--scopes", "read", "--expires", "12h", "--db", hub)
    life = moment(made["expires_at"]) - moment(made["created_at"])
    assert abs(life - timedelta(hours=12)) < timedelta(minutes=1)


def test_revoke_ends_a_key_and_says_so_twice(eventhub: Command, hub: str):
    made = eventhub.json("keys", "create", "mailer", "--scopes", "read", "--db", hub)
    done = eventhub("keys", "revoke", made["id"], "--db", hub)
    assert done.stdout.startswith(f"Revoked: {made['id']} (mailer).")
    first = eventhub.json("keys", "revoke", made["id"], "--db", hub)
    assert first["state"] == "revoked"
    assert eventhub.json("keys", "revoke", made["id"], "--db", hub) == first
    assert accepted(eventhub, hub, made["key"]) is None


def test_revoke_works_when_the_secret_is_lost(eventhub: Command, hub: str):
    made = eventhub.json("keys", "create", "n", "--scopes", "read", "--db", hub)
    secret_of(eventhub, hub).unlink()
    lost = eventhub("keys", "create", "n", "--scopes", "read", "--db", hub)
    assert (lost.returncode, lost.stdout) == (2, "")
    assert f"no secret file at {secret_of(eventhub, hub)}" in lost.stderr
    assert eventhub("keys", "revoke", made["id"], "--db", hub).returncode == 0
    assert eventhub("keys", "create", "n", "--scopes", "read", "--db", hub).returncode == 0


def test_rotate_makes_a_successor_and_lets_the_old_key_end(eventhub: Command, hub: str):
    old = eventhub.json("keys", "create", "mailer", "--scopes", "publish,read", "--db", hub)
    new = eventhub.json("keys", "rotate", old["id"], "--overlap", "1h", "--db", hub)
    assert (new["name"], new["scopes"], new["rotated_from"]) == ("mailer", ["publish", "read"], old["id"])
    assert accepted(eventhub, hub, old["key"])
    assert accepted(eventhub, hub, new["key"])
    keys = {key["id"]: key for key in eventhub.json("keys", "list", "--db", hub)["keys"]}
    overlap = moment(keys[old["id"]]["expires_at"]) - moment(new["created_at"])
    assert abs(overlap - timedelta(hours=1)) < timedelta(minutes=1)
    done = eventhub("keys", "rotate", new["id"], "--overlap", "0s", "--db", hub)
    assert (done.returncode, len(TEXT.findall(done.stdout))) == (0, 1)
    assert "shown this one time" in done.stdout
    assert accepted(eventhub, hub, new["key"]) is None
    again = eventhub("keys", "rotate", new["id"], "--db", hub)
    assert (again.returncode, again.stdout) == (1, "")
    assert "expired and has nothing to hand on" in again.stderr


def test_an_unknown_id_is_an_error(eventhub: Command, hub: str):
    assert eventhub("keys", "create", "n", "--scopes", "read", "--db", hub).returncode == 0
    for command in ("revoke", "rotate"):
        done = eventhub("keys", command, "nobody", "--db", hub)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            "eventhub: There is no API key with the id 'nobody'; `eventhub keys list` shows them all.\n"
        )


def test_a_name_cannot_steer_the_terminal(eventhub: Command, sqlite_path: Path):
    made = eventhub.json("keys", "create", "[red]x[/red]", "--scopes", "read", "--db", str(sqlite_path))
    assert "[red]x[/red]" in eventhub("keys", "list", "--db", str(sqlite_path)).stdout
    assert "([red]x[/red])" in eventhub("keys", "revoke", made["id"], "--db", str(sqlite_path)).stdout


def test_the_secret_may_be_elsewhere(eventhub: Command, sqlite_path: Path):
    own = eventhub.directory / "deep" / "own.secret"
    arguments = ("keys", "create", "n", "--scopes", "read", "--db", str(sqlite_path))
    assert eventhub(*arguments, "--secret-file", str(own)).returncode == 0
    assert eventhub(*arguments, env={"EVENTHUB_SECRET_FILE": str(own)}).returncode == 0
    assert not (sqlite_path.parent / "eventhub.secret").exists()
    own.chmod(0o644)
    refused = eventhub(*arguments, "--secret-file", str(own))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"Run: chmod 600 {own}" in refused.stderr
    own.chmod(0o600)
    other = eventhub(*arguments, "--secret-file", "other.secret")
    assert other.returncode == 2  # there are live keys, and no such file


def test_what_makes_no_sense_is_a_usage_error(eventhub: Command):
    for arguments in (
        ["create"],
        ["create", "n"],
        ["create", "--scopes", "read"],
        ["create", "n", "--scopes", ""],
        ["create", "n", "--scopes", "write"],
        ["create", "n", "--scopes", "metrics:x"],
        ["create", "n", "--scopes", "publish,,read"],
        ["create", "", "--scopes", "read"],
        ["create", "n", "--scopes", "read", "--expires", "soon"],
        ["create", "n", "--scopes", "read", "--expires", "-1d"],
        ["create", "n", "--scopes", "read", "--expires", "90"],
        ["create", "n", "--scopes", "read", "--expires", "0d"],
        ["create", "n", "--scopes", "read", "--expires", "999999999w"],
        ["create", "n", "--scopes", "read", "--expires", "9999999d"],
        ["rotate"],
        ["rotate", "x", "--overlap", "long"],
        ["revoke"],
        ["list", "extra"],
    ):
        done = eventhub("keys", *arguments, "--db", "hub.db")
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert done.stderr.startswith("eventhub: ")
        assert "Traceback" not in done.stderr


def test_looking_and_ending_create_no_database(eventhub: Command):
    for arguments in (["list"], ["revoke", "x"], ["rotate", "x"]):
        done = eventhub("keys", *arguments)
        assert done.returncode == 1
        assert "There is no database at eventhub.db" in done.stderr
    assert list(eventhub.directory.iterdir()) == []
