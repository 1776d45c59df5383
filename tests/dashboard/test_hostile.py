"""What others write is text: a corpus of attacks in every field that they can set executes and breaks nothing."""

from collections.abc import Mapping

import pytest
from playwright.sync_api import expect

from tests.dashboard.browsing import Visit
from tests.http.api import Api
from tests.http.receiver import Receiver

expect.set_options(timeout=30_000)

CORPUS = (
    "<script>window.__xss='script'</script>",
    "<img src=x onerror=\"window.__xss='img'\">",
    "<svg onload=\"window.__xss='svg'\"><animate onbegin=\"window.__xss='animate'\" attributeName=x dur=1s>",
    '"><iframe srcdoc="<script>parent.__xss=\'iframe\'</script>">',
    "' autofocus onfocus='window.__xss=1' x='",
    "javascript:window.__xss='url'",
    "{{constructor.constructor('window.__xss=1')()}} ${window.__xss=1} <%= window.__xss=1 %>",
    "</textarea></title></style><script>window.__xss='close'</script>",
    "\u202egnp.exe \u2066hidden\u2069 \u200b\ufeff",
    "W" * 180,
    "<math><mtext></form><form><mglyph><style></math><img src onerror=window.__xss=1>",
    '<a href="data:text/html,<script>window.__xss=1</script>" ping=/x>look</a>\n\r\t<base href=//evil.example>',
)
EVERYTHING = " ".join(CORPUS)


def printable(words: str) -> str:
    """What the name of a subscriber may have."""
    return "".join(sign for sign in words if sign.isprintable())


@pytest.fixture(scope="module")
def places(api: Api, receiver: Receiver) -> list[str]:
    """Hostile words in every field of every kind of thing; the pages where they are shown."""
    receiver.statuses["/hostile'(x)=1;onerror=__xss"] = 500
    subscribers = []
    for number, words in enumerate(CORPUS):
        made = api.post(
            "/subscribers",
            {
                "name": f"{number} {printable(words)}"[:100].strip(),
                "url": f"{receiver.url}/hostile'(x)=1;onerror=__xss",
                "event_type": "hostile.broadcast",
                "description": EVERYTHING[:1000],
                "headers": {"x-'onerror'`__xss`": "<script>window.__xss=1</script>"},
                "filter": {"metadata.number": str(number)},
                "ordering_key": "ordering_key",
                "on_dead": "park",
                "retry_backoff_seconds": [],
            },
        )
        assert made.status == 201, made
        subscribers.append(made.json["id"])
        api.post(f"/subscribers/{made.json['id']}/rotate-secret", {})
    events, letters = [], []
    for number, words in enumerate(CORPUS):
        fields = {
            "title": EVERYTHING, "description": EVERYTHING, "ordering_key": words[:200],
            "payload": {words: [words, {words: EVERYTHING}]}, "idempotency_key": f"{number} {words}"[:200],
        }  # fmt: skip
        events.append(
            api.broadcast("hostile.broadcast", **fields, metadata={"number": str(number), words[:100]: EVERYTHING})
        )
        letters.append(
            _dead_work(api, words, fields | {"ordering_key": f"work {words}"[:200], "idempotency_key": f"w{number}"})
        )
    api.post(f"/subscribers/{subscribers[0]}/pause", reason=EVERYTHING[:900])
    found = api.until("/dlq", lambda page: page["total"] >= 2 * len(CORPUS), limit=100)
    letters += [letter["id"] for letter in found["dead_letters"][:3]]
    return [
        "/", "/events", "/subscribers", "/dead", "/workers",
        *(f"/events/{number}" for number in (*events[:4], letters[0])),
        *(f"/subscribers/{number}" for number in subscribers[:4]),
        f"/subscribers/{subscribers[2]}/edit", *(f"/dead/{number}" for number in (letters[0], letters[-1])),
    ]  # fmt: skip


def _dead_work(api: Api, words: str, fields: Mapping[str, object]) -> int:
    """Work that a worker with a hostile name gives up with a hostile error, and one that it keeps in hand."""
    worker = words.strip()[:200]
    made = api.publish(tags="hostile", **fields)
    api.taken("hostile", worker)
    answer = api.fail(made["id"], worker, error_message=EVERYTHING, retry=False)
    assert answer.status == 200, answer
    api.publish(tags="kept", title=words)
    api.taken("kept", worker)
    number: int = made["id"]
    return number


def test_nothing_that_others_wrote_is_executed_or_breaks_a_page(places: list[str], visiting, api: Api):
    wide, phone = visiting(), visiting(viewport={"width": 360, "height": 740})
    for visit in (wide, phone):
        for place in places:
            page = visit.go(place)
            assert page.evaluate("() => window.__xss") is None, place
            assert (
                page.locator(
                    "main :is(script, iframe, object, embed, base, style, form[action], [onerror], [onload])"
                ).count()
                == 0
            )
            over = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert over <= 0, f"{place} is {over} px too wide for {visit.page.viewport_size}"
        api.broadcast("hostile.broadcast", title=EVERYTHING, ordering_key=CORPUS[1])
    page = wide.go("/")
    number = api.broadcast("hostile.broadcast", metadata={"number": "1"})
    expect(page.locator(".feed li").filter(has_text=f"#{number}").first).to_be_visible()


def test_what_is_hostile_is_shown_as_it_was_written_and_what_is_hidden_is_seen(places: list[str], visit: Visit):
    page = visit.go("/subscribers")
    expect(page.get_by_role("link", name=f"0 {CORPUS[0]}"[:100])).to_be_visible()
    page = visit.go("/workers")
    expect(page.get_by_role("cell", name="\\u202egnp.exe \\u2066hidden\\u2069", exact=False).first).to_be_visible()


def test_questions_show_hostile_names_as_text(places: list[str], visit: Visit):
    number = next(place for place in places if place.startswith("/subscribers/"))
    page = visit.go(number)
    for name in ("Rotate secret", "Delete"):
        page.get_by_role("button", name=name).click()
        expect(page.get_by_role("dialog")).to_contain_text("<script>")
        page.keyboard.press("Escape")
    page = visit.go(next(place for place in places if place.startswith("/events/")))
    page.get_by_role("button", name="Replay").click()
    expect(page.get_by_role("dialog")).to_contain_text("onerror")
    page.keyboard.press("Escape")


def test_an_address_cannot_carry_an_attack(visit: Visit):
    visit.expected += ["400", "404"]
    for place in (
        "/events?type=<img src=x onerror=window.__xss=1>",
        "/events?status=<script>window.__xss=1</script>&tags=%22%3E%3Csvg onload=window.__xss=1%3E",
        "/dead?error=<svg onload=window.__xss=1>&fingerprint=%22%3E<script>window.__xss=1</script>",
        "/history?days=<script>window.__xss=1</script>",
        "/<script>window.__xss=1</script>",
    ):
        visit.go(place)
