"""What a rewritten request costs: found in the prompts that the template writes of it, and never explained away."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oasis_harness.errors import TemplateFailed
from oasis_harness.guard.review.rewritten import Loss, loss_of
from oasis_harness.guard.targets.dialects import Dialects, Spoken
from oasis_harness.render import Dialect
from oasis_harness.tokens import byte_tokenizer

SOURCE = (
    "{% for message in messages %}{% if message.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
    "[{{ message.role }}] {{ message.content }}\n{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}"
)
SPOKEN = Spoken("plain", Dialect.compose(SOURCE), byte_tokenizer())
FOLDER = Path(__file__).parents[3] / "fixtures" / "dialects"
TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}


def body(*contents: str | None, **more: str) -> dict[str, object]:
    roles = ("user", "assistant", "user")
    return {"messages": [{"role": r, "content": c, **more} for r, c in zip(roles, contents, strict=False)]}


def spoken(name: str) -> Spoken:
    (found,) = Dialects(FOLDER, FOLDER).find(name)
    return found


def test_the_first_byte_and_token_are_those_of_the_prompt() -> None:
    """`[user] hi\\n[assistant] ` stands; of the old prompt the rest is lost. As a mapping, text or bytes."""
    old, new = body("hi", "there", "on"), body("hi", "hello", "on")
    lost = loss_of(old, new, SPOKEN)
    n_old = len(b"[user] hi\n[assistant] there\n[user] on\n[assistant] ")
    assert lost == Loss(22, 22, n_old - 22, "plain") == loss_of(json.dumps(old), json.dumps(new).encode(), SPOKEN)
    assert str(lost) == f"byte 22 of the prompt moved, token 22 of {n_old}: {n_old - 22} are lost."


def test_without_a_tokenizer_there_is_only_the_byte() -> None:
    lost = loss_of(body("hi", "there", "on"), body("hi", "hello", "on"), Spoken("plain", SPOKEN.dialect, None))
    assert lost == Loss(22, dialect="plain") and str(lost) == "byte 22 of the prompt moved."


def test_a_message_that_was_added_costs_nothing() -> None:
    lost = loss_of(body("hi"), body("hi", "[assistant]", "more"), SPOKEN)
    assert lost == Loss(None, dialect="plain") and str(lost) == "no byte of the prompt moves in plain."


def test_what_cannot_be_rendered_is_no_number() -> None:
    """The template refuses, or there is nothing for it to render."""
    with pytest.raises(TemplateFailed, match="no tools"):
        loss_of(body("hi"), {"messages": [{"role": "tool", "content": None, "x": 1}]}, native("tool"))
    for odd in ({"prompt": "hi"}, {"messages": None}, {"messages": ["hi"]}, "[1]"):
        with pytest.raises(TypeError, match="a request body has messages"):
            loss_of(odd, body("hi"), SPOKEN)


def native(role: str) -> Spoken:
    """Return a dialect that knows tools, and refuses `role`."""
    source = (FOLDER / "chatml-tools.jinja").read_text(encoding="utf-8")
    refusal = "{% for message in messages %}{% if message.x %}{{ raise_exception('no tools') }}{% endif %}{% endfor %}"
    return Spoken(role, Dialect.compose(refusal + source), None)


def test_a_system_text_beside_the_messages_is_part_of_the_prompt() -> None:
    """As text or in parts: it is not among the messages, and the whole prompt hangs on it."""
    for form in (str, lambda text: [{"type": "text", "text": text}]):
        old, new = ({**body("hi"), "system": form(text)} for text in ("at 12:01", "at 12:02"))
        assert loss_of(old, new, SPOKEN).n_bytes == len(b"[system] at 12:0")


# --- that nothing moves is said of nothing else than a comparison ----------------------------------------------------


def talk(reasoning: str = "2 + 2", arguments: Any = '{"path": "a.py"}', **more: Any) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": arguments}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "", "reasoning_content": reasoning, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "café"},
    ]
    return {"messages": messages, "tools": [TOOL], **more}


def later(old: dict[str, Any]) -> dict[str, Any]:
    return {**old, "messages": [*old["messages"], {"role": "assistant", "content": "so"}]}


@pytest.mark.parametrize("name", ["chatml", "chatml-tools", "glm", "llama"])
def test_dropped_tools_are_never_explained_away(name: str) -> None:
    """Also in a template that prints none: there they are listed in the system text."""
    lost = loss_of(talk(), later(talk(tools=[])), spoken(name))
    assert lost.n_bytes is not None and "moved" in str(lost)


@pytest.mark.parametrize("name", ["chatml", "chatml-tools"])
def test_dropped_reasoning_is_not_explained_away_where_none_is_printed(name: str) -> None:
    lost = loss_of(talk(), later(talk("")), spoken(name))
    assert lost.n_bytes is None and lost.unseen == ("reasoning",)
    assert str(lost).startswith(f"not known: {name} prints no reasoning") and "oasis dialect add" in str(lost)


def test_reasoning_that_a_template_drops_by_itself_moves_nothing() -> None:
    """Behind the next question: that was compared, in a dialect that prints reasoning."""
    source = (
        "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}"
        "{% set ns.last = loop.index0 %}"
        "{% endif %}{% endfor %}{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and "
        "m.reasoning_content and loop.index0 > ns.last %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
        "{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    drops = Spoken("drops", Dialect.compose(source, sets_switch=False), None)

    def asked(reasoning: str) -> dict[str, Any]:
        reply = {"role": "assistant", "content": "4", "reasoning_content": reasoning}
        return {"messages": [{"role": "user", "content": "2 + 2?"}, reply, {"role": "user", "content": "sure?"}]}

    lost = loss_of(asked("two and two"), asked(""), drops)
    assert str(lost) == "no byte of the prompt moves in drops, which prints reasoning."


@pytest.mark.parametrize("name", ["chatml", "chatml-tools", "llama"])
@pytest.mark.parametrize("spelled", ['{"path":"a.py"}', '{ "path": "a.py" }', '{"path": "\\u0061.py"}'])
def test_a_respelled_call_is_not_explained_away(name: str, spelled: str) -> None:
    """A server that prints arguments as they were sent reads them again."""
    lost = loss_of(talk(), later(talk(arguments=spelled)), spoken(name))
    assert lost.n_bytes is not None and lost.is_as_sent
    assert "where a server prints arguments as they were sent" in lost.remark


@pytest.mark.parametrize("name", ["chatml", "chatml-tools", "glm", "llama"])
def test_a_respelled_result_moved(name: str) -> None:
    new = later(talk())
    new["messages"][3] = {**new["messages"][3], "content": "caf\\u00e9"}
    assert loss_of(talk(), new, spoken(name)).n_bytes is not None


def test_a_field_the_template_never_prints_is_not_known() -> None:
    lost = loss_of(body("hi"), body("hi", refusal="x"), SPOKEN)
    assert lost.unseen == ("refusal",) and str(lost).startswith("not known: plain prints no refusal")
    told = str(loss_of(body("hi", None, "on"), body("hi", "", "on"), SPOKEN))
    assert told.startswith("not known: plain prints no difference between null, text and parts")


@given(st.sampled_from(["chatml", "chatml-tools", "glm", "llama"]), st.data())
def test_no_byte_moves_only_where_the_prompts_say_so(name: str, data: st.DataObject) -> None:
    """Whatever one leaf is changed to: either a byte moved, or the dialect does not print it, or it says the same."""
    old, one = talk(), spoken(name)
    new = later(json.loads(json.dumps(old)))
    message = data.draw(st.sampled_from(new["messages"][:4]))
    key = data.draw(st.sampled_from([key for key in message if key != "role"]))
    message[key] = data.draw(st.text("ab é\n", max_size=4)) if isinstance(message[key], str) else None
    lost = loss_of(old, new, one)
    if lost.n_bytes is None and not lost.unseen:
        assert {**message} == {**old["messages"][new["messages"].index(message)]} or lost.printed
