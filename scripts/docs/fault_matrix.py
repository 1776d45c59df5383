"""The matrix of faults for the page "What we test", from the rows that `eventhub torture` works by."""

from eventhub.testing.torture.faults import FAULTS, Fault

MARK = "<!-- the matrix of faults -->"


def placed(markdown: str) -> str:
    """The page with the matrix in its place."""
    return markdown.replace(MARK, table())


def table() -> str:
    head = ["| # | fault | expected | engines | in every run as | proved by itself in |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *map(_row, FAULTS)])


def _row(fault: Fault) -> str:
    names = ", ".join(f"`{name}`" for name in fault.soak)
    tests = ", ".join(f"`{test}`" for test in fault.tests)
    engines = {"both": "both", "sqlite": "SQLite", "postgres": "PostgreSQL"}[fault.where]
    return f"| {fault.number} | {fault.words} | {fault.expected} | {engines} | {names} | {tests} |"
