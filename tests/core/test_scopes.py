"""What a key may do: tables for the rules, Hypothesis for what must hold whatever the scopes are."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventhub.core.matching import Pattern
from eventhub.core.scopes import ADMIN, JOB, METRICS, MOST, PUBLISH, READ, WORK, Scopes
from eventhub.errors import InvalidKeyError

KINDS = (PUBLISH, WORK, READ, METRICS, ADMIN)
SEGMENTS = st.text("abz09_-", min_size=1, max_size=4)
TYPES = st.lists(SEGMENTS, min_size=1, max_size=4).map(".".join)
PATTERNS = st.lists(SEGMENTS | st.just("*"), min_size=1, max_size=4).map(".".join)
TAGS = st.text("abz09._:-", min_size=1, max_size=6)
SCOPES = st.sampled_from(KINDS) | PATTERNS.map("publish:{}".format) | TAGS.map("work:{}".format)
SCOPES |= TAGS.map("publish:#{}".format) | PATTERNS.map("read:{}".format) | TAGS.map("read:#{}".format)


@pytest.mark.parametrize(
    ("texts", "allowed"),
    [
        (["publish"], {PUBLISH}),
        (["publish:order.*"], {PUBLISH}),
        (["work:email", "read"], {WORK, READ, METRICS}),
        (["read"], {READ, METRICS}),
        (["read:order.*"], {READ}),
        (["metrics"], {METRICS}),
        (["admin"], {PUBLISH, WORK, READ, METRICS, ADMIN}),
    ],
)
def test_a_key_has_the_scopes_it_was_given_and_admin_has_all(texts: list[str], allowed: set[str]) -> None:
    scopes = Scopes.parse(texts)
    assert {kind for kind in KINDS if scopes.allows(kind)} == allowed
    assert scopes.texts == tuple(texts)


@pytest.mark.parametrize(
    ("texts", "event_type", "allowed"),
    [
        (["publish"], "order.placed", True),
        (["publish"], None, True),
        (["admin"], "order.placed", True),
        (["read", "work"], "order.placed", False),
        (["publish:order.*"], "order.placed", True),
        (["publish:order.*"], "order", False),
        (["publish:order.*"], "order.placed.late", False),
        (["publish:order.*"], "orders.placed", False),
        (["publish:order.*"], None, False),
        (["publish:order.placed"], "order.placed", True),
        (["publish:a", "publish:order.*"], "order.placed", True),
        (["publish:order.*", "publish"], "user.created", True),
        (["publish:*"], None, True),
        (["publish:job"], None, True),
        (["publish:job"], JOB, True),
        (["publish:job"], "jobs", False),
        (["publish:a:b.*"], "a:b.c", True),
    ],
)
def test_what_may_be_published(texts: list[str], event_type: str | None, *, allowed: bool) -> None:
    assert Scopes.parse(texts).allows_publish(event_type) is allowed


@pytest.mark.parametrize(
    ("texts", "event_type", "tags", "allowed"),
    [
        (["publish"], "order.placed", ["email"], True),
        (["admin"], None, ["email"], True),
        (["publish:order.*"], "order.placed", ["email"], False),
        (["publish:order.*", "publish:#email"], "order.placed", ["email"], True),
        (["publish:order.*", "publish:#email"], "order.placed", [], True),
        (["publish:order.*", "publish:#email"], "order.placed", ["email", "sms"], False),
        (["publish:order.*", "publish:#email"], "user.created", ["email"], False),
        (["publish:#email"], None, ["email"], True),
        (["publish:#email"], JOB, ["email"], True),
        (["publish:#email"], None, [], False),
        (["publish:#email"], "order.placed", ["email"], False),
        (["publish:job"], None, ["email"], False),
        (["publish:*", "publish:#email"], "a.b", ["sms"], False),
        (["publish", "publish:#email"], "a.b", ["sms"], True),
    ],
)
def test_a_narrowed_key_publishes_with_the_tags_it_names(
    texts: list[str], event_type: str | None, tags: list[str], *, allowed: bool
) -> None:
    assert Scopes.parse(texts).allows_publish(event_type, tags) is allowed


@pytest.mark.parametrize(
    ("texts", "event_type", "tags", "allowed"),
    [
        (["read"], "order.placed", [], True),
        (["admin"], "order.placed", [], True),
        (["read:order.*"], "order.placed", ["email"], True),
        (["read:order.*"], "order.placed.late", [], False),
        (["read:order.*"], JOB, ["email"], False),
        (["read:#email"], JOB, ["sms", "email"], True),
        (["read:#email"], "email", [], False),
        (["read:order.*", "read:#email"], "user.created", ["email"], True),
        (["read:order.*", "read"], "user.created", [], True),
        (["metrics"], "order.placed", [], False),
        (["publish:order.*", "work:email"], "order.placed", ["email"], False),
    ],
)
def test_which_events_a_key_may_look_at(texts: list[str], event_type: str, tags: list[str], *, allowed: bool) -> None:
    assert Scopes.parse(texts).allows_read(event_type, tags) is allowed


def test_nobody_may_do_nothing() -> None:
    nobody = Scopes.none()
    assert not any(nobody.allows(kind) for kind in KINDS)
    assert not nobody.reads_all
    assert not nobody.allows_read("a.b", ["c"])
    assert not nobody.allows_publish("a.b")
    assert not nobody.allows_publish(None, ["c"])


@pytest.mark.parametrize(
    ("texts", "tags", "asks", "reports"),
    [
        (["work"], ["email"], True, True),
        (["work"], [], True, True),
        (["admin"], ["email"], True, True),
        (["publish", "read"], ["email"], False, False),
        (["work:email"], ["email"], True, True),
        (["work:email"], ["sms"], False, False),
        (["work:email"], ["email", "sms"], False, True),
        (["work:email", "work:sms"], ["email", "sms"], True, True),
        (["work:email"], ["e-mail"], False, False),
        (["work:email"], ["emai"], False, False),
        (["work:email"], ["email.de"], False, False),
        (["work:email"], [], False, False),
        (["work:email", "work"], ["sms"], True, True),
        (["work:eu:west"], ["eu:west"], True, True),
    ],
)
def test_which_work_may_be_asked_for_and_reported_on(
    texts: list[str], tags: list[str], *, asks: bool, reports: bool
) -> None:
    scopes = Scopes.parse(texts)
    assert scopes.allows_work(tags) is asks
    assert scopes.allows_job(tags) is reports


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([], "no scope; give at least one of publish, work, read, metrics, admin"),
        (["write"], "no scope 'write'"),
        ([""], "no scope ''"),
        (["Publish"], "no scope 'Publish'"),
        ([" publish"], "no scope ' publish'"),
        (["publish,read"], "no scope 'publish,read'"),
        (["metrics:order.*"], "'metrics:order.*' cannot be narrowed; give metrics alone"),
        (["read:"], "'read:': The pattern '' is empty"),
        (["read:#"], "'read:#': the tag '' is not usable"),
        (["publish:#a,b"], "the tag 'a,b' is not usable"),
        (["work:#email"], "the tag '#email' is not usable"),
        (["admin:"], "'admin:' cannot be narrowed; give admin alone"),
        (["publish:"], "'publish:': The pattern '' is empty"),
        (["publish:ü"], "'publish:ü' matches no event"),
        (["publish:a b"], "'publish:a b' matches no event"),
        (["publish:a\n"], r"'publish:a\n' matches no event"),
        (["publish:" + "x" * 129], "129 characters; at most 128"),
        (["publish:" + ".".join("*" * 9)], "9 wildcards; at most 8"),
        (["work:"], "'work:': the tag '' is not usable"),
        (["work:*"], "'work:*': the tag '*' is not usable"),
        (["work:a,b"], "the tag 'a,b' is not usable"),
        ([5], "scope 5 is not a text"),
        ([None], "scope None is not a text"),
        ("publish", "a list such as"),
        ([f"work:{n}" for n in range(MOST + 1)], "51 scopes; at most 50"),
    ],
)
def test_a_scope_that_means_nothing_is_refused_in_words(texts: list[str], said: str) -> None:
    with pytest.raises(InvalidKeyError) as caught:
        Scopes.parse(texts)
    assert said in str(caught.value)


def test_what_is_shown_of_a_wrong_scope_is_short() -> None:
    for text in ("x" * 100_000, "work:" + "ü" * 100_000, "publish:" + "ü" * 100_000):
        with pytest.raises(InvalidKeyError) as caught:
            Scopes.parse([text])
        assert len(str(caught.value)) < 400


def test_a_scope_given_twice_counts_once() -> None:
    assert Scopes.parse(["read", "work:a", "read", "work:a"]).texts == ("read", "work:a")


def test_somebody_without_scopes_may_do_nothing() -> None:
    nothing = Scopes.none()
    assert not any(nothing.allows(kind) for kind in KINDS)
    assert not nothing.allows_publish(None)
    assert not nothing.allows_publish("a")
    assert not nothing.allows_work(["a"])
    assert not nothing.allows_job(["a"])


@given(st.lists(SCOPES, min_size=1, max_size=6), TYPES, st.lists(TAGS, max_size=3))
def test_scopes_mean_what_each_of_them_means(texts: list[str], event_type: str, tags: list[str]) -> None:
    scopes = Scopes.parse(texts)
    everything = ADMIN in texts
    parts = [text.partition(":") for text in texts]
    named = {kind: [part for name, colon, part in parts if name == kind and colon] for kind in KINDS}
    patterns, tagged = _split(named[PUBLISH])
    read_patterns, read_tags = _split(named[READ])
    own = set(named[WORK])
    assert scopes.allows_publish(event_type) is (
        everything or PUBLISH in texts or any(pattern.matches(event_type) for pattern in patterns)
    )
    assert scopes.allows_publish(event_type, tags) is (
        everything
        or PUBLISH in texts
        or (set(tags) <= tagged and any(pattern.matches(event_type) for pattern in patterns))
    )
    assert scopes.allows_read(event_type, tags) is (
        everything
        or READ in texts
        or any(pattern.matches(event_type) for pattern in read_patterns)
        or bool(set(tags) & read_tags)
    )
    assert scopes.allows_work(tags) is (everything or WORK in texts or (tags != [] and set(tags) <= own))
    assert scopes.allows_job(tags) is (everything or WORK in texts or bool(set(tags) & own))
    for kind in KINDS:
        reads_metrics = kind == METRICS and READ in texts
        assert scopes.allows(kind) is (everything or reads_metrics or kind in {name for name, _, _ in parts})


def _split(parts: list[str]) -> tuple[list[Pattern], set[str]]:
    """Patterns of types, and tags."""
    tags = {part.removeprefix("#") for part in parts if part.startswith("#")}
    return [Pattern(part) for part in parts if not part.startswith("#")], tags


@given(st.lists(SCOPES, min_size=1, max_size=6), SCOPES, TYPES, st.lists(TAGS, max_size=3))
def test_a_further_scope_takes_nothing_away(texts: list[str], more: str, event_type: str, tags: list[str]) -> None:
    fewer, all_of_them = Scopes.parse(texts), Scopes.parse([*texts, more])
    assert fewer.allows_publish(event_type) <= all_of_them.allows_publish(event_type)
    assert fewer.allows_work(tags) <= all_of_them.allows_work(tags)
    assert fewer.allows_job(tags) <= all_of_them.allows_job(tags)
    assert fewer.allows_publish(event_type, tags) <= all_of_them.allows_publish(event_type, tags)
    assert fewer.allows_read(event_type, tags) <= all_of_them.allows_read(event_type, tags)


@given(st.lists(SCOPES, min_size=1, max_size=6))
def test_scopes_survive_being_written_down(texts: list[str]) -> None:
    scopes = Scopes.parse(texts)
    assert Scopes.parse(scopes.texts) == scopes


@given(st.lists(st.text(max_size=20) | st.sampled_from(KINDS), max_size=3))
def test_whatever_is_given_is_taken_or_refused_in_words(texts: list[str]) -> None:
    with contextlib.suppress(InvalidKeyError):
        assert Scopes.parse(texts).texts
