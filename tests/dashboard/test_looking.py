"""What the pages show: the hub as it is, and what happens while one looks."""

import re

from playwright.sync_api import Page, expect

from tests.dashboard.browsing import Visit
from tests.dashboard.story import Story
from tests.http.api import Api
from tests.http.server import HubServer

expect.set_options(timeout=30_000)


def test_the_overview_says_what_needs_attention_and_shows_events_as_they_arrive(story: Story, api: Api, visit: Visit):
    page = visit.go("/")
    expect(page.get_by_text("dead letter", exact=False).first).to_be_visible()
    expect(page.get_by_role("link", name="Dead letters", exact=False).first).to_have_text("Dead letters 6")
    expect(page.locator(".health li").filter(has_text="database")).to_contain_text("answers")
    expect(page.locator(".tile").filter(has_text="In flight").locator(".tile-value")).to_have_text("1")
    expect(page.locator("#live-state")).to_have_text("Live")
    number = api.broadcast("seen.live")
    row = page.locator(".feed li").filter(has_text=f"#{number}").filter(has_text="published")
    expect(row).to_contain_text("seen.live")
    row.get_by_role("link", name=f"#{number}").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Event {number}")


def test_events_are_searched_by_type_tag_status_time_and_id(story: Story, api: Api, visit: Visit):
    page = visit.go("/events")
    rows = page.locator("main tbody tr")
    page.get_by_label("Type").fill("order.paid")
    page.get_by_role("button", name="Search").click()
    visit.settle()
    expect(rows).to_have_count(3)
    expect(rows.first).to_contain_text("order.paid")

    page.get_by_role("link", name="Clear").click()
    page.get_by_label("Any of the tags").fill("sms")
    page.get_by_label("Status").select_option("PENDING")
    page.get_by_role("button", name="Search").click()
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("Text a reminder")

    page.get_by_label("To").fill("2020-01-01T00:00")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("No event fits")).to_be_visible()

    page.get_by_label("Id").fill(f"#{story.claimed}")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Event {story.claimed}")


def test_an_event_that_is_published_appears_in_the_list_at_once(story: Story, api: Api, visit: Visit):
    page = visit.go("/events?type=list.live")
    expect(page.get_by_text("No event fits")).to_be_visible()
    number = api.broadcast("list.live")
    expect(page.locator("main tbody tr")).to_contain_text([f"#{number}"])


def test_an_event_tells_its_story(story: Story, visit: Visit):
    page = visit.go(f"/events/{story.delivered}")
    expect(page.locator(".copyable code").first).to_contain_text('"sku": "TEA-250"')
    expect(page.locator(".timeline li").first).to_contain_text("published")
    expect(page.locator(".timeline li").filter(has_text="dead")).to_contain_text(re.compile(r"message \d+ to crm"))
    deliveries = page.locator("main table").get_by_role("row")
    expect(deliveries.filter(has_text="shipping")).to_contain_text("completed")
    failed = deliveries.filter(has_text="crm")
    expect(failed).to_contain_text("HTTP 500")
    failed.get_by_role("button", name="Attempts").click()
    expect(page.locator(".attempts")).to_contain_text("status 500")
    page.locator(".attempts summary", has_text="What was sent").click()
    expect(page.locator(".attempts pre").first).to_contain_text("webhook-id")


def test_numbers_that_javascript_would_round_are_shown_as_they_are(api: Api, visit: Visit):
    number = api.broadcast("large.number", payload={"n": 9_007_199_254_740_993, "m": -(2**63)})
    page = visit.go(f"/events/{number}")
    expect(page.locator(".copyable code").first).to_contain_text("9007199254740993")
    expect(page.locator(".copyable code").first).to_contain_text("-9223372036854775808")


def test_workers_are_shown_with_what_they_have_in_hand(story: Story, visit: Visit):
    page = visit.go("/workers")
    workers = page.get_by_role("table", name="Workers", exact=True)
    row = workers.get_by_role("row").filter(has_text="mail-04:118")
    expect(row.get_by_role("cell").nth(2)).to_have_text("1")
    expect(workers.get_by_role("row").filter(has_text="mail-01:7234")).to_contain_text("completed")


def test_workers_are_read_again_though_the_heading_has_the_focus(api: Api, visit: Visit):
    page = visit.page
    page.clock.install()
    visit.go("/")
    page.get_by_role("link", name="Workers", exact=True).click()
    expect(page.get_by_role("heading", level=1, name="Workers")).to_be_focused()
    visit.settle()
    api.publish(tags="later")
    api.taken("later", "late:1")
    page.clock.fast_forward(11_000)
    expect(page.get_by_role("table", name="Workers", exact=True)).to_contain_text("late:1")


def test_without_a_lake_history_says_what_to_run(visit: Visit):
    visit.expected.append("404")
    page = visit.go("/history")
    expect(page.get_by_text("No history yet", exact=True)).to_be_visible()
    expect(page.locator(".copyable code")).to_have_text("eventhub pipeline run")


def test_an_address_that_means_nothing_has_a_page_and_a_way_back(visit: Visit):
    page = visit.go("/nowhere")
    page.get_by_role("link", name="Go to the overview").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


def test_what_cannot_be_read_says_why_and_can_be_tried_again(visit: Visit):
    visit.expected.append("404")
    page = visit.go("/events/999999999")
    expect(page.get_by_role("alert")).to_contain_text("not found")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()


def test_whoever_reads_a_chart_keeps_it_while_the_figures_go_on(api: Api, visit: Visit):
    page = visit.go("/")
    page.locator(".plot").first.hover()
    told = page.locator(".readout").first.inner_text()
    assert told
    before = page.locator(".rate-value").first.inner_text()
    for _ in range(20):
        api.publish(tags="hovering")
    expect(page.locator(".rate-value").first).not_to_have_text(before)
    assert page.locator(".readout").first.inner_text() == told


def test_figures_of_subscribers_are_asked_for_once_however_often_one_searches(story: Story, visit: Visit):
    page = visit.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    visit.go("/subscribers")
    expect(page.get_by_text("…", exact=True)).to_have_count(0)
    page.get_by_label("Search subscribers").press_sequentially("crm")
    expect(page.locator("main tbody tr")).to_have_count(1)
    stats = [url for url in asked if url.endswith("/stats")]
    assert sorted(stats) == sorted(set(stats))


def test_a_hub_that_does_not_answer_at_first_is_asked_again(visit: Visit):
    visit.expected.append("net::ERR_")
    page = visit.page
    page.clock.install()
    page.route("**/session", lambda route: route.abort())
    page.goto("/")
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    page.unroute("**/session")
    page.clock.fast_forward(6_000)
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


def test_the_theme_is_the_systems_until_one_is_chosen_and_is_remembered(visiting, server: HubServer):
    page: Page = (visit := visiting(color_scheme="dark")).go("/workers")
    ground = "() => getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Theme").click()
    light = page.evaluate(ground)
    assert light != dark
    page.reload()
    visit.settle()
    assert page.evaluate(ground) == light


def test_the_stream_that_was_cut_is_told_and_what_was_missed_is_read(server: HubServer, api: Api, visit: Visit):
    page = visit.go("/events?type=missed.meanwhile")
    expect(page.locator("#live-state")).to_have_text("Live")
    visit.expected.append("net::ERR_")
    server.kill()
    expect(page.locator("#cut")).to_be_visible()
    page.get_by_role("link", name="Workers", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("this page was not fetched before")
    page.go_back()
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    server.start()
    api.broadcast("missed.meanwhile")
    expect(page.locator("#live-state")).to_have_text("Live")
    expect(page.locator("#cut")).to_be_hidden()
    expect(page.locator("main tbody tr")).to_have_count(1)
