r"""What a template does without calls, found by trying it: how it opens a reply, ends one, and prints a head.

    one user turn        <|user|>\nHi<|assistant|>\n                           opener: <|assistant|>\n
    an answer, a turn    …<|assistant|>\noasisSENTINEL<|end|>\n<|user|>\nHi…   closer: <|end|>\n

A template that prints no user's words as they are typed, or a turn in a way that depends on what was said, is refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from oasis_harness.errors import TemplateFailed
from oasis_harness.templates import Message, Shape, Template, is_verbatim

from .probes import NAME
from .sentinels import AFTER_TEXT, SENTINEL, after_past, message, text_base, tried, unsupported

__all__ = ["PROBE_TOOL", "Opened", "fitting_shape", "probe_system", "probe_user"]

_WORD = "oasisUSER5c27"
_USER = _WORD + " \"a\" 'b' <i>&amp;</i> \\n {{ x }} é\n\n  two"
"""What a person may type; a template that changes any of it is not used."""
_SYSTEM, _SYSTEM_WORD = _USER.replace("USER", "SYSTEM"), _WORD.replace("USER", "SYSTEM")
PROBE_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": "Probe.",
        "parameters": {
            "type": "object",
            "properties": {
                "oasis": {"type": "string", "description": "Where to probe."},
                "limit": {"type": "integer", "description": "How often.", "default": 1},
            },
            "required": ["oasis"],
        },
    },
}
"""It has what real tools have: some templates print none that lack a description or a type somewhere."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What a template does without calls."""

    generation_prompt: str
    closer: str
    has_system: bool
    has_tools: bool
    needs_system: bool
    """Prints tools beside a system message only."""
    counts_turns: bool
    tool_prompt: str
    """A prompt with a tool in it."""

    @classmethod
    def of(cls, template: Template) -> "Opened":
        """Try `template`.

        Raises:
            UnsupportedTemplate: It cannot be driven, whatever it does with calls.
        """
        generation_prompt = _generation_prompt(template)
        user_turn, counts_turns = _user_turn(template)
        has_system = _prints_system(template)
        tool_prompt = tried(template, [probe_user()], tools=[PROBE_TOOL]) or ""
        needs_system = has_system and NAME not in tool_prompt
        if needs_system:
            tool_prompt = tried(template, [message("system", ""), probe_user()], tools=[PROBE_TOOL]) or ""
        has_tools = NAME in tool_prompt
        return cls(
            generation_prompt=generation_prompt,
            closer=_closer(template, user_turn),
            has_system=has_system,
            has_tools=has_tools,
            needs_system=needs_system and has_tools,
            counts_turns=counts_turns,
            tool_prompt=tool_prompt,
        )


def fitting_shape(template: Template) -> Shape:
    """Return the first form in which `template` prints what a user types; the usual one if none does.

    Raises:
        TemplateFailed: It needs a variable that was not given.
    """
    for shape in (Shape(), Shape(lists_no_tools=True), Shape(has_parts=True)):
        try:
            if is_verbatim(_USER, template.shaped(shape).render([probe_user()], generation_prompt=True)):
                return shape
        except TemplateFailed as error:
            if error.reason.endswith("is undefined"):
                raise  # a variable that only its user knows; nothing can be said of the template
    return Shape()


def probe_user() -> Message:
    """Return what a user types in these trials."""
    return message("user", _USER)


def probe_system() -> Message:
    """Return a system message of these trials."""
    return message("system", _SYSTEM)


def _generation_prompt(template: Template) -> str:
    try:
        opened = template.render([probe_user()], generation_prompt=True)
    except TemplateFailed as error:
        raise unsupported(f"it refuses a single user turn ({error.reason})") from None
    if not is_verbatim(_USER, opened):
        raise unsupported("it changes or drops what a user types")
    closed = tried(template, [probe_user()], generation_prompt=False) or ""
    return opened[len(closed) :] if opened.startswith(closed) else opened.rpartition(_USER)[2]


def _user_turn(template: Template) -> tuple[str, bool]:
    """Return the delta of a user turn after an answer, and whether its base must have the shape of the past.

    It is proved that it can be found, and that it depends on no more than that.
    """
    short, spoken, shaped = _user_turns(template)
    if short != spoken and shaped != spoken:
        raise unsupported("what it writes for a user turn depends on what was said before")
    return short, short != spoken


def _user_turns(template: Template) -> Iterator[str]:
    """Yield the delta of a user turn after nothing, after a turn with other words, and after one in dummy words."""
    histories = (
        text_base(),
        [*text_base(user="another?\n", said="One."), *text_base(said=f"Two. {SENTINEL}")],
        after_past(text_base(), (0,)),
    )
    for history in histories:
        try:
            text = template.render([*history, probe_user()], generation_prompt=True)
        except TemplateFailed as error:
            raise unsupported(f"it refuses a second user turn ({error.reason})") from None
        delta = AFTER_TEXT.split(text)[1] if text.count(SENTINEL) == 1 else ""
        if text.count(_WORD) != 1 or _WORD not in delta:
            raise unsupported("it does not print an answer and the next user turn once each, one after the other")
        yield delta


def _closer(template: Template, user_turn: str) -> str:
    alone = tried(template, text_base(), generation_prompt=False) or ""
    closer = alone.partition(SENTINEL)[2]
    return closer if user_turn.startswith(closer) else ""


def _prints_system(template: Template) -> bool:
    text = tried(template, [probe_system(), probe_user()]) or ""
    is_printed = is_verbatim(_SYSTEM, text) and is_verbatim(_USER, text)
    longer = tried(template, [probe_system(), *text_base(), probe_user()]) or ""
    if is_printed and longer.count(_SYSTEM_WORD) > text.count(_SYSTEM_WORD):
        raise unsupported("it prints the system text again at every turn")
    return is_printed
