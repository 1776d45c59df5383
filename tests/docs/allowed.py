"""The blocks that are not run: page and first words → the reason that stands above the block."""

CONTAINER = "it needs a container engine; tests/deploy holds the files against the hub"
ALLOWED = {
    ("deploy/README.md", "docker build"): CONTAINER,
    ("deploy/README.md", "deploy/prepare"): CONTAINER,
    ("deploy/README.md", "docker compose"): CONTAINER,
    ("deploy/README.md", "install -D"): "it changes the machine; tests/deploy holds the units against the hub",
    ("deploy/README.md", "kubectl"): "it needs a cluster; tests/deploy holds the manifests against the hub",
    ("README.md", "$ make demo"): "these commands are what tests and continuous integration run themselves",
    ("docs/tutorial/index.md", "python3 -m venv"): (
        "it installs packages from an index; `make test` has done so from the lock files"
    ),
    ("docs/tutorial/postgresql.md", "docker run"): (
        "it needs a container engine; the walk uses a PostgreSQL of its own, whose URL it puts in place of this one"
    ),
    ("docs/how-to/backup.md", "pg_dump"): ("the programs of PostgreSQL for dumps are not among those that tests bring"),
    ("docs/how-to/backup.md", "$ eventhub pipeline run --rebaseline"): (
        "a database of a backup and a lake that is newer are made by the tests of the pipeline"
    ),
    ("docs/how-to/cluster.md", "spark-submit"): (
        "it needs a Spark cluster; tests/pipeline/test_elsewhere.py starts the same file by spark-submit"
    ),
    ("docs/how-to/pipeline.md", "spark-submit"): (
        "it needs a Spark cluster; tests/pipeline/test_elsewhere.py starts the same file by spark-submit"
    ),
    ("docs/how-to/pipeline.md", "python examples/derived_events.py"): (
        "it goes on until it is stopped; tests/pipeline/test_example.py starts it"
    ),
    ("docs/how-to/pipeline.md", "eventhub pipeline run --continuous"): (
        "it goes on until it is stopped; tests/cli/test_pipeline_run.py does that"
    ),
    ("docs/how-to/pipeline.md", "$ export AWS_ENDPOINT_URL"): (
        "it names a store of yours; the tests of the pipeline use an S3 server of their own"
    ),
    ("docs/reference/benchmarks.md", "eventhub bench"): (
        "it measures for minutes; tests/bench runs it with small numbers"
    ),
    ("docs/tutorial/index.md", "pip wheel"): "it installs packages from an index",
    ("docs/explanation/performance.md", "make bench-peers"): (
        "it measures for hours; tests/bench and tests/benchmarks run it with small numbers"
    ),
    ("docs/explanation/what-we-test.md", "eventhub torture  "): "it takes minutes; tests/torture runs it in short",
    ("docs/explanation/what-we-test.md", "eventhub torture simulate"): (
        "it takes a minute; tests/simulation runs it in short"
    ),
}
