"""A terminal in which the commands of a page are typed, one after the other, as a reader would.

    statement ──▶ bash (one for all: what is exported or changed stays) ──▶ its output, compared with what is promised
    server, worker, listener ──▶ a process beside it, as in a second terminal, ended by Ctrl-C

A promised line may have … for what differs from run to run; spaces count as one.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.cli.support import EVENTHUB
from tests.docs.pages import Step

LONGEST = 100.0
STAYS = re.compile(r"^(?:eventhub (serve|listen|worker)\b|(eventhub pipeline run)\b.*--continuous)")
LOOKS = re.compile(
    r"^(?:cat|ls) |^curl -s '?http[^ ]*'?$|^eventhub .*\b(?:list|show|stats|status|keys)\b(?! (?:create|rotate|revoke))"
)
"""Commands that change nothing: they are repeated until what others do beside them is there."""
READY = {"serve": "listens on", "listen": "Listening on", "worker": "worker started", "eventhub pipeline run": "rests"}
DONE = "\x01done"


@dataclass
class Beside:
    """A process that stays, and what it is said to print."""

    process: subprocess.Popen[bytes]
    log: Path
    promised: tuple[str, ...]

    def end(self) -> None:
        wait_for(lambda: missing(self.promised, self.log.read_text()) is None, self._lacking)
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(60) in (0, 130, -signal.SIGINT), self.log.read_text()

    def _lacking(self) -> str:
        return f"{missing(self.promised, self.log.read_text())!r} is not in: {self.log.read_text()}"


@dataclass
class Terminal:
    directory: Path
    environment: Mapping[str, str]
    places: dict[str, str] = field(default_factory=dict)
    """What stands in the pages → what it is here: ports, URLs, ids; and secrets that a command has shown."""

    programs: Path | None = None
    """A directory whose programs come before all others."""

    def __enter__(self) -> Self:
        self._beside: dict[str, Beside] = {}
        self._started: list[Beside] = []
        first = [] if self.programs is None else [str(self.programs)]
        path = ":".join([*first, str(Path(sys.executable).parent), os.environ["PATH"]])
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=self.directory,
            env={**self.environment, "PATH": path, "COLUMNS": "250", "LC_ALL": "C.UTF-8"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.end_all()
        finally:
            for beside in self._started:
                beside.process.kill()
                beside.process.wait()
            self._bash.communicate()

    def end_all(self) -> None:
        """Ctrl-C in every other terminal, those that were opened last first."""
        for name in reversed(list(self._beside)):
            self._beside.pop(name).end()

    def write(self, name: str, text: str) -> None:
        """Save a file where the commands run now."""
        (Path(self._type("pwd")[1].strip()) / name).write_text(self._placed(text))

    def run(self, step: Step) -> str:
        """Type a command; it must succeed and print what is promised."""
        command, promised = self._placed(step.command), tuple(map(self._placed, step.promised))
        if stays := STAYS.match(command):
            self._start(stays[1] or stays[2], command, promised)
            return ""
        code, printed = self._type(command)
        self._remember(printed)
        if LOOKS.match(command) and missing(promised, printed) is not None:
            end = time.monotonic() + LONGEST / 2
            while missing(promised, printed) is not None and time.monotonic() < end:
                code, printed = self._type(command)
        assert code == 0, f"{command}\nended with {code}:\n{printed}"
        lacking = missing(promised, printed)
        assert lacking is None, f"{command}\ndid not print {lacking!r}, or not in its place:\n{printed}"
        return printed

    def _remember(self, printed: str) -> None:
        """What is shown once, and what a reader would copy: a secret, the id of a key."""
        if secret := re.search(r"whsec_[A-Za-z0-9+/]+=*", printed):
            self.places["whsec_…"] = secret[0]
        if key := re.search(r"\beh_([A-Za-z0-9]+)_", printed):
            self.places[" ID"] = f" {key[1]}"

    def _placed(self, text: str) -> str:
        for here, there in self.places.items():
            text = text.replace(here, there)
        return text

    def _type(self, command: str) -> tuple[int, str]:
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f"{{ {command}\n}} </dev/null; printf '\\n%s %s\\n' '{DONE}' $?\n")
        self._bash.stdin.flush()
        lines: list[str] = []
        while not (line := self._bash.stdout.readline()).startswith(DONE):
            assert line, f"bash ended at: {command}\n{''.join(lines)}"
            lines.append(line)
        return int(line.removeprefix(DONE)), "".join(lines)

    def _start(self, name: str, command: str, promised: tuple[str, ...]) -> None:
        if name in self._beside:
            self._beside.pop(name).end()
        log = self.directory / f".{len(self._started)}.log"
        here, environment = self._type("pwd; env -0 | tr '\\0' '\\1'")[1].split("\n", 1)
        with log.open("wb") as file:
            process = subprocess.Popen(
                [EVENTHUB, *shlex.split(command, comments=True)[1:]],
                cwd=here,
                env=dict(pair.split("=", 1) for pair in environment.strip("\n").split("\1") if "=" in pair),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self._beside[name] = Beside(process, log, promised)
        self._started.append(self._beside[name])
        ready = READY[name]
        wait_for(lambda: ready in log.read_text() or process.poll() is not None, lambda: f"{command} is not ready")
        assert process.poll() is None, log.read_text()


def missing(promised: tuple[str, ...], printed: str) -> str | None:
    """The first promised line that is not there in its place."""
    lines = iter([" ".join(line.split()) for line in printed.splitlines()])
    for line in promised:
        wanted = re.compile(".*".join(re.escape(" ".join(part.split())) for part in line.split("…")))
        if not any(wanted.fullmatch(found) for found in lines):
            return line
    return None


def wait_for(condition: Callable[[], bool], said: Callable[[], str], seconds: float = 60.0) -> None:
    """Until the condition holds, which another process brings about."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, said()
        time.sleep(0.02)
