"""Settings: declared once, filled from four places, each value knowing where it came from."""

from dataclasses import fields
from pathlib import Path

import pytest

from eventhub.cli.options import Common
from eventhub.config import Settings, describe, hide_password, load, unknown_variables
from eventhub.errors import SettingsError


def write(directory: Path, text: str) -> Path:
    path = directory / "eventhub.toml"
    path.write_text(text)
    return path


def test_defaults_need_nothing(tmp_path: Path):
    loaded = load(environment={}, directory=tmp_path)
    assert loaded.settings == Settings()
    assert set(loaded.sources.values()) == {"default"}


def test_a_flag_wins_over_a_variable_over_the_file(tmp_path: Path):
    write(tmp_path, 'db = "file.db"\nwork_queue = "file"\npool_size = 5\n')
    environment = {"EVENTHUB_DB": "variable.db", "EVENTHUB_WORK_QUEUE": "variable"}
    loaded = load({"db": "flag.db", "work_queue": None}, environment=environment, directory=tmp_path)
    assert (loaded.settings.db, loaded.settings.work_queue, loaded.settings.pool_size) == ("flag.db", "variable", 5)
    assert loaded.sources["db"] == "flag --db"
    assert loaded.sources["work_queue"] == "variable EVENTHUB_WORK_QUEUE"
    assert loaded.sources["pool_size"] == f"file {tmp_path / 'eventhub.toml'}"
    assert loaded.sources["log_level"] == "default"


def test_the_file_may_be_elsewhere(tmp_path: Path):
    path = tmp_path / "other.toml"
    path.write_text('log_format = "json"\n')
    loaded = load(environment={"EVENTHUB_CONFIG": str(path)}, directory=tmp_path / "none")
    assert loaded.settings.log_format == "json"


def test_an_unknown_name_in_the_file_is_an_error_with_the_nearest_known(tmp_path: Path):
    write(tmp_path, "pool_sise = 5\nzzz = 1\n")
    with pytest.raises(SettingsError, match=r"'pool_sise' \(did you mean 'pool_size'\?\), 'zzz'"):
        load(environment={}, directory=tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pool_size = 0", "pool_size is 0"),
        ('pool_size = "5"', "pool_size is '5'"),
        ("db = 3", "db is 3"),
        ('db = ""', "db is ''"),
        ('log_level = "loud"', "give one of debug, info, warning, error, critical"),
        ("pool_size = ", "is not TOML"),
    ],
)
def test_a_value_that_cannot_work_is_named_with_its_source(tmp_path: Path, text: str, said: str):
    path = write(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        load(environment={}, directory=tmp_path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_was_named_must_be_there(tmp_path: Path):
    with pytest.raises(SettingsError, match="cannot be read"):
        load(environment={"EVENTHUB_CONFIG": str(tmp_path / "none.toml")})


def test_variables_are_text_and_choices_may_be_written_in_any_case(tmp_path: Path):
    environment = {"EVENTHUB_POOL_SIZE": "7", "EVENTHUB_SYNCHRONOUS": "normal", "EVENTHUB_LOG_LEVEL": "DEBUG"}
    settings = load(environment=environment, directory=tmp_path).settings
    assert (settings.pool_size, settings.synchronous, settings.log_level) == (7, "NORMAL", "debug")


def test_an_empty_variable_is_as_good_as_none(tmp_path: Path):
    assert load(environment={"EVENTHUB_DB": ""}, directory=tmp_path).settings.db == "eventhub.db"


def test_every_setting_is_explained_and_every_flag_is_a_setting():
    assert all(describe(name) for name in Settings.__struct_fields__)
    assert {field.name for field in fields(Common)} - {"json", "debug"} <= set(Settings.__struct_fields__)


def test_variables_that_nobody_reads_are_found():
    environment = {"EVENTHUB_DB": "x", "EVENTHUB_CONFIG": "y", "EVENTHUB_LOGLEVEL": "info", "HOME": "/"}
    assert unknown_variables({**environment, "EVENTHUB_SPARK_TRAINING": "off"}) == {
        "EVENTHUB_LOGLEVEL": "EVENTHUB_LOG_LEVEL"
    }


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("app.db", "app.db"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("postgresql://me:p%40ss@host:1/db?x=1", "postgresql://me:***@host:1/db?x=1"),
        ("postgresql://me:p/ss@host:1/db", "postgresql://…"),
        ("postgresql://host/db?user=me&password=secret", "postgresql://host/db"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str):
    assert hide_password(url) == shown


def test_private_networks_are_read_from_a_list_with_commas():
    networks = Settings(allow_private=" 127.0.0.0/8, fd00::/8,10.1.2.3 ").private_networks
    assert [str(network) for network in networks] == ["127.0.0.0/8", "fd00::/8", "10.1.2.3/32"]
    assert Settings().private_networks == ()


@pytest.mark.parametrize("text", ["localhost", "10.0.0.1/8", "127.0.0.0/33", "10.0.0.0/8;127.0.0.0/8"])
def test_a_network_that_is_none_is_refused_with_an_example(text: str):
    with pytest.raises(SettingsError, match=r"allow_private is .*; give networks such as 127\.0\.0\.0/8"):
        _ = Settings(allow_private=text).private_networks


def test_a_file_that_lies_about_does_not_redirect_a_key(tmp_path: Path):
    (tmp_path / "eventhub.toml").write_text('url = "http://evil.example"\n')
    for flags, environment in (({"key": "eh_k"}, {}), ({}, {"EVENTHUB_KEY": "eh_k"})):
        loaded = load(flags, environment=environment, directory=tmp_path)
        with pytest.raises(SettingsError, match=r"not sent to http://evil\.example.*EVENTHUB_URL"):
            loaded.key_for_url()
    for flags, environment in (
        ({"key": "eh_k", "url": "http://mine"}, {}),
        ({}, {"EVENTHUB_KEY": "eh_k", "EVENTHUB_URL": "http://mine"}),
        ({}, {"EVENTHUB_KEY": "eh_k", "EVENTHUB_CONFIG": str(tmp_path / "eventhub.toml")}),
    ):
        assert load(flags, environment=environment, directory=tmp_path).key_for_url() == "eh_k"
    assert load({}, environment={}, directory=tmp_path).key_for_url() is None
    (tmp_path / "eventhub.toml").write_text('url = "http://theirs"\nkey = "eh_theirs"\n')
    assert load({}, environment={}, directory=tmp_path).key_for_url() == "eh_theirs"


def test_secrets_on_the_command_line_are_found(tmp_path: Path):
    url = "postgresql://u:pw@host/db"
    assert load({"db": url, "key": "eh_k"}, environment={}, directory=tmp_path).exposed() == ["db", "key"]
    environment = {"EVENTHUB_DB": url, "EVENTHUB_KEY": "eh_k"}
    assert load({"db": "postgresql://u@host/db"}, environment=environment, directory=tmp_path).exposed() == []
