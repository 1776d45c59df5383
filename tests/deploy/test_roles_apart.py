"""The workloads of Kubernetes, started as processes with the very arguments and settings that their manifests have."""

import contextlib
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventhub import blocking
from tests.cli.support import EVENTHUB, Command
from tests.client.support import LISTENS, free_port
from tests.deploy.files import command_lines, pods

NO_KEY = "there is no API key yet"


class Cluster:
    """A directory, a database and a secret that all pods share; each has a port of its own."""

    def __init__(self, directory: Path, url: str) -> None:
        self.command = Command(directory)
        self.shared = {"EVENTHUB_DB": url, "EVENTHUB_SECRET_FILE": str(directory / "eventhub.secret")}

    @contextlib.contextmanager
    def pod(self, name: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
        """The container of a workload; what it says first is there when it is entered."""
        (line,) = (line for line in command_lines() if line.place == f"kubernetes {name}")
        port = free_port()
        environment = {**self.command.environment, **line.environment, **self.shared, "EVENTHUB_PORT": str(port)}
        with subprocess.Popen(
            [EVENTHUB, *line.tokens],
            cwd=self.command.directory,
            env=environment | {"PATH": self.command.environment["PATH"]},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process, port
            finally:
                process.kill()


def says_where_it_listens(process: subprocess.Popen[str]) -> bool:
    assert process.stdout is not None
    return process.stdout.readline().startswith(LISTENS)


def container(name: str) -> Any:
    return pods()[name]["spec"]["containers"][0]


def probe(name: str, kind: str, port: int) -> bool:
    """What the kubelet would do."""
    found = container(name)[kind]
    if "exec" in found:
        command = [word.replace("8080", str(port)) for word in found["exec"]["command"]]
        return subprocess.run([sys.executable, *command[1:]], timeout=30, check=False).returncode == 0
    wanted = found["httpGet"]
    headers = {each["name"]: each["value"] for each in wanted["httpHeaders"]}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{wanted['path']}", headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return bool(answer.status == 200)


@pytest.fixture
def cluster(tmp_path: Path, postgres_url: str) -> Cluster:
    return Cluster(tmp_path, postgres_url)


def test_the_guide_leads_to_a_hub_whose_roles_are_apart(cluster: Cluster):
    with contextlib.ExitStack() as stack:
        janitor, port = stack.enter_context(cluster.pod("eventhub-janitor"))
        assert says_where_it_listens(janitor), "it needs no key"
        assert probe("eventhub-janitor", "livenessProbe", port)
        with cluster.pod("eventhub-api") as (early, _):
            assert NO_KEY in early.communicate(timeout=60)[1]
            assert early.returncode == 2
        key = cluster.command.json("keys", "create", "owner", "--scopes", "admin", env=cluster.shared)["key"]
        ports = {}
        for name in ("eventhub-api", "eventhub-fanout", "eventhub-dispatcher"):
            process, ports[name] = stack.enter_context(cluster.pod(name))
            assert says_where_it_listens(process)
            for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
                assert probe(name, kind, ports[name])
        with blocking.Client(f"http://127.0.0.1:{ports['eventhub-api']}", key=key) as client:
            add = ("subscribers", "add", "billing", "--url", "https://203.0.114.7/", "--event-type", "order.*")
            cluster.command.json(*add, env=cluster.shared)
            event = client.publish(event_type="order.placed", payload={"id": 7})
        messages: list[Any] = []
        while not messages:  # the fan-out is a process of its own
            found = cluster.command.json("messages", "list", "--event", str(event.id), env=cluster.shared)
            messages = found["messages"]
        janitor.send_signal(signal.SIGTERM)
        assert janitor.wait(60) == 0


def test_metrics_want_a_key_that_may_read(cluster: Cluster):
    key = cluster.command.json("keys", "create", "prometheus", "--scopes", "metrics", env=cluster.shared)["key"]
    with cluster.pod("eventhub-dispatcher") as (process, port):
        assert says_where_it_listens(process)
        url = f"http://127.0.0.1:{port}{pods()['eventhub-dispatcher']['metadata']['annotations']['prometheus.io/path']}"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(url, timeout=30)
        request = urllib.request.Request(url, headers={"authorization": f"Bearer {key}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert b"eventhub_dispatcher_in_flight" in answer.read()
