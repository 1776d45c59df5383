"""Headers, cursors and times from outside: whatever they hold, they are read, or refused in the way that was meant."""

import hmac
import math
from base64 import b64decode, b64encode
from datetime import UTC, datetime
from email.utils import format_datetime
from hashlib import sha256
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from eventhub.cli.receiving import check_signature, read_content
from eventhub.core.signing import parse_secret, secret_text, sign
from eventhub.errors import InvalidEventError, InvalidSubscriberError
from eventhub.http.asking import as_id, as_moment
from eventhub.http.problems import Problem
from eventhub.http.reading import read_query
from eventhub.http.routes.events import ListQuery
from eventhub.hub.sending import retry_after
from tests.fuzz.effort import effort

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
LATIN = st.text(st.characters(max_codepoint=255), max_size=30)
PIECES = st.sampled_from([
    "Mon", "Thu, ", "15 Jan 2026 ", "12:00:00", " GMT", " +0000", " -9999", "99", "0", "1e9", "-", ":", "31 Feb ",
    "9999 ", "0000 ", "Jan ", "2026-01-15T12:00:00Z", " ", "\t", "١٢", "²", "(", ")", '"', ";", ",", "\\", "00:60:61",
])  # fmt: skip


@given(LATIN | st.lists(PIECES, max_size=7).map("".join))
@example("")
@example("9" * 400)
@example("²")
@example("Thu, 01 Jan 0000 00:00:00 GMT")
@example("Thu, 31 Dec 9999 23:59:59 -9999")
@example("Thu, 15 Jan 2026 12:00:00 +999999999999")
@effort(150)
def test_retry_after_is_a_wait_or_nothing(value: str) -> None:
    wait = retry_after(value, NOW.timestamp())
    assert wait is None or (isinstance(wait, float) and math.isfinite(wait) and wait >= 0)


@given(st.integers(0, 10**9 - 1), st.datetimes(datetime(1970, 1, 2), datetime(9998, 1, 1)))  # noqa: DTZ001
@effort(150)
def test_retry_after_as_it_is_written_rightly_is_understood(seconds: int, moment: datetime) -> None:
    assert retry_after(f" {seconds} ", NOW.timestamp()) == seconds
    date = moment.replace(tzinfo=UTC, microsecond=0)
    assert retry_after(format_datetime(date, usegmt=True), NOW.timestamp()) == pytest.approx(
        max(0.0, (date - NOW).total_seconds())
    )


@given(
    st.sampled_from(["whsec_", "whsec", "", "WHSEC_"]), st.binary(max_size=70).map(b64encode) | LATIN.map(str.encode)
)
@effort(150)
def test_a_secret_has_one_spelling(prefix: str, inside: bytes) -> None:
    text = prefix + inside.decode()
    try:
        secret = parse_secret(text)
    except InvalidSubscriberError:
        return
    assert secret_text(secret) == text
    assert 24 <= len(secret) <= 64
    assert b64decode(inside, validate=True) == secret


SECRET = bytes(range(32))
STAMP = str(int(NOW.timestamp()))
SIGNED = sign([SECRET], "msg_1", int(STAMP), b"{}")
SIGNATURES = st.lists(
    st.sampled_from(
        [SIGNED, SIGNED[:-1], SIGNED.upper(), f"{SIGNED}=", "v1,", "v2,a", "v1a,b", "", ",", f"v2{SIGNED[2:]}", "é"]
    )
    | LATIN,
    max_size=4,
).map(" ".join)


@given(
    st.sampled_from(["msg_1", "msg_2", "", "é"]) | LATIN,
    st.sampled_from([STAMP, f"0{STAMP}", f"+{STAMP}", f"{STAMP}.0", f" {STAMP}", "1", "9" * 12, "9" * 400, "²", ""])
    | LATIN,
    SIGNATURES,
    st.sampled_from([b"{}", b"{} ", b""]),
)
@example("msg_1", STAMP, SIGNED, b"{}")
@example("msg_1", STAMP, f"v2,x {SIGNED}", b"{}")
@effort(150)
def test_a_signature_is_good_only_if_it_was_made_with_the_secret(
    number: str, stamp: str, signature: str, body: bytes
) -> None:
    headers = {"webhook-id": number, "webhook-timestamp": stamp, "webhook-signature": signature}
    problem = check_signature([b"other" * 6, SECRET], headers, body, NOW)
    digest = hmac.new(SECRET, f"{number}.{stamp}.".encode() + body, sha256).digest()
    fits = f"v1,{b64encode(digest).decode()}" in signature.split(" ")
    assert (problem is None) == (fits and stamp == STAMP and number != "")


@given(st.text(st.sampled_from("abc_1"), min_size=1, max_size=10), st.binary(max_size=60))
@effort(100)
def test_the_public_library_agrees(number: str, body: bytes) -> None:
    stamp = int(datetime.now(UTC).timestamp())
    headers = {
        "webhook-id": number,
        "webhook-timestamp": str(stamp),
        "webhook-signature": sign([bytes(24), SECRET], number, stamp, body),
    }
    try:
        Webhook(secret_text(SECRET)).verify(body, headers)
    except WebhookVerificationError:
        pytest.fail("the library refuses what the hub signed")
    except ValueError:
        pass  # it reads the body as JSON afterwards, which this one is not


@given(
    st.dictionaries(st.sampled_from(["content-type", "ce-specversion", "ce-type", "ce-id", "eventhub-type"]), LATIN),
    st.binary(max_size=20) | st.just(b'{"type":1,"timestamp":2,"data":3}'),
)
@effort(100)
def test_a_receiver_reads_every_request(headers: dict[str, str], body: bytes) -> None:
    read_content(headers, body)


@given(
    st.text(max_size=25)
    | st.integers(-5, 2**65).map(str)
    | st.sampled_from(["²", "١", "+1", " 1", "1_0", "00", "0" * 30 + "1"])
)
@effort(150)
def test_an_id_is_a_plain_number_that_a_row_can_have(text: str) -> None:
    found = as_id(text)
    good = text != "" and set(text) <= set("0123456789") and len(text) <= 19 and 0 < int(text) < 2**63
    assert found == (int(text) if good else None)


MOMENTS = st.datetimes().map(lambda moment: f"{moment.isoformat()}Z")
DAMAGE = st.sampled_from(["Z", "+23:59", "-24:00", "T", " ", "0", "9", ".", "é", ":60", "\x00", "٣"])


@given(
    MOMENTS | st.text(max_size=25) | st.builds(lambda a, b, n: a[:n] + b + a[n:], MOMENTS, DAMAGE, st.integers(0, 25))
)
@example("0001-01-01T00:00:00+23:59")
@example("9999-12-31T23:59:59-23:59")
@example("2016-12-31T23:59:60Z")
@effort(150)
def test_a_moment_is_in_utc_or_refused(text: str) -> None:
    try:
        moment = as_moment(text)
    except InvalidEventError:
        return
    assert moment.tzinfo is UTC


FIELDS = st.sampled_from([*ListQuery.__struct_fields__, "", "x", "limit", "cursor"])
GIVEN = st.text(max_size=8) | st.sampled_from(
    ["0", "-1", "1e3", "null", "true", "9" * 30, "start", "PENDING", "a,b", "²", "NaN"]
)
ENCODED = st.lists(st.tuples(FIELDS, GIVEN), max_size=3).map(
    lambda pairs: "&".join(f"{quote(name)}={quote(value, errors='surrogatepass')}" for name, value in pairs).encode()
)


@given(st.binary(max_size=20) | ENCODED)
@example(b"%ff")
@example(b"limit=%00")
@example(b"&" * 100)
@example(b"limit=1&limit=1")
@example(b"=")
@effort(150)
def test_a_query_is_read_or_refused(query: bytes) -> None:
    try:
        found = read_query(query, ListQuery)
    except Problem as problem:
        status = problem.status
    else:
        assert 1 <= found.limit <= 1000
        status = 400
    assert status == 400
