"""Nobody is shut out: axe finds nothing serious, a keyboard reaches everything, and a phone's width is enough."""

import pytest
from playwright.sync_api import expect

from tests.dashboard.browsing import Visit, findings
from tests.dashboard.story import Story, dead_work
from tests.http.api import Api

expect.set_options(timeout=30_000)

PHONE = {"width": 360, "height": 740}


@pytest.fixture
def places(story: Story, api: Api) -> list[str]:
    letter = api.get("/dlq").json["dead_letters"][0]["id"]
    event, subscriber = f"/events/{story.delivered}", f"/subscribers/{story.parked}"
    return [
        "/", "/events", event, "/subscribers", "/subscribers/new", subscriber, f"{subscriber}/edit",
        "/dead", f"/dead/{letter}", "/workers", "/history", "/nowhere",
    ]  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page(scheme: str, places: list[str], visiting):
    visit = visiting(color_scheme=scheme, bypass_csp=True, reduced_motion="reduce")
    visit.expected.append("404")
    found = {}
    for place in places:
        visit.go(place)
        found[place] = findings(visit)
    page = visit.go(places[5])
    page.get_by_role("button", name="Rotate secret").click()
    found["a dialog"] = findings(visit)
    page.keyboard.press("Escape")
    assert not {place: problems for place, problems in found.items() if problems}


def test_every_page_fits_a_phone(places: list[str], visiting):
    visit = visiting(viewport=PHONE)
    visit.expected.append("404")
    for place in places:
        page = visit.go(place)
        over = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over <= 0, f"{place} is {over} px too wide"
    judged = visiting(viewport=PHONE, bypass_csp=True, reduced_motion="reduce")
    judged.go("/dead")
    assert findings(judged) == []


def test_a_phone_has_a_menu(visiting):
    visit = visiting(viewport=PHONE)
    page = visit.go("/")
    menu = page.get_by_role("button", name="Menu")
    expect(page.get_by_role("link", name="Workers", exact=True)).to_be_hidden()
    menu.click()
    expect(menu).to_have_attribute("aria-expanded", "true")
    page.get_by_role("link", name="Workers", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Workers")
    expect(page.get_by_role("link", name="Workers", exact=True)).to_be_hidden()


def test_a_keyboard_is_enough(story: Story, visit: Visit):
    page = visit.go("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.get_by_role("link", name="Subscribers").first.focus()
    page.keyboard.press("Enter")
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text("Subscribers")
    expect(heading).to_be_focused()
    expect(page.locator("nav [aria-current=page]")).to_have_text("Subscribers")
    page.get_by_role("link", name="crm").focus()
    outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    expect(heading).to_have_text("crm")


def test_a_keyboard_keeps_its_place_when_what_it_used_is_gone(api: Api, visit: Visit):
    for _ in range(2):
        dead_work(api, "keyboard")
    page = visit.go("/dead?error=keyboard")
    for name, yes in (("Retry letter", None), ("Retry the group", "Retry 1")):
        page.get_by_role("button", name=name).first.focus()
        page.keyboard.press("Enter")
        if yes:
            page.get_by_role("dialog").get_by_role("button", name=yes).focus()
            page.keyboard.press("Enter")
        page.wait_for_function("() => document.activeElement.matches('main [tabindex=\"-1\"]:not(h1)')")
