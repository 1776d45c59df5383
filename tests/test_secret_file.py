"""The secret file: made once, whole and private, whoever else is starting at the same time."""

import base64
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from eventhub import config, secret_file
from eventhub.errors import SettingsError
from eventhub.store import open_store

RACER = """
import sys
from pathlib import Path
from eventhub import secret_file
sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()
print(secret_file.read_or_create(Path(sys.argv[1])).hex())
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_secret_is_32_random_bytes_that_its_owner_alone_may_read(tmp_path: Path):
    path = tmp_path / "hub.secret"
    first = secret_file.read_or_create(path)
    assert len(first) == 32
    assert mode(path) == 0o600
    assert base64.b64decode(path.read_bytes()) == first
    assert secret_file.read_or_create(path) == secret_file.read(path) == first
    assert secret_file.read_or_create(tmp_path / "other.secret") != first
    assert sorted(file.name for file in tmp_path.iterdir()) == ["hub.secret", "other.secret"]


def test_directories_that_are_made_for_it_are_private_and_others_stay_as_they_are(tmp_path: Path):
    tmp_path.chmod(0o755)
    secret_file.read_or_create(tmp_path / "a" / "b" / "hub.secret")
    assert (mode(tmp_path), mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (0o755, 0o700, 0o700)


def test_a_generous_umask_opens_nothing(tmp_path: Path):
    before = os.umask(0)
    try:
        secret_file.read_or_create(tmp_path / "a" / "hub.secret")
    finally:
        os.umask(before)
    assert (mode(tmp_path / "a"), mode(tmp_path / "a" / "hub.secret")) == (0o700, 0o600)


def test_processes_that_start_at_once_get_one_and_the_same(tmp_path: Path):
    for place in range(3):
        path = tmp_path / f"{place}" / "hub.secret"
        racers = [
            subprocess.Popen(
                [sys.executable, "-c", RACER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for _ in range(12)
        ]
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        secrets = {racer.communicate(timeout=60)[0].strip() for racer in racers}
        assert [racer.returncode for racer in racers] == [0] * 12
        assert secrets == {secret_file.read(path).hex()}
        assert [file.name for file in path.parent.iterdir()] == ["hub.secret"]


@pytest.mark.parametrize("bits", [0o604, 0o640, 0o602, 0o660, 0o777])
def test_a_file_that_others_can_use_is_refused_with_the_remedy(tmp_path: Path, bits: int):
    path = tmp_path / "hub.secret"
    secret = secret_file.read_or_create(path)
    path.chmod(bits)
    with pytest.raises(SettingsError, match=rf"can be used by others \(mode {bits:04o}\)") as caught:
        secret_file.read_or_create(path)
    command = str(caught.value).partition("Run: ")[2]
    subprocess.run(command.split(), check=True)
    assert secret_file.read_or_create(path) == secret


def test_a_file_that_its_owner_cannot_write_is_good(tmp_path: Path):
    path = tmp_path / "hub.secret"
    secret = secret_file.read_or_create(path)
    path.chmod(0o400)
    assert secret_file.read_or_create(path) == secret


def test_a_link_to_the_file_is_as_good(tmp_path: Path):
    secret = secret_file.read_or_create(tmp_path / "real.secret")
    (tmp_path / "hub.secret").symlink_to("real.secret")
    assert secret_file.read_or_create(tmp_path / "hub.secret") == secret


def test_a_damaged_file_is_refused_and_left_as_it_is(tmp_path: Path):
    path = tmp_path / "hub.secret"
    secret_file.read_or_create(path)
    whole = path.read_bytes()
    damages = [
        *(whole[:length] for length in range(len(whole) - 1)),
        whole + whole,
        b"!" + whole[1:],
        bytes(32),
        b"\xff" * 10_000,
        base64.b64encode(bytes(33)),
    ]
    for damage in damages:
        path.write_bytes(damage)
        with pytest.raises(SettingsError, match=r"is damaged.*Restore it from a backup"):
            secret_file.read_or_create(path)
        assert path.read_bytes() == damage
    path.write_bytes(b" \n" + whole.strip() + b"\r\n")
    assert secret_file.read(path) == base64.b64decode(whole)


def test_what_is_no_file_is_refused_at_once(tmp_path: Path):
    (tmp_path / "directory").mkdir(mode=0o700)
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("directory", "pipe"):
        with pytest.raises(SettingsError, match="EVENTHUB_SECRET_FILE"):
            secret_file.read_or_create(tmp_path / name)
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"cannot be read \(Not a directory\)"):
        secret_file.read_or_create(tmp_path / "file" / "hub.secret")


def test_a_place_where_nothing_can_be_made_is_said_in_words():
    # /proc takes no files, whoever asks.
    with pytest.raises(SettingsError, match=r"/proc/hub.secret cannot be written \(.+\)\. Check the path"):
        secret_file.read_or_create(Path("/proc/hub.secret"))


def test_one_that_must_be_there_is_not_made(tmp_path: Path):
    with pytest.raises(SettingsError, match="Copy it from where the server runs"):
        secret_file.read(tmp_path / "hub.secret")
    assert list(tmp_path.iterdir()) == []


def test_by_default_it_lies_beside_an_sqlite_file(tmp_path: Path):
    loaded = config.load(environment={}, directory=tmp_path)
    for url in (f"sqlite:///{tmp_path}/data/app.db", f"{tmp_path}/data/app.db"):
        assert secret_file.locate(loaded, open_store(url)) == tmp_path / "data" / "eventhub.secret"
    assert secret_file.locate(loaded, open_store("app.db")) == Path.cwd() / "eventhub.secret"


def test_elsewhere_it_is_where_the_setting_says(tmp_path: Path):
    store = open_store(tmp_path / "data" / "app.db")
    named = config.load({"secret_file": "keys/own.secret"}, environment={}, directory=tmp_path)
    assert secret_file.locate(named, store) == Path.cwd() / "keys" / "own.secret"
    same_as_default = config.load(environment={"EVENTHUB_SECRET_FILE": "eventhub.secret"}, directory=tmp_path)
    assert secret_file.locate(same_as_default, store) == Path.cwd() / "eventhub.secret"
    default = config.load(environment={}, directory=tmp_path)
    for url in ("postgresql://app@host/shop", ":memory:"):
        assert secret_file.locate(default, open_store(url)) == Path.cwd() / "eventhub.secret"


@pytest.mark.parametrize("content", [b"CHANGE-ME CHANGE-ME CHANGE-ME!!!", bytes(32), b"0123456789" * 3 + b"01"])
def test_an_example_that_everybody_knows_is_refused(tmp_path: Path, content: bytes):
    path = tmp_path / "secret"
    path.write_bytes(base64.b64encode(content))
    path.chmod(0o600)
    with pytest.raises(SettingsError, match=r"an example that everybody knows.*head -c 32 /dev/urandom"):
        secret_file.read(path)


def test_the_secret_of_the_deployment_files_is_refused(tmp_path: Path):
    example = Path(__file__).parents[1] / "deploy" / "kubernetes" / "secret.example.yaml"
    (line,) = [each for each in example.read_text().splitlines() if each.strip().startswith("eventhub.secret:")]
    path = tmp_path / "secret"
    path.write_text(line.partition(":")[2].strip())
    path.chmod(0o600)
    with pytest.raises(SettingsError, match="an example that everybody knows"):
        secret_file.read_or_create(path)
