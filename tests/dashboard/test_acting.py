"""What can be done on the pages, and that it is done."""

import re

from playwright.sync_api import Page, expect

from tests.dashboard.browsing import Visit
from tests.dashboard.story import Story, dead_work
from tests.http.api import Api
from tests.http.receiver import Receiver

expect.set_options(timeout=30_000)


def dialog(page: Page, button: str) -> None:
    page.get_by_role("dialog").get_by_role("button", name=button).click()


def told(page: Page, words: str) -> None:
    expect(page.locator("#notice")).to_contain_text(words)


def test_a_subscriber_is_made_gets_signed_messages_is_changed_and_goes(api: Api, receiver: Receiver, visit: Visit):
    page = visit.go("/subscribers/new")
    page.get_by_label("Name", exact=True).fill("mailer")
    page.get_by_label("Address").fill("ftp://example.com")
    page.get_by_role("button", name="Create subscriber").click()
    visit.expected.append("422")
    expect(page.get_by_label("Address")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#wrong-url")).to_contain_text("http")
    page.get_by_label("Address").fill(f"{receiver.url}/mailer")
    page.get_by_label("Events").fill("mail.*")
    page.get_by_text("More settings").first.click()
    page.get_by_label("Headers").fill("X-Team: mail\nX-Token: abc")
    page.get_by_role("button", name="Create subscriber").click()
    secret = page.get_by_role("dialog").locator("code").inner_text()
    page.get_by_role("dialog").get_by_role("button", name="Copy").click()
    assert page.evaluate("navigator.clipboard.readText()") == secret
    dialog(page, "I have kept it")
    expect(page.get_by_role("heading", level=1)).to_have_text("mailer")

    page.get_by_role("button", name="Send test").click()
    told(page, "A test is on its way")
    (got,) = receiver.wait("/mailer")
    assert got.signed_by(secret)
    assert got.headers["x-team"] == "mail"
    expect(page.get_by_role("row").filter(has_text="hub.test")).to_contain_text("completed")

    page.get_by_role("link", name="Edit").click()
    expect(page.get_by_label("Headers")).to_have_value("X-Team: mail\nX-Token: ***")
    page.get_by_label("Description").fill("Sends the mail")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Sends the mail")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".head .badge")).to_have_text("paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".head .badge")).to_have_text("active")

    page.get_by_role("button", name="Rotate secret").click()
    dialog(page, "Make a new secret")
    expect(page.get_by_role("heading", name="The new secret")).to_be_visible()
    fresh = page.get_by_role("dialog").locator("code").inner_text()
    dialog(page, "I have kept it")
    assert fresh != secret
    page.get_by_role("button", name="Send test").click()
    assert receiver.wait("/mailer", 2)[-1].signed_by(fresh)

    page.get_by_role("button", name="Delete").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Delete")).to_be_focused()
    page.get_by_role("button", name="Delete").click()
    dialog(page, "Delete")
    expect(page.get_by_role("heading", level=1)).to_have_text("Subscribers")
    assert not any(one["name"] == "mailer" for one in api.get("/subscribers").json["subscribers"])


def test_news_leave_the_focus_on_a_button(story: Story, visit: Visit):
    """The page is read again when a message arrives; nothing of its head has changed by that."""
    page = visit.go(f"/subscribers/{story.healthy}")
    page.get_by_role("button", name="Send test").click()
    with page.expect_response(lambda answer: answer.url.endswith(f"/subscribers/{story.healthy}")) as again:
        page.get_by_role("button", name="Delete").focus()
    again.value.finished()
    expect(page.locator(".tiles[aria-busy], .panel [aria-busy]")).to_have_count(0)
    expect(page.get_by_role("button", name="Delete")).to_be_focused()


def test_a_key_that_stands_still_is_unparked(story: Story, api: Api, visit: Visit):
    page = visit.go(f"/subscribers/{story.parked}")
    row = page.get_by_role("row").filter(has_text="parked")
    expect(row).to_contain_text("customer-0")
    row.get_by_role("button", name="Unpark").click()
    told(page, "goes on")
    # The next message of the key fails too, and holds it in turn.
    api.until(
        f"/subscribers/{story.parked}/keys",
        lambda found: found["keys"] and found["keys"][0]["event_id"] != story.delivered,
    )


def test_a_key_that_fails_is_retried_and_skipped(api: Api, receiver: Receiver, visit: Visit):
    receiver.statuses["/slow"] = 503
    number = api.subscribe(
        "slow", f"{receiver.url}/slow", event_type="slow.*", ordering_key="ordering_key", retry_backoff_seconds=[3600]
    )["id"]
    api.broadcast("slow.one", ordering_key="a/b", payload=1)
    api.broadcast("slow.two", ordering_key="a/b", payload=2)
    api.until(f"/subscribers/{number}/keys", lambda found: found["keys"])
    page = visit.go(f"/subscribers/{number}")
    row = page.get_by_role("row").filter(has_text="failing")
    expect(row).to_contain_text("a/b")
    row.get_by_role("button", name="Retry a/b").click()
    told(page, "tried again")
    receiver.wait("/slow", 2)
    page.get_by_role("button", name="Skip a/b").click()
    receiver.statuses["/slow"] = 200
    dialog(page, "Skip it")
    told(page, "given up")
    assert [got.json["data"] for got in receiver.wait("/slow", 3)][-1] == 2


def test_a_dead_letter_is_retried_one_by_one_and_by_the_group(story: Story, api: Api, receiver: Receiver, visit: Visit):
    page = visit.go("/dead")
    group = page.locator(".group").filter(has_text="the address of user")
    expect(group.locator(".group-count")).to_contain_text("2")
    group.get_by_role("link", name=re.compile("Show only")).click()
    expect(page.locator(".group")).to_have_count(1)
    rows = page.locator("main tbody tr")
    expect(rows).to_have_count(2)

    rows.first.get_by_role("button", name=re.compile("Retry")).click()
    told(page, "fresh start")
    expect(rows).to_have_count(1)
    assert api.taken("email", "mail-09:1")

    page.get_by_role("link", name="Show all").click()
    billing = page.locator(".group").filter(has_text="order.paid")
    receiver.statuses["/billing"] = 200
    number = len(receiver.at("/billing"))
    api.until("/dlq", lambda found: found["total"] >= 3, type="order.paid")
    billing.get_by_role("button", name=re.compile("Retry the group")).click()
    asked = page.get_by_role("dialog").get_by_role("heading").inner_text()
    count = int(re.sub(r"\D", "", asked))
    assert count >= 3
    page.get_by_role("dialog").get_by_role("button", name=f"Retry {count}").click()
    told(page, f"{count} dead letters have a fresh start")
    receiver.wait("/billing", number + 3)


def test_a_dead_letter_shows_its_context_and_is_retried_on_its_page(api: Api, visit: Visit):
    made = api.publish(title="Break", tags="breaking", payload={"deep": [1, {"x": "y"}]})
    event = api.taken("breaking", "breaker:1")
    api.fail(event["id"], "breaker:1", error_message="TypeError: no\n  at line 3", retry=False)
    page = visit.go(f"/dead/{made['id']}")
    expect(page.get_by_text("TypeError: no")).to_be_visible()
    expect(page.locator(".copyable code").first).to_contain_text('"x": "y"')
    page.get_by_role("button", name="Retry").click()
    told(page, "fresh start")
    assert api.taken("breaking", "breaker:2")["id"] == made["id"]


def test_dead_letters_are_purged_after_a_question_with_their_number(api: Api, visit: Visit):
    for _ in range(3):
        api.publish(title="Old", tags="purging", event_type="purge.me")
        event = api.taken("purging", "purger:1")
        api.fail(event["id"], "purger:1", error_message="no", retry=False)
    page = visit.go("/dead?type=purge.me")
    page.get_by_role("button", name="Purge").click()
    asked = page.get_by_role("dialog")
    expect(asked).to_contain_text("No letter has been dead for so long.")
    asked.get_by_label("Dead for so many days").fill("0")
    asked.get_by_label("Dead for so many days").blur()
    expect(asked).to_contain_text("3 letters have been dead for so long.")
    dialog(page, "Delete")
    told(page, "3 dead letters were deleted")
    assert api.get("/dlq", type="purge.me").json["total"] == 0
    assert api.get("/dlq").json["total"] > 0


def test_a_search_that_means_nobody_retries_nothing(api: Api, visit: Visit):
    visit.expected += ["400", "422"]
    dead_work(api, "nobody")
    before = api.get("/dlq").json["total"]
    page = visit.go("/dead?subscriber=shipping")
    page.get_by_role("button", name="Retry all that fit").click()
    expect(page.locator("#notice .notice.bad")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert api.get("/dlq").json["total"] == before > 0


def test_what_was_not_copied_is_not_said_to_be(api: Api, visit: Visit):
    number = api.broadcast("copy.me", payload={"turned\u202e": "\u200b"})
    page = visit.go(f"/events/{number}")
    copy = page.get_by_role("button", name="Copy")
    expect(page.locator(".copyable code").first).to_contain_text('"turned\\u202e": "\\u200b"')
    copy.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert "\u202e" in page.evaluate("navigator.clipboard.readText()")
    page.evaluate("() => Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    expect(copy).to_be_visible()
    copy.click()
    expect(page.get_by_role("button", name="Selected: now copy it")).to_be_visible()
    assert "turned" in page.evaluate("() => getSelection().toString()")


def test_an_event_is_taken_away_from_its_worker_and_replayed_to_one_subscriber(
    api: Api, receiver: Receiver, visit: Visit
):
    api.subscribe("again", f"{receiver.url}/again", event_type="never.asked")
    made = api.publish(title="Hang", tags="hanging", event_type="hang.up", payload={"n": 1})
    api.taken("hanging", "hanger:1")
    page = visit.go(f"/events/{made['id']}")
    page.get_by_role("button", name="Reset").click()
    dialog(page, "Reset")
    told(page, "ready again")
    expect(page.locator(".timeline")).to_contain_text("reset on the dashboard")
    assert api.taken("hanging", "hanger:2")["id"] == made["id"]

    page.get_by_role("button", name="Replay").click()
    page.get_by_role("dialog").get_by_label("again").check()
    dialog(page, "Replay")
    expect(page.get_by_text(f"Event {made['id']}", exact=True)).to_be_visible()
    (got,) = receiver.wait("/again")
    assert got.json["data"] == {"n": 1}
