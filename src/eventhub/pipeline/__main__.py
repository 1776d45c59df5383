"""``eventhub pipeline`` as a file, for ``spark-submit``: ``spark-submit …/eventhub/pipeline/__main__.py run``."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # The directory of a script comes first on the path; the modules in it are none to import by their bare names.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).parent.resolve()]
    from eventhub.cli import main

    sys.exit(main(["pipeline", *sys.argv[1:]]))
