"""The deployment files: the hub is an ordinary user of a database whose identity is checked, and calls out by rules."""

import os
import subprocess
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.deploy.files import DEPLOY, documents, named, pods
from tests.postgres_cluster import PostgresCluster


def test_the_database_is_known_by_its_certificate():
    secret = named("Secret")["eventhub"]["stringData"]
    found = parse_qs(urlsplit(secret["EVENTHUB_DB"]).query)
    assert found["sslmode"] == ["verify-full"]
    (place,) = found["sslrootcert"]
    assert Path(place).name in secret
    for name, pod in pods().items():
        (install,) = (each["command"] for each in pod["spec"]["initContainers"])
        assert f"/secrets/{Path(place).name}" in install, name
        assert Path(place).parent == Path(install[-1]), name


def test_every_pod_is_under_a_policy_for_what_goes_out():
    base, *more = documents(DEPLOY / "kubernetes" / "network.yaml")
    assert base["spec"]["podSelector"] == {}
    assert set(base["spec"]["policyTypes"]) == {"Ingress", "Egress"}
    open_to_all = [port for rule in base["spec"]["egress"] for port in rule["ports"]]
    assert {port["port"] for port in open_to_all} == {53, 5432}
    (webhooks,) = (found for found in more if found["metadata"]["name"] == "eventhub-webhooks")
    assert webhooks["spec"]["podSelector"]["matchLabels"] == {"app.kubernetes.io/component": "dispatcher"}
    blocked = {net for to in webhooks["spec"]["egress"][0]["to"] for net in to["ipBlock"]["except"]}
    assert {"10.0.0.0/8", "169.254.0.0/16", "fc00::/7"} <= blocked


def test_the_compose_files_user_is_an_ordinary_one(postgres: PostgresCluster, tmp_path: Path):
    place = tmp_path / "eventhub.password"
    place.write_text("pw'd\n")
    made = (DEPLOY / "postgres" / "eventhub.sh").read_text().replace("/run/secrets/eventhub.password", str(place))
    postgres.start()
    asked = parse_qs(urlsplit(postgres.url()).query)
    named_by = {"PGHOST": asked["host"][0], "PGDATABASE": "postgres", "POSTGRES_USER": "postgres"}
    named_by |= {"PGPORT": asked["port"][0]} if "port" in asked else {}
    try:
        subprocess.run(["bash", "-c", made], env={**os.environ, **named_by}, check=True, capture_output=True)
        role = "SELECT rolsuper, rolcreatedb, rolcreaterole FROM pg_roles WHERE rolname = 'eventhub'"
        assert postgres.execute(role).strip() == "f|f|f"
        owner = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'eventhub'"
        assert postgres.execute(owner).strip() == "eventhub"
    finally:
        postgres.execute("DROP DATABASE IF EXISTS eventhub", "DROP ROLE IF EXISTS eventhub")
