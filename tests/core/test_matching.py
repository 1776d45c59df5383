"""Types, patterns and tags: what is accepted, and who wants which event."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventhub.core.matching import (
    MAX_TAGS,
    MAX_WANTED_TAGS,
    Pattern,
    any_of,
    check_name,
    check_type,
    parse_tags,
    type_matcher,
)
from eventhub.errors import InvalidEventError, InvalidPatternError

SEGMENTS = st.text("abcXYZ019_-:", min_size=1, max_size=6)
TYPES = st.lists(SEGMENTS, min_size=1, max_size=6).map(".".join)


@pytest.mark.parametrize(
    ("pattern", "event_type", "matches"),
    [
        ("user.created", "user.created", True),
        ("user.created", "user.deleted", False),
        ("user.created", "user.created.v2", False),
        ("user.created", "xuser.created", False),
        ("user.*", "user.created", True),
        ("user.*", "user.deleted", True),
        ("user.*", "user", False),
        ("user.*", "user.", False),
        ("user.*", "user.profile.updated", False),
        ("user.*", "users.created", False),
        ("*", "user.created", True),
        ("*", "x", True),
        ("*", "a.b.c.d.e", True),
        ("*.created", "user.created", True),
        ("*.created", "created", False),
        ("*.created", "a.b.created", False),
        ("order.*.shipped", "order.17.shipped", True),
        ("order.*.shipped", "order.shipped", False),
        ("order.*.shipped", "order.17.18.shipped", False),
        ("order.*.shipped", "order..shipped", False),
        ("*.*", "a.b", True),
        ("*.*", "a", False),
        ("*.*", "a.b.c", False),
        # everything else is literal
        ("user.c+", "user.created", False),
        ("user.c+", "user.ccc", False),
        ("user.c+", "user.c+", True),
        ("cre*", "created", False),
        ("cre*", "cre*", True),
        ("user.cre*", "user.created", False),
        ("**", "anything", False),
        ("user.**", "user.a.b", False),
        ("user.?", "user.a", False),
        ("user.[ab]", "user.a", False),
        ("user.(a|b)", "user.a", False),
        ("user.a$", "user.a", False),
        ("User.created", "user.created", False),
        ("ünïcode.*", "ünïcode.x", True),
    ],
)
def test_patterns(pattern: str, event_type: str, *, matches: bool) -> None:
    assert Pattern(pattern).matches(event_type) is matches


@given(TYPES)
def test_a_type_matches_itself_and_the_star(event_type: str) -> None:
    assert Pattern(event_type).matches(event_type)
    assert Pattern("*").matches(event_type)


@given(TYPES, st.data())
def test_a_star_stands_for_exactly_one_segment(event_type: str, data: st.DataObject) -> None:
    segments = event_type.split(".")
    place = data.draw(st.integers(0, len(segments) - 1))
    pattern = ".".join([*segments[:place], "*", *segments[place + 1 :]])
    assert Pattern(pattern).matches(event_type)
    assert Pattern(pattern).matches(event_type + ".more") is (pattern == "*")


@given(TYPES, TYPES)
def test_a_pattern_without_a_star_matches_nothing_else(pattern: str, event_type: str) -> None:
    assert Pattern(pattern).matches(event_type) is (pattern == event_type)


@pytest.mark.parametrize("text", ["", None, 5, b"user.*"])
def test_a_pattern_is_a_text_that_says_something(text: object) -> None:
    with pytest.raises(InvalidPatternError, match=r"use '\*' to take every event"):
        Pattern(text)  # type: ignore[arg-type]


def test_a_pattern_has_at_most_128_characters() -> None:
    Pattern("x" * 128)
    with pytest.raises(InvalidPatternError, match="129 characters; at most 128"):
        Pattern("x" * 129)


def test_a_pattern_has_at_most_8_wildcards() -> None:
    assert Pattern(".".join("*" * 8)).matches("a.b.c.d.e.f.g.h")
    with pytest.raises(InvalidPatternError, match="9 wildcards; at most 8"):
        Pattern(".".join("*" * 9))


def test_matching_is_linear_for_any_input() -> None:
    """What makes pattern engines explode costs no more than its length here."""
    patterns = [Pattern(".".join("*" * 8)), Pattern("*" * 128), Pattern("a." * 63 + "*"), Pattern(".".join("*a" * 7))]
    inputs = ["a." * 500_000, "a" * 1_000_000, "." * 1_000_000, "*" * 1_000_000]
    started = time.process_time()
    for pattern in patterns:
        for text in inputs:
            assert not pattern.matches(text)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("name", ["a", "user.created", "A-b_c:9", "x" * 128, ".", "..a"])
def test_good_names(name: str) -> None:
    assert check_type(name) == name
    assert check_name("The queue", name) == name


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a\n", "a,b", "ü", "a/b", "a*", "x" * 129, "a\x00", None, 5, b"a", ["a"]]
)
def test_bad_names(name: object) -> None:
    with pytest.raises(InvalidEventError, match=r"The event type .* is not usable: give 1 to 128 letters"):
        check_type(name)


def test_a_long_bad_name_is_shown_shortened() -> None:
    with pytest.raises(InvalidEventError) as caught:
        check_type("ü" * 100_000)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("given_tags", "expected"),
    [
        (None, ()),
        ("", ()),
        (" , ,", ()),
        ([], ()),
        ("a", ("a",)),
        ("b, a", ("a", "b")),
        (" b ,a,, b", ("a", "b")),
        (["b", " a "], ("a", "b")),
        (("a", "a"), ("a",)),
        ({"b", "a"}, ("a", "b")),
        (iter(["x"]), ("x",)),
        ("eu-west:1.x_y", ("eu-west:1.x_y",)),
    ],
)
def test_tags_are_a_sorted_set_without_blanks(given_tags: object, expected: tuple[str, ...]) -> None:
    assert parse_tags(given_tags) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("tags", ["a b", ["a,b"], ["ü"], [5], [None], [["a"]], [{"a": 1}], "x" * 129, b"ab"])
def test_bad_tags(tags: object) -> None:
    with pytest.raises(InvalidEventError, match=r"The tag .* is not usable"):
        parse_tags(tags)  # type: ignore[arg-type]


LONGEST = [f"{n:03d}".ljust(128, "x") for n in range(MAX_WANTED_TAGS + 1)]


@pytest.mark.parametrize("most", [MAX_TAGS, MAX_WANTED_TAGS])
def test_so_many_tags_of_full_length_and_not_one_more(most: int) -> None:
    assert (MAX_TAGS, MAX_WANTED_TAGS) == (64, 256)
    fitting = LONGEST[:most]
    assert parse_tags(fitting, most=most) == parse_tags(", ".join(fitting), most=most) == tuple(fitting)
    for one_more in (LONGEST[: most + 1], ["a"] * (most + 1), [""] * (most + 1), iter(LONGEST)):
        with pytest.raises(InvalidEventError, match=f"more than {most} tags; give at most {most}"):
            parse_tags(one_more, most=most)
    for text in (",".join(LONGEST[: most + 1]), "a," * most, "," * most):
        with pytest.raises(InvalidEventError, match=f"There are {most + 1} tags; give at most {most}"):
            parse_tags(text, most=most)


def test_blanks_around_tags_have_an_end() -> None:
    with pytest.raises(InvalidEventError, match=r"tags has 8,322 characters; at most 8,320 are allowed"):
        parse_tags(f"a{' ' * 8_320}b")


def test_a_tag_bomb_is_refused_before_its_tags_are_looked_at() -> None:
    with pytest.raises(InvalidEventError, match="There are 220,000 tags"):
        parse_tags(",".join("!" for _ in range(220_000)))


def test_tags_of_history_have_no_limit() -> None:
    assert len(parse_tags([str(n) for n in range(1000)], most=None)) == 1000


@given(
    st.sets(st.sampled_from(["a", "a.b", "a.*", "*.b", "*", "b.c.d", "*.*.d"])),
    st.from_regex(r"[abcd](\.[abcd]){0,2}", fullmatch=True),
)
def test_a_type_matcher_says_what_any_of_its_patterns_says(patterns: set[str], type_: str) -> None:
    assert type_matcher(patterns)(type_) == any(Pattern(text).matches(type_) for text in patterns)


@given(st.sets(SEGMENTS, max_size=MAX_TAGS))
def test_both_forms_of_tags_are_the_same(tags: set[str]) -> None:
    assert parse_tags(", ".join(tags)) == parse_tags(list(tags)) == tuple(sorted(tags))


@pytest.mark.parametrize(
    ("wanted", "tags", "fits"),
    [
        (None, "", True),
        (None, "a,b", True),
        (frozenset({"a"}), "a,b", True),
        (frozenset({"c", "b"}), "a,b", True),
        (frozenset({"c"}), "a,b", False),
        (frozenset({"a"}), "aa,ba", False),
        (frozenset({"a"}), "", False),
        (frozenset[str](), "a", False),
    ],
)
def test_any_whole_tag_is_enough_and_who_names_none_takes_all(
    wanted: frozenset[str] | None, tags: str, *, fits: bool
) -> None:
    assert any_of(wanted, tags.split(",")) is fits
