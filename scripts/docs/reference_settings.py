"""The reference of settings, from their one declaration."""

from typing import Any, get_args

import msgspec
from cyclopts import App

from eventhub.cli import build_app
from eventhub.config import Settings, describe

INTRODUCTION = """# Settings

Each setting can be given in three ways. The first that is there counts:

1. a flag of the command, where the table names one: `--pool-size 20`;
2. a variable: `EVENTHUB_POOL_SIZE=20`;
3. a line in `eventhub.toml` in the working directory, or in the file that `EVENTHUB_CONFIG` names: `pool_size = 20`.

`eventhub doctor` shows each value and where it came from. A name that is no setting is an error in the file, and a
warning of `doctor` among the variables.

```toml
db = "postgresql://hub@db.internal/hub"
host = "0.0.0.0"
allowed_hosts = "hub.example.org"
workers = 2
log_format = "json"
```

| setting | flag | variable | type | default | meaning |
|---|---|---|---|---|---|
"""


def page() -> str:
    flags = _flags(build_app())
    return INTRODUCTION + "\n".join(_row(field, flags) for field in msgspec.structs.fields(Settings)) + "\n"


def _flags(app: App) -> set[tuple[str, str]]:
    """The flags of all commands with what they say; one of a setting says what the setting does."""
    found = set()
    if app.default_command is not None:
        for argument in app.assemble_argument_collection():
            found |= {(name, argument.parameter.help or "") for name in argument.names}
    for name in app:
        if not name.startswith("-"):
            found |= _flags(app[name])
    return found


def _row(field: msgspec.structs.FieldInfo, flags: set[tuple[str, str]]) -> str:
    flag = f"--{field.name.replace('_', '-')}"
    default = "" if field.default in ("", msgspec.NODEFAULT) else f"`{field.default}`"
    cells = (
        f'<a id="{field.name}"></a>`{field.name}`',
        f"`{flag}`" if (flag, describe(field.name)) in flags else "none",
        f"`EVENTHUB_{field.name.upper()}`",
        _type(field.type),
        default,
        describe(field.name),
    )
    return f"| {' | '.join(cells)} |"


def _type(declared: Any) -> str:
    """The plain type with its bounds, or the choices."""
    plain, bounds = declared, []
    for extra in get_args(declared)[1:] if hasattr(declared, "__metadata__") else ():
        plain = get_args(declared)[0]
        bounds += [f"≥ {extra.ge:,}"] if extra.ge is not None else []
        bounds += [f"> {extra.gt:,}"] if extra.gt is not None else []
        bounds += [f"≤ {extra.le:,}"] if extra.le is not None else []
    words = {str: "text", int: "whole number", float: "number"}
    if plain in words:
        return ", ".join([words[plain], *bounds])
    return ", ".join(f"`{choice}`" for choice in get_args(plain))
