"""The gate: schemathesis over the whole OpenAPI document, stateful too. No 5xx, no mismatch, no undocumented code.

It is deterministic here and small enough for every run. To search longer, and elsewhere:

    EVENTHUB_FUZZ_EXAMPLES=500 EVENTHUB_FUZZ_SEED=7 pytest tests/http/test_schema.py
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.http.conftest import MakeHub
from tests.http.server import environment

HERE = Path(__file__).parent
EXAMPLES = os.environ.get("EVENTHUB_FUZZ_EXAMPLES", "8")
SEED = os.environ.get("EVENTHUB_FUZZ_SEED", "20260115")
PHASES = {"sqlite": ("Examples", "Coverage", "Fuzzing", "Stateful"), "postgres": ("Fuzzing", "Stateful")}
"""What is known beforehand asks the same of either engine: once is enough."""


@pytest.mark.timeout(60 + 30 * int(EXAMPLES))
@pytest.mark.parametrize("engine", list(PHASES), scope="function")
def test_whatever_is_sent_the_answer_is_as_the_document_says(make_hub: MakeHub, engine: str, tmp_path: Path):
    hub = make_hub(engine, "--retry-seconds", "0")
    key = hub.post("/api-keys", {"name": "schemathesis", "scopes": ["admin"]}).json
    done = subprocess.run(
        [
            Path(sys.executable).with_name("schemathesis"),
            f"--config-file={HERE / 'schemathesis.toml'}",
            "run",
            f"{hub.server.url}/openapi.json",
            f"--header=Authorization: Bearer {key['key']}",
            f"--phases={','.join(PHASES[engine]).lower()}",
            f"--max-examples={EXAMPLES}",
            f"--seed={SEED}",
            "--continue-on-failure",
            "--no-color",
        ],
        cwd=tmp_path,
        env={
            **environment(),
            "PYTHONPATH": str(HERE.parents[1]),
            "SCHEMATHESIS_HOOKS": "tests.http.schemathesis_hooks",
            "SCHEMATHESIS_OWN_KEY_ID": key["id"],
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for phase in PHASES[engine]:
        assert re.search(rf"✅\s+{phase}\b", done.stdout), f"{phase} did not run:\n{done.stdout}"
    covered = re.search(r"API Links:\s+(\d+) covered", done.stdout)
    assert covered, done.stdout
    assert int(covered[1]) > 0
    assert hub.with_key(key["key"]).get("/api-keys").status == 200, "the run has lost its key on the way"
    log = hub.server.log(hub.log_starts)
    assert "Traceback" not in log, log
