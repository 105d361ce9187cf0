"""What the harness authors has one form, and one name."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oasis_harness.canonical import canonical_json, digest, text_bytes

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_canonical_json_reads_back_and_is_its_own_form(value: object) -> None:
    """Reading it gives the value, and writing that again gives the same bytes."""
    data = canonical_json(value)
    assert json.loads(data) == value
    assert canonical_json(json.loads(data)) == data


def test_keys_keep_their_order_and_text_its_characters() -> None:
    """The declaration order of a schema is part of a prompt; nothing is escaped that JSON lets stand."""
    assert canonical_json({"b": 1, "a": "é<&>"}) == '{"b":1,"a":"é<&>"}'.encode()


@pytest.mark.parametrize("value", [math.nan, math.inf, {1: "x"}, [{None: 1}], {"a": [{True: 1}]}, "\ud83d"])
def test_what_json_would_bend_is_refused(value: object) -> None:
    """NaN, keys that are no strings, half a surrogate pair."""
    with pytest.raises(ValueError):
        canonical_json(value)


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
def test_two_lists_of_parts_share_a_digest_only_if_they_are_equal(one: list[bytes], other: list[bytes]) -> None:
    """Moving a byte from one part to the next changes the name."""
    assert (digest(*one) == digest(*other)) is (one == other)
    assert digest(*one).startswith("sha256:")


@given(st.text(st.characters(codec=None)))
def test_any_text_has_bytes(text: str) -> None:
    """Whatever a tool or a model brings; escaped bytes come back as they were."""
    assert isinstance(text_bytes(text), bytes)
    assert text_bytes(b"\xff\xfe ok".decode(errors="surrogateescape")) == b"\xff\xfe ok"
    assert text_bytes("\ud83d!") == b"\\ud83d!"
