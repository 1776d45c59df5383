"""The alerts and the dashboard speak of metrics that a running hub has, by labels that these have."""

import asyncio
import json
import re
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from eventhub import blocking, open_store
from eventhub.pipeline.metrics import PipelineMetrics
from tests.cli.support import Command
from tests.client.support import Hub

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "eventhub.rules.yml"
DASHBOARD = DEPLOY / "grafana" / "eventhub.json"
NAME = re.compile(r"\beventhub_[a-z_]+")
SELECTED = re.compile(r"\b(eventhub_[a-z_]+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'([a-z_]+)(?:=~|!~|!=|=)"[^"]*"')
GROUPED = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")
OF_THE_SCRAPE = {"job", "instance", "le"}


def alerts() -> list[dict[str, Any]]:
    document = msgspec.yaml.decode(RULES.read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def expressions() -> list[Any]:
    of_alerts = [pytest.param(rule["expr"], id=rule["alert"]) for rule in alerts()]
    of_panels = [
        pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")
        for panel in panels()
        for target in panel["targets"]
    ]
    return of_alerts + of_panels


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, set[str]]]:
    """The names of all samples of a hub at work, each with the names of its labels."""
    directory = tmp_path_factory.mktemp("hub")
    eventhub = Command(directory)
    with Hub(directory, "hub.db") as hub:
        eventhub.json("subscribers", "add", "billing", "--url", "https://203.0.114.7/", "--db", "hub.db")
        eventhub.json("subscribers", "pause", "billing", "--db", "hub.db")
        with blocking.Client(hub.url) as client:
            client.publish(event_type="order.placed", payload={})
            client.publish(tags="email", payload={})
            (job,) = client.take("email", "w", wait=10)
            client.complete(job, "w")
        found: dict[str, set[str]] = defaultdict(set)
        while "eventhub_subscriber_pending_messages" not in found:
            with urllib.request.urlopen(f"{hub.url}/metrics", timeout=60) as answer:
                text = answer.read().decode()
            for name, labels in samples(text):
                found[name] |= labels
        for name, labels in samples(told_by_the_pipeline()):
            found[name] |= labels
        yield found


def samples(text: str) -> Iterator[tuple[str, set[str]]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, set(sample.labels)


def told_by_the_pipeline() -> str:
    """What its process tells after a run that failed."""

    async def look() -> str:
        async with open_store(":memory:") as store:
            metrics = PipelineMetrics(store)
            metrics.count(RuntimeError())
            await metrics.look()
            return generate_latest(metrics.registry).decode()

    return asyncio.run(look())


@pytest.mark.parametrize("expression", expressions())
def test_every_metric_and_label_is_there(expression: str, told: dict[str, set[str]]):
    assert expression.count("(") == expression.count(")")
    labels = set(OF_THE_SCRAPE)
    for name, matchers in SELECTED.findall(expression):
        assert name in told, f"no metric is named {name}"
        labels |= told[name]
        assert set(MATCHER.findall(matchers)) <= told[name] | OF_THE_SCRAPE
    for group in GROUPED.findall(expression):
        assert {each.strip() for each in group.split(",")} <= labels


def test_words_about_metrics_name_real_ones(told: dict[str, set[str]]):
    texts = [RULES.read_text(), DASHBOARD.read_text(), (DEPLOY / "README.md").read_text()]
    mentioned = {name for text in texts for name in NAME.findall(text)}
    assert mentioned - set(told) - {"eventhub_rules"} == set()


def test_alerts_say_how_bad_it_is_and_what_to_do():
    for rule in alerts():
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}
    names = [rule["alert"] for rule in alerts()]
    assert len(set(names)) == len(names)


def test_panels_stand_side_by_side_and_each_has_its_number():
    document = json.loads(DASHBOARD.read_text())
    numbers = [panel["id"] for panel in document["panels"]]
    assert len(set(numbers)) == len(numbers)
    taken: set[tuple[int, int]] = set()
    for panel in document["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel.get("targets", ()))


def test_seed_thresholds_are_kept():
    found = {rule["alert"]: rule["expr"] for rule in alerts()}
    assert found["EventHubManyPending"].endswith("> 1000")
    assert found["EventHubManyDead"].endswith("> 100")
    assert found["EventHubSlowDelivery"].startswith("histogram_quantile(0.99,")
    assert found["EventHubSlowDelivery"].endswith("> 5")
