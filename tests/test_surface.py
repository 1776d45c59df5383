"""What the package shows to the world, exactly: a name more or less is a decision, not an accident."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
import textwrap

import pytest

import eventhub
from eventhub import errors


def test_the_package_shows_exactly_this() -> None:
    assert sorted(eventhub.__all__) == [
        "Client",
        "DLQInspector",
        "DeadEvent",
        "Event",
        "EventBus",
        "EventManager",
        "EventQueue",
        "Hub",
        "IdempotencyGuard",
        "PermanentError",
        "QueuedEvent",
        "RetryPolicy",
        "Status",
        "Store",
        "Subscriber",
        "Success",
        "TransientError",
        "Worker",
        "__version__",
        "open_store",
    ]


def test_every_name_that_is_shown_is_there() -> None:
    for name in eventhub.__all__:
        assert getattr(eventhub, name) is not None


def test_the_package_does_not_import_what_only_some_need() -> None:
    script = """
        import sys, eventhub, eventhub.blocking
        assert {"Client", "Worker"} <= set(dir(eventhub))
        early = {"aiohttp", "eventhub.client", "opentelemetry", "rich", "structlog"} & sys.modules.keys()
        assert not early, early
        from eventhub import Client, Worker
        assert "aiohttp" not in sys.modules
    """
    subprocess.run([sys.executable, "-W", "error", "-c", textwrap.dedent(script)], check=True)


@pytest.mark.parametrize(
    ("use", "extra"), [("from eventhub import Hub", "server"), ("eventhub.Client('http://h')", "client")]
)
def test_a_name_whose_packages_are_not_installed_says_which_extra_brings_them(use: str, extra: str) -> None:
    script = f"""
        import sys
        sys.modules |= dict.fromkeys(("aiohttp", "cryptography"))  # as if they were not installed
        import eventhub
        {use}
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"pip install 'eventhub[{extra}]'" in done.stderr.splitlines()[-1]


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Clint'"):
        _ = eventhub.Clint


def test_the_errors_are_exactly_those_of_the_drawing() -> None:
    drawn = re.findall(r"[─│ ]*\b(\w+)(?: \(|  |\n)", (errors.__doc__ or "").split("carries.")[1])
    tree = [name for name in drawn if name[0].isupper() and hasattr(errors, name)]
    assert sorted(tree) == sorted(errors.__all__)


def test_every_error_of_the_module_is_exported() -> None:
    defined = [
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception) and value.__module__ == errors.__name__
    ]
    assert sorted(defined) == sorted(errors.__all__)


@pytest.mark.parametrize(
    ("name", "parents"),
    [
        ("InvalidEventError", ["EventHubError", "ValueError"]),
        ("InvalidPayloadError", ["InvalidEventError"]),
        ("PayloadTooLargeError", ["InvalidPayloadError"]),
        ("InvalidPatternError", ["InvalidEventError"]),
        ("IdempotencyConflict", ["EventHubError"]),
        ("EventNotFound", ["EventHubError", "LookupError"]),
        ("NotDeadError", ["EventHubError"]),
        ("ClaimLost", ["EventHubError"]),
        ("AlreadyReported", ["EventHubError"]),
        ("NotProcessing", ["EventHubError"]),
        ("HandlerExistsError", ["EventHubError", "ValueError"]),
        ("InvalidKeyError", ["EventHubError", "ValueError"]),
        ("KeyNotFound", ["EventHubError", "LookupError"]),
        ("EventBusShutdownError", ["EventHubError"]),
        ("NestedPublishError", ["EventHubError"]),
        ("SettingsError", ["EventHubError", "ValueError"]),
        ("ServerUnavailable", ["EventHubError"]),
        ("RemoteError", ["EventHubError"]),
        ("Unauthorized", ["RemoteError"]),
        ("Forbidden", ["RemoteError"]),
        ("StoreError", ["EventHubError"]),
        ("StoreUnavailable", ["StoreError"]),
        ("StoreBusy", ["StoreError"]),
        ("StoreReadOnly", ["StoreError"]),
        ("StoreFull", ["StoreError"]),
        ("StoreClosed", ["StoreError"]),
        ("SchemaMismatch", ["StoreError"]),
        ("EventHubError", ["Exception"]),
    ],
)
def test_the_tree_of_errors(name: str, parents: list[str]) -> None:
    assert [base.__name__ for base in getattr(errors, name).__bases__] == parents


def test_every_error_says_what_it_means() -> None:
    for name in errors.__all__:
        assert inspect.getdoc(getattr(errors, name))


@pytest.mark.parametrize(
    "module",
    [
        "eventhub.bus",
        "eventhub.client",
        "eventhub.clock",
        "eventhub.core.events",
        "eventhub.core.lifecycle",
        "eventhub.core.matching",
        "eventhub.core.outcomes",
        "eventhub.core.retry",
        "eventhub.core.scopes",
        "eventhub.core.strict_json",
        "eventhub.keys",
        "eventhub.queue",
        "eventhub.secret_file",
        "eventhub.store",
        "eventhub.store.claims",
        "eventhub.store.values",
    ],
)
def test_what_a_module_exports_it_has(module: str) -> None:
    loaded = importlib.import_module(module)
    exported = loaded.__all__
    assert len(set(exported)) == len(exported)
    for name in exported:
        assert hasattr(loaded, name)
    assert ast.get_docstring(ast.parse(inspect.getsource(loaded)))
