"""Facts and their JSON form: any bytes come back, and what an epoch depends on is compared field by field."""

import dataclasses
import datetime
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from oasis_harness.conversation import Conversation, Reply, User
from oasis_harness.conversation.events import Body
from oasis_harness.errors import EpochMismatch

from .growing import EPOCH, HEAD, conversations


@pytest.mark.slow
@given(conversations())
def test_a_body_comes_back_as_it_was_written(conversation: Conversation) -> None:
    """Types too, and the JSON of what came back is the same bytes."""
    for node in conversation.nodes():
        again = Body.from_json(node.data)
        assert again == node.body and again.to_json() == node.data


@given(st.binary() | st.text().map(lambda text: text.encode()))
def test_text_is_a_json_string_where_it_is_utf8_and_base64_elsewhere(text: bytes) -> None:
    """A reader of the file can read all that is text."""
    stored = json.loads(Body(User(text), b"", (), "").to_json())["event"]["text"]
    try:
        assert stored == text.decode("utf-8")
    except UnicodeDecodeError:
        assert list(stored) == ["base64"]


@given(st.text())
def test_a_line_never_holds_a_raw_line_end(text: str) -> None:
    """JSON escapes CR and LF; U+0085 and U+2028 stand raw, and end no line of bytes."""
    data = Body(User(f"\r\n\u0085\u2028{text}".encode()), text.encode(), (), "").to_json()
    assert b"\r" not in data and b"\n" not in data and "\u0085\u2028".encode() in data


def test_a_surrogate_in_utf8_clothes_is_no_text() -> None:
    """CESU bytes decode nowhere; they are kept as bytes."""
    body = Body(User(b"\xed\xa0\x80"), b"", (), "")
    assert b'{"base64":"7aCA"}' in body.to_json() and Body.from_json(body.to_json()) == body


FORGED = [
    ('{"base64":5}', "expected a string"),
    ('{"base64":["QQ=="]}', "expected a string"),
    ('{"base64":"QQ==","more":1}', "expected a string"),
    ('{"base64":"Q"}', "padding|number of data"),
    ('{"base64":"\u00e9"}', "ASCII"),
    ("5", "expected a string"),
    ("null", "expected a string"),
    ('"\\ud800"', "hex escape|surrogate"),
]


@pytest.mark.parametrize(("text", "reason"), FORGED)
def test_a_text_of_another_form_is_refused(text: str, reason: str) -> None:
    """As a ValueError, whatever it is; the store turns it into a line number."""
    with pytest.raises(ValidationError, match=reason):
        Body.from_json(f'{{"event":{{"kind":"user","text":{text}}},"sent":"","ids":[],"seam":""}}'.encode())


def test_the_finish_of_a_reply_may_be_a_member_of_an_enumeration() -> None:
    """It is written as its value, and compares equal."""
    from oasis_harness.engine import Finish, ToolChoice

    body = Body(Reply(b"", Finish.STOP, ToolChoice.AUTO, 0), b"", (), "")
    assert Body.from_json(body.to_json()) == body == Body(Reply(b"", "stop", "auto", 0), b"", (), "")


@pytest.mark.parametrize("field", ["template", "arguments", "tokenizer"])
def test_an_epoch_refuses_another_template_arguments_or_tokenizer(field: str) -> None:
    """The message names the field and shows both values."""
    other = dataclasses.replace(EPOCH, **{field: '{"other":1}'})
    with pytest.raises(EpochMismatch, match=f"sent with {field} .*other") as error:
        EPOCH.require(other)
    assert error.value.values["field"] == field and error.value.remedy
    EPOCH.require(dataclasses.replace(EPOCH))


def test_the_date_is_told_apart_from_the_switches() -> None:
    """Both stand in the arguments that the template was given."""
    epoch = dataclasses.replace(EPOCH, arguments='{"date":"2024-02-29","enable_thinking":false}')
    assert epoch.date() == datetime.date(2024, 2, 29) and epoch.switches() == {"enable_thinking": False}
    assert HEAD.epoch.date() is None
