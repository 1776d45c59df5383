"""What mkdocs does for this project beyond reading docs/: reference from code, and pages of other directories.

docs/**/*.md ─────────────┐
reference_*.page() ───────┼─▶ mkdocs ─▶ build/docs
files that pages link to ─┘     links out of docs/ are led to where such a file is on the site
"""

import os.path
import re
from pathlib import Path, PurePosixPath
from typing import Any

import fault_matrix
import reference_cli
import reference_http
import reference_metrics
import reference_python
import reference_settings
import reference_tables
from mkdocs.structure.files import File, Files
from mkdocs.utils import get_relative_url

ROOT = Path(__file__).parents[2]
GENERATED = {
    "reference/cli.md": reference_cli,
    "reference/http.md": reference_http,
    "reference/metrics.md": reference_metrics,
    "reference/python.md": reference_python,
    "reference/settings.md": reference_settings,
    "reference/tables.md": reference_tables,
}
PAGES = {
    "deploy/README.md": "how-to/deploy.md",
    "benchmarks/README.md": "reference/peers.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages that lie elsewhere in the repository → where they are on the site."""
LOGO = ROOT / "src" / "eventhub" / "http" / "dashboard" / "static" / "logo.svg"
FETCHED_WORKER = "https://unpkg.com/iframe-worker/shim"
LOCAL_WORKER = "javascripts/local-worker.js"
"""The theme would fetch from elsewhere what lets the search work in pages that are opened as files."""
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)")


def on_files(files: Files, config: Any) -> Files:
    for path, module in GENERATED.items():
        files.append(File.generated(config, path, content=module.page()))
    for path, place in PAGES.items():
        files.append(File.generated(config, place, content=(ROOT / path).read_text()))
    files.append(File.generated(config, "logo.svg", content=LOGO.read_bytes()))
    here = {file.src_uri for file in files}
    for linked in sorted({path for file in list(files) for path in _links_out(file)}):
        if linked not in PAGES and f"files/{linked}" not in here and (ROOT / linked).is_file():
            files.append(File.generated(config, f"files/{linked}", content=(ROOT / linked).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as they work in the repository become links as they work on the site."""
    here = page.file.src_uri

    def placed(found: re.Match[str]) -> str:
        target = _in_repository(here, found[1])
        if (inside := _on_site(target)) is None:
            return found[1]
        return os.path.relpath(inside, PurePosixPath(here).parent)

    return LINK.sub(placed, fault_matrix.placed(markdown))


def on_post_page(output: str, page: Any, **_: Any) -> str:
    return output.replace(FETCHED_WORKER, get_relative_url(LOCAL_WORKER, page.url))


def on_post_template(output_content: str, **_: Any) -> str:
    return output_content.replace(FETCHED_WORKER, LOCAL_WORKER)


def _on_site(target: str) -> str | None:
    """Where a file of the repository is on the site; None if the link need not be changed."""
    if target in PAGES:
        return PAGES[target]
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    return f"files/{target}" if (ROOT / target).is_file() else None


def _in_repository(page: str, link: str) -> str:
    """The file that a link of a page leads to, from the root of the repository."""
    home = next((path for path, place in PAGES.items() if place == page), f"docs/{page}")
    return os.path.normpath(PurePosixPath(home).parent / link)


def _links_out(file: File) -> list[str]:
    if not file.src_uri.endswith(".md"):
        return []
    targets = [_in_repository(file.src_uri, link) for link in LINK.findall(file.content_string)]
    return [target for target in targets if not target.startswith("docs/")]
