"""Dialects: what a template does not know travels as text, and a conversation is bound to what rendered it."""

import json
from dataclasses import replace

import pytest

from oasis_harness.conversation import Epoch, Head
from oasis_harness.errors import EpochMismatch
from oasis_harness.render import Dialect
from oasis_harness.replies import JSON_CALLS

from .families import EXTENDING, VARIABLES, XML_CALLS
from .talk import DATE, EPOCH, dialect, tool
from .templates import CHATML, CHATML_TOOLS, GLM, GRANITE, LLAMA

FAMILIES = {family.name: family for family in EXTENDING}
SHELL = json.dumps(tool("shell", "Run it.")).encode()
HEAD = Head(EPOCH, b"Be brief.", (SHELL,), (b"tidy: cleans up",))


def compose(source: str, **options: object) -> Dialect:
    return Dialect.compose(source, variables=VARIABLES, **options)  # type: ignore[arg-type]


def test_tools_the_template_knows_are_handed_to_it() -> None:
    messages, tools = compose(CHATML_TOOLS).first_messages(HEAD, "Hi")
    assert [message["role"] for message in messages] == ["system", "user"]
    assert tools == [json.loads(SHELL)] and "shell" not in messages[0]["content"]
    assert (
        messages[0]["content"].startswith("Be brief.\n\n# Skills\n") and "- tidy: cleans up" in messages[0]["content"]
    )


@pytest.mark.parametrize("source", [CHATML, GRANITE])
def test_tools_it_does_not_know_or_calls_it_never_shows_travel_as_text(source: str) -> None:
    spoken = compose(source)
    messages, tools = spoken.first_messages(HEAD, "Hi")
    system = messages[0]["content"]
    assert tools == [] and system.index("Be brief.") < system.index('"name": "shell"') < system.index("tidy")
    assert '<tool_call>{"name": <name>, "arguments": <arguments>}</tool_call>' in system
    assert spoken.syntax == JSON_CALLS and spoken.syntax.is_json


def test_the_head_stands_before_the_users_words_where_there_is_no_system_role() -> None:
    messages, _ = dialect(FAMILIES["gemma"]).first_messages(HEAD, "Hi")
    assert [message["role"] for message in messages] == ["user"]
    assert messages[0]["content"].startswith("Be brief.\n\n# Tools") and messages[0]["content"].endswith("\n\nHi")


def test_an_empty_head_adds_no_message() -> None:
    messages, tools = compose(CHATML_TOOLS).first_messages(Head(EPOCH, b""), "Hi")
    assert (messages, tools) == ([{"role": "user", "content": "Hi"}], [])


def test_a_syntax_that_is_not_plain_json_says_nothing_of_json_when_tools_arrive() -> None:
    texts = [compose(CHATML_TOOLS, syntax=syntax).added_tools_text((SHELL,)) for syntax in (JSON_CALLS, None)]
    assert texts[0] == texts[1] and "To call one" in texts[0]
    assert "To call one" not in dialect(FAMILIES["coder"]).added_tools_text((SHELL,))


def test_a_date_is_kept_only_where_the_template_asks_for_one() -> None:
    assert compose(LLAMA, date=DATE).epoch("t").date() == DATE
    assert compose(CHATML, date=DATE).epoch("t") == compose(CHATML).epoch("t")


def test_an_epoch_names_the_template_its_switches_and_the_tokenizer() -> None:
    base = compose(CHATML).epoch("t")
    assert base == Epoch(compose(CHATML).template.digest, "{}", "t")
    others = (compose(CHATML, arguments={"enable_thinking": False}).epoch("t"), compose(GLM).epoch("t"))
    for other in (*others, compose(CHATML).epoch("u")):
        with pytest.raises(EpochMismatch):
            base.require(other)


def test_a_reply_is_read_with_what_stood_before_it() -> None:
    """A template that opens the reasoning after a user turn need not do so after a result."""
    thinker = compose(CHATML.replace("assistant\n{% endif", "assistant\n<think>\n{% endif"))
    assert thinker.parse(b"so</think>yes", 1).reasoning == "so"
    assert thinker.parse(b"yes", 1).reasoning == "yes"
    assert thinker.parse(b"yes", 1, opener=b"<|im_start|>assistant\n").text == "yes"


def test_ids_of_the_models_own_are_kept_only_where_the_template_prints_them() -> None:
    data = b'<tool_call>{"name": "shell", "id": "mine"}</tool_call>'
    assert compose(CHATML_TOOLS).parse(data, 7).calls[0].id == "c00007000"
    mistral = dialect(FAMILIES["mistral"])
    ids = [
        mistral.parse(b'[TOOL_CALLS][{"name": "shell", "id": "%s"}]' % given, 7).calls[0].id
        for given in (b"AbCdEf123", b"functions.shell:0")
    ]
    assert ids == ["AbCdEf123", "c00007000"]


def test_a_schema_reaches_the_parser_of_the_models_syntax() -> None:
    seen: list[object] = []

    def parse(text: str, tools: object) -> object:
        seen.append(tools)
        return XML_CALLS.parse(text, [])

    spoken = compose(CHATML_TOOLS, syntax=replace(XML_CALLS, parse=parse))
    calls = spoken.parse(b"<tool_call><function=shell>\n</function></tool_call>", 1, (SHELL,)).calls
    assert [call.name for call in calls] == ["shell"] and seen == [[json.loads(SHELL)]]
