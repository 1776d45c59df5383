"""The SQL of both engines: the same files, every statement used, and none beside the files."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

from eventhub.store.queries import load_migrations, load_queries, query_names

ENGINES = ["eventhub.store.sqlite", "eventhub.store.postgres"]


def folder(package: str) -> Path:
    return Path(str(files(package)))


def names(package: str, kind: str) -> list[str]:
    return sorted(path.name for path in (folder(package) / kind).glob("*.sql"))


@pytest.mark.parametrize("kind", ["queries", "migrations"])
def test_both_engines_have_the_same_files(kind: str) -> None:
    first, second = (names(package, kind) for package in ENGINES)
    assert first == second != []


@pytest.mark.parametrize("package", ENGINES)
def test_every_statement_is_used(package: str) -> None:
    source = "\n".join(path.read_text() for path in folder(package).glob("*.py"))
    used = set(re.findall(r"\bSQL\.(\w+)", source)) | set(re.findall(r'"(\w+)"', source))
    assert set(query_names(package)) <= used


@pytest.mark.parametrize("package", ENGINES)
def test_every_statement_that_is_used_exists(package: str) -> None:
    source = "\n".join(path.read_text() for path in folder(package).glob("*.py"))
    assert set(re.findall(r"\bSQL\.(\w+)", source)) <= set(query_names(package))


@pytest.mark.parametrize("package", ENGINES)
def test_statements_are_not_empty_and_have_no_end(package: str) -> None:
    for name, text in vars(load_queries(package)).items():
        code = re.sub(r"--.*", "", text).strip()
        assert code, name
        assert not code.endswith(";"), name


def test_what_both_engines_call_the_same_comes_in_the_same_order() -> None:
    first, second = (query_names(package) for package in ENGINES)
    common = [name for name in first if name in second]
    assert common == [name for name in second if name in first]
    assert len(common) > 20


@pytest.mark.parametrize("package", ENGINES)
def test_migrations_are_numbered_without_a_gap(package: str) -> None:
    migrations = load_migrations(package)
    assert [number for number, _, _ in migrations] == list(range(1, len(migrations) + 1))
    assert all(name and script.strip() for _, name, script in migrations)
