"""What a rewritten request costs: found in the prompts that the template writes of it, not in its JSON."""

import json

import pytest

from oasis_harness.errors import TemplateFailed
from oasis_harness.guard.review.rewritten import Loss, loss_of
from oasis_harness.guard.targets.dialects import Spoken
from oasis_harness.render import Dialect
from oasis_harness.tokens import byte_tokenizer

SOURCE = (
    "{% for message in messages %}{% if message.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
    "[{{ message.role }}] {{ message.content }}\n{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}"
)
SPOKEN = Spoken("plain", Dialect.compose(SOURCE), byte_tokenizer())


def body(*contents: str | None, **more: str) -> dict[str, object]:
    roles = ("user", "assistant", "user")
    return {"messages": [{"role": r, "content": c, **more} for r, c in zip(roles, contents, strict=False)]}


def test_the_first_byte_and_token_are_those_of_the_prompt() -> None:
    """`[user] hi\\n[assistant] ` stands; of the old prompt the rest is lost. As a mapping, text or bytes."""
    old, new = body("hi", "there", "on"), body("hi", "hello", "on")
    lost = loss_of(old, new, SPOKEN)
    n_old = len(b"[user] hi\n[assistant] there\n[user] on\n[assistant] ")
    assert lost == Loss(22, 22, n_old - 22) == loss_of(json.dumps(old), json.dumps(new).encode(), SPOKEN)
    assert str(lost) == f"byte 22 of the prompt moved, token 22 of {n_old}: {n_old - 22} are lost."


def test_without_a_tokenizer_there_is_only_the_byte() -> None:
    lost = loss_of(body("hi", "there", "on"), body("hi", "hello", "on"), Spoken("plain", SPOKEN.dialect, None))
    assert lost == Loss(22) and str(lost) == "byte 22 of the prompt moved."


@pytest.mark.parametrize("new", [body("hi", refusal="x"), body("hi", "[assistant]", "more")])
def test_what_no_byte_of_the_prompt_shows_costs_nothing(new: dict[str, object]) -> None:
    """A field the template does not print; a message that was added."""
    assert loss_of(body("hi"), new, SPOKEN) == Loss(None)


def test_what_cannot_be_rendered_is_no_number() -> None:
    """The template refuses, or there is nothing for it to render."""
    with pytest.raises(TemplateFailed, match="no tools"):
        loss_of(body("hi"), {"messages": [{"role": "tool", "content": None}]}, SPOKEN)
    for odd in ({"prompt": "hi"}, {"messages": None}, {"messages": ["hi"]}, "[1]"):
        with pytest.raises(ValueError, match="a body with messages"):
            loss_of(odd, body("hi"), SPOKEN)


def test_a_system_text_beside_the_messages_is_part_of_the_prompt() -> None:
    """As text or in parts: it is not among the messages, and the whole prompt hangs on it."""
    for form in (str, lambda text: [{"type": "text", "text": text}]):
        old, new = ({**body("hi"), "system": form(text)} for text in ("at 12:01", "at 12:02"))
        assert loss_of(old, new, SPOKEN).n_bytes == len(b"[system] at 12:0")
