"""`eventhub audit`: acts by the command are those of the user who typed it."""

import getpass

from tests.cli.support import Command, Filled


def test_what_the_command_does_to_a_database_is_told_with_its_user(eventhub: Command, filled: Filled) -> None:
    made = eventhub.json("keys", "create", "mailer", "--scopes", "publish", "--db", filled.url)
    eventhub.json("keys", "revoke", made["id"], "--db", filled.url)
    eventhub.json("dlq", "retry", str(filled.dead[0]), "--db", filled.url)
    told = eventhub.json("audit", "--db", filled.url)["entries"][::-1]
    assert [entry["action"] for entry in told] == ["key.create", "key.revoke", "dead_letter.retry"]
    assert {(entry["actor"], entry["actor_kind"]) for entry in told} == {(getpass.getuser(), "user")}
    shown = eventhub("audit", "--action", "key", "--db", filled.url).stdout
    assert f"key:{made['id']}" in shown
    assert "dead_letter" not in shown
    assert made["key"] not in shown


def test_pages_and_wrong_calls(eventhub: Command, store_url: str) -> None:
    for number in range(3):
        eventhub.json("keys", "create", f"k{number}", "--scopes", "read", "--db", store_url)
    page = eventhub.json("audit", "--limit", "2", "--db", store_url)
    assert [entry["details"]["name"] for entry in page["entries"]] == ["k2", "k1"]
    rest = eventhub.json("audit", "--before", str(page["next_before"]), "--db", store_url)
    assert [entry["details"]["name"] for entry in rest["entries"]] == ["k0"]
    assert eventhub("audit", "--limit", "0", "--db", store_url).returncode == 2
    assert "No administrative acts" in eventhub("audit", "--since", "0s", "--actor", "x", "--db", store_url).stdout
