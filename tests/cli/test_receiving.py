"""What `eventhub listen` makes of a request, without a network."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import msgspec
import pytest
from standardwebhooks import Webhook

from eventhub.cli.receiving import Answering, Content, Order, Place, Seen, check_signature, read_content
from eventhub.core.envelopes import envelope
from eventhub.core.subscribers import Format

SECRET = b"0123456789abcdef01234567"
OTHER = b"76543210fedcba9876543210"
NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
BODY = '{"type":"order.placed","timestamp":"2026-05-04T12:00:00Z","data":{"é":1}}'.encode()


class Sample(msgspec.Struct, frozen=True):
    """As much of a message as an envelope needs."""

    event_id: int
    type: str
    payload: str
    metadata: str | None
    ordering_key: str | None
    created_at: datetime


def signed(
    *, message_id: str = "msg_7", body: bytes = BODY, at: datetime = NOW, secret: bytes = SECRET
) -> dict[str, str]:
    """Headers by the public library."""
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(message_id, at, body.decode()),
    }


def test_what_the_public_library_signs_is_verified():
    assert check_signature([SECRET], signed(), BODY, NOW) is None
    assert check_signature([OTHER, SECRET], signed(), BODY, NOW) is None
    both = {**signed(), "webhook-signature": f"v1,AAAA {signed()['webhook-signature']} v1a,other"}
    assert check_signature([SECRET], both, BODY, NOW) is None


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"webhook-id": "msg_8"}, "no signature fits"),
        ({"webhook-timestamp": str(int(NOW.timestamp()) + 1)}, "no signature fits"),
        ({"webhook-signature": "v1,"}, "no signature fits"),
        ({"webhook-signature": "v2," + signed()["webhook-signature"][3:]}, "no signature fits"),
        ({"webhook-signature": "é"}, "no signature fits"),
        ({"webhook-signature": ""}, "no webhook-signature header"),
        ({"webhook-id": "", "webhook-timestamp": ""}, "no webhook-id and no webhook-timestamp header"),
        ({"webhook-timestamp": "soon"}, "is no number of seconds"),
        ({"webhook-timestamp": "-5"}, "is no number of seconds"),
        ({"webhook-timestamp": "0" + str(int(NOW.timestamp()))}, "is no number of seconds"),
        ({"webhook-timestamp": "1.5"}, "is no number of seconds"),
        ({"webhook-timestamp": "9" * 4000}, "is no number of seconds"),
    ],
)
def test_what_was_changed_is_not_verified(changed: dict[str, str], why: str):
    problem = check_signature([SECRET], {**signed(), **changed}, BODY, NOW)
    assert problem is not None
    assert why in problem


def test_a_changed_body_or_another_secret_is_not_verified():
    assert check_signature([SECRET], signed(), BODY + b" ", NOW)
    assert check_signature([OTHER], signed(), BODY, NOW)


@pytest.mark.parametrize(("seconds", "good"), [(300, True), (-300, True), (301, False), (-301, False)])
def test_a_signature_may_be_five_minutes_old_or_ahead(seconds: int, *, good: bool):
    problem = check_signature([SECRET], signed(), BODY, NOW + timedelta(seconds=seconds))
    assert (problem is None) == good
    assert problem is None or problem.startswith(f"signed {abs(seconds)} s {'ago' if seconds > 0 else 'ahead'}")


@pytest.mark.parametrize(
    ("headers", "body", "content"),
    [
        (
            {"content-type": "application/json"},
            {"type": "a.b", "timestamp": "…", "data": [1]},
            Content(format="standard", type="a.b", payload=[1]),
        ),
        ({"content-type": "application/json"}, {"type": "a.b"}, Content(format="raw", payload={"type": "a.b"})),
        ({}, [1, 2], Content(format="raw", payload=[1, 2])),
        (
            {"ce-specversion": "1.0", "ce-type": "a.b", "ce-id": "7", "ce-partitionkey": "caf%C3%A9"},
            {"n": 1},
            Content(format="ce-binary", type="a.b", payload={"n": 1}, event_id="7", ordering_key="café"),
        ),
        (
            {"content-type": "application/cloudevents+json; charset=utf-8"},
            {"specversion": "1.0", "type": "a.b", "id": "7", "data": None, "partitionkey": "k"},
            Content(format="ce-structured", type="a.b", event_id="7", ordering_key="k"),
        ),
    ],
)
def test_all_four_formats_are_understood(headers: dict[str, str], body: Any, content: Content):
    assert read_content(headers, json.dumps(body).encode()) == content


@pytest.mark.parametrize("form", get_args(Format))
def test_what_the_hub_makes_is_understood(form: str):
    message = Sample(
        event_id=7,
        type="order.placed",
        payload='{"type":"x","timestamp":1,"data":2}',
        metadata='{"traceparent":"none"}',
        ordering_key="café",
        created_at=NOW,
    )
    content = read_content(*envelope(message, form, source="urn:hub"))
    assert (content.format, content.type) == (form, "order.placed")
    assert content.payload == {"type": "x", "timestamp": 1, "data": 2}
    if form.startswith("ce-"):
        assert (content.event_id, content.ordering_key) == ("7", "café")


def test_what_is_no_json_is_kept_as_text():
    assert read_content({}, b"\xff{") == Content(format="raw", text="\ufffd{")
    assert read_content({"ce-specversion": "1.0"}, b"hello") == Content(format="ce-binary", text="hello")
    assert read_content({}, b"") == Content(format="raw")


def test_messages_are_counted_as_long_as_they_are_remembered():
    seen = Seen(most=2)
    assert [seen.count(name)[0] for name in "abaaca"] == [1, 1, 2, 3, 1, 4]
    assert seen.count("b") == (1, False)  # forgotten
    assert seen.different == 4


def test_one_that_comes_again_is_a_duplicate_if_it_was_taken():
    seen = Seen(most=2)
    assert seen.count("a") == (1, False)
    assert seen.count("a") == (2, False)
    seen.take("a")
    assert seen.count("a") == (3, True)
    for name in "bc":
        seen.count(name)
    assert seen.count("a") == (1, False)  # forgotten


class TestOrder:
    def test_a_retry_and_its_successor_are_in_order(self):
        order = Order(None)
        for taken in (False, False, True):
            assert order.begin("k", "msg_5") == Place()
            order.end("k", "msg_5", taken=taken)
        assert order.begin("k", "msg_9") == Place()

    def test_an_older_message_after_a_newer_one_is_out_of_order(self):
        order = Order(None)
        order.begin("k", "msg_10")
        order.end("k", "msg_10", taken=True)
        assert order.begin("k", "msg_9") == Place("out of order: it comes after 10", wrong=True)
        assert order.begin("other", "msg_9") == Place()

    def test_a_message_before_the_answer_to_its_predecessor_is_out_of_order(self):
        order = Order(None)
        order.begin("k", "msg_1")
        assert order.begin("k", "msg_2") == Place("out of order: 1 is still being answered", wrong=True)
        assert order.begin("k", "msg_2") == Place("it comes again while it is being answered", wrong=True)

    def test_one_that_passes_a_failed_one_is_remarked_on(self):
        order = Order(None)
        order.begin("k", "msg_1")
        order.end("k", "msg_1", taken=False)
        place = order.begin("k", "msg_2")
        assert not place.wrong
        assert place.note == "1 was not taken here: it is dead, or was overtaken"

    def test_an_id_without_a_number_has_no_place(self):
        place = Order(None).begin("k", "msg_x")
        assert not place.wrong
        assert place.note is not None

    def test_keys_are_forgotten_when_there_are_too_many(self):
        order = Order(None, most=1)
        order.begin("a", "msg_5")
        order.begin("b", "msg_6")
        assert order.begin("a", "msg_4") == Place()

    def test_the_key_is_where_the_path_says(self):
        content = Content(format="raw", payload={"customer": {"id": 7}}, ordering_key="own")
        assert Order("payload.customer.id").key(content) == "7"
        assert Order("payload.nothing").key(content) is None
        assert Order("ordering_key").key(content) == "own"
        assert Order(None).key(content) == ""


def test_failures_are_a_share_of_what_is_not_refused():
    answering = Answering(share=0.2, status=503)
    assert answering.choose(refused=False, roll=lambda: 0.19) == 503
    assert answering.choose(refused=False, roll=lambda: 0.2) == 204
    assert answering.choose(refused=True, roll=lambda: 0.1) == 401
