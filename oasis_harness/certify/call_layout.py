r"""Learns how a template writes a call from calls that it is given, and proves it by reading others back.

    given      oasis_probe, {"oasisKEY1": "oasisVALUE1", "oasis": "oasisSENTINEL"}
    written    <|start|>assistant<calls>[{"name": "oasis_probe", "arguments": {"oasisKEY1": …}}]</calls><|end|>
    learned    opener <calls>, one JSON value with `name` and `arguments`, closer </calls>

A form that a second call, other types or nasty texts do not come back from is not used: better that calls travel as
text than that one is misread.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oasis_harness.replies import REASONING_MARKS, ArgumentsForm, CallLayout, CallSyntax, Element, parse_reply
from oasis_harness.templates import Message, Template

from .call_form import CallForm
from .sentinels import SENTINEL, result_message, text_base, tried

__all__ = ["learn_layout"]

_Call = tuple[str, dict[str, Any]]
_ID, _NAME, _RESULT = "oasis0000", "oasis_probe", "oasisRESULT81e4"
_KEYS, _VALUE, _NUMBER, _LAST = ("oasisKEY1a", "oasisKEY2b"), "oasisVALUE3c", 480213, "oasis"
_MARK = re.compile(r"<[^\s<]|\[/?[A-Z_]{3,}\]")
_THINKING = re.compile(r"[<\[][^<>\[\]\s]*(?:think|thought|reason)[^<>\[\]\s]*[>\]]", re.IGNORECASE)
_NASTY = '"a" \'b\' \\n {{ x }} é\n\n  two, {"c": [1]} ) ]'
_OTHER_NAME = "oasis_other-2.x"
_TRIALS: tuple[dict[str, Any], ...] = (
    {"oasisKEY1a": True, "oasisKEY2b": None, "oasisKEY4d": -1.5},
    {"oasisKEY1a": {"oasisKEY2b": [1, {"oasisKEY4d": False}], "x": "y"}, "oasisKEY5e": []},
    {"oasisKEY1a": _NASTY, "oasisKEY2b": "7"},
    {"oasisKEY1a": "", "oasisKEY2b": "true"},
)
_HARMONY = " to=functions."
_SAMPLED: Mapping[str, Any] = {
    "closer": "",  # <|call|> ends the reply: it is a stop token
    "openers": (
        "<|channel|>commentary to=functions.",
        "<|start|>assistant<|channel|>commentary to=functions.",
        "<|channel|>analysis to=functions.",
        "<|start|>assistant to=functions.",
    ),
    "betweens": (
        " <|constrain|>json<|message|>",
        "<|channel|>commentary <|constrain|>json<|message|>",
        " json<|message|>",
        "<|message|>",
    ),
}
"""What the models whose templates open calls so sample besides, as Harmony's own documentation says."""


class _Unlike(Exception):
    """What was written cannot be explained; says why."""


@dataclass(frozen=True, slots=True)
class _Writer:
    """Has the template write calls, and keeps of it what the model would have sampled."""

    template: Template
    form: CallForm

    def own(self, *calls: _Call) -> str:
        """Return the model's own bytes of a reply that makes `calls`; the last argument is the sentinel."""
        made = [_tool_call(f"oasis000{n}", *call, as_text=self.form.arguments_as_text) for n, call in enumerate(calls)]
        reply: Message = {"role": "assistant", "content": "", "tool_calls": made}
        results = [result_message(one["id"], one["function"]["name"], _RESULT) for one in made]
        text = tried(self.template, [text_base()[0], reply, *results])
        if text is None:
            raise _Unlike("it refuses calls with other arguments")
        if text.count(SENTINEL) != 1:
            raise _Unlike("it does not print every argument once")
        tail = self.form.cut.split(text)[0]
        return text[self._start(text) : text.index(SENTINEL) + len(SENTINEL)] + tail

    def two_results(self) -> str | None:
        """Return a reply that makes two calls, and what came of them; None where that is refused."""
        calls = [("oasis0001", _OTHER_NAME), (_ID, _NAME)]
        return tried(self.template, [*self.form.messages(calls), *(result_message(*call, _RESULT) for call in calls)])

    def _start(self, text: str) -> int:
        """Return where a reply begins: after its prompt, or where the same conversation with an answer says it."""
        prompt = tried(self.template, text_base()[:1])
        if prompt and text.startswith(prompt):
            return len(prompt)
        answer = tried(self.template, text_base(), generation_prompt=False) or ""
        header = answer.partition(SENTINEL)[0]
        start = _n_common(header, text)
        if start <= header.rfind("dummy"):
            raise _Unlike("where a call begins cannot be told")
        opened = text.rfind("<", max(0, start - 40), start)
        return opened if opened >= 0 and ">" not in text[opened:start] else start


def learn_layout(template: Template, form: CallForm, ends: Sequence[str]) -> tuple[CallLayout | None, str]:
    """Return (how `template` writes a call, ``), or (None, why that was not learned).

    `form` is how its calls were certified; `ends` are texts that end a message, after which no model goes on.
    """
    writer = _Writer(template, form)
    try:
        if not form.writes_calls:
            raise _Unlike("the template shows no call")
        layout = _learned(writer)
        if writer.two_results() is None:
            raise _Unlike("it refuses two results at once")
        if not (layout.opener + layout.begin).strip():
            raise _Unlike("nothing tells a call from text")
        if any(end.strip() and end.strip() in layout.opener for end in ends):
            raise _Unlike("a call is a message of its own")
        _require_exact(writer, layout)
    except _Unlike as unlike:
        return None, str(unlike)
    return layout, ""


def _learned(writer: _Writer) -> CallLayout:
    arguments = {_KEYS[0]: _VALUE, _KEYS[1]: _NUMBER, _LAST: SENTINEL}
    own = writer.own((_NAME, arguments))
    if own.count(_NAME) != 1:
        raise _Unlike("it does not print the name of a call once")
    start = _after_reasoning(own[: own.index(_NAME)])
    own = own[start:]
    layout = (
        _of_json(own, arguments)
        or _of_object(own, arguments)
        or _of_keywords(own, arguments)
        or _of_elements(writer, own)
    )
    if layout is None:
        raise _Unlike("how it writes a call's arguments is not known")
    layout = _parted(writer, layout)
    if layout.opener.endswith(_HARMONY):
        return replace(layout, **_SAMPLED)
    layout = _trimmed(replace(layout, closer=_without_end(writer, layout.closer)))
    return replace(layout, is_whole=not _MARK.search(layout.opener))


def _without_end(writer: _Writer, closer: str) -> str:
    """Return `closer` without the marks that end an answer, too: those end the message, not the call."""
    answer = tried(writer.template, text_base(), generation_prompt=False) or ""
    end = _common_end(closer, answer.partition(SENTINEL)[2].rstrip())
    return closer.removesuffix(end) if _MARK.match(end) else closer


def _of_json(own: str, arguments: Mapping[str, Any]) -> CallLayout | None:
    """Return the layout of a call that is one JSON value, name and all."""
    for start in (match.start() for match in re.finditer(r"[\[{]", own[: own.index(_NAME)])):
        value, end = _decoded(own, start)
        one = value[0] if isinstance(value, list) and len(value) == 1 else value
        keys = _keys(one, arguments) if isinstance(one, dict) else None
        if keys is None:
            continue
        begin, between, after = own[start : own.index(_NAME)], "", ""
        at = own.index(_NAME) + len(_NAME)
        for brace in (match.start() for match in re.finditer(r"\{", own[at:end])):
            found, stop = _decoded(own, at + brace)
            if found == arguments:
                between, after = own[at : at + brace], own[stop:end]
                break
        begin = begin.replace(_ID, "{id}")
        after = after.replace(_ID, "{id}")
        return CallLayout(ArgumentsForm.CALL, own[:start], begin, between, after, own[end:], keys=keys)
    return None


def _keys(value: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[str, str, str] | None:
    if list(value) == [_NAME]:
        return ("", "", "id") if _same(value[_NAME], arguments) else None
    paths = dict(value)
    for key, item in value.items():
        if isinstance(item, dict) and not _same(item, arguments):
            paths |= {f"{key}.{inner}": one for inner, one in item.items()}
    name = next((path for path, item in paths.items() if item == _NAME), None)
    held = next((path for path, item in paths.items() if _same(item, arguments)), None)
    given = next((path for path, item in paths.items() if item == _ID), "id")
    return None if name is None or held is None else (name, held, given)


def _same(value: Any, arguments: Mapping[str, Any]) -> bool:
    if isinstance(value, str) and value.startswith("{"):
        value = _decoded(value, 0)[0]
    return bool(value == arguments)


def _of_object(own: str, arguments: Mapping[str, Any]) -> CallLayout | None:
    """Return the layout of a name with a JSON object after it."""
    at = own.index(_NAME)
    brace = own.find("{", at)
    found, end = _decoded(own, brace) if brace >= 0 else (None, 0)
    if found != arguments:
        return None
    begin, between = own[:at].replace(_ID, "{id}"), own[at + len(_NAME) : brace]
    return CallLayout(ArgumentsForm.OBJECT, "", begin, between, own[end:], "")


def _of_keywords(own: str, arguments: Mapping[str, Any]) -> CallLayout | None:
    at = own.index(_NAME) + len(_NAME)
    if not own.startswith("(", at) or SENTINEL not in own:
        return None
    layout = CallLayout(ArgumentsForm.KEYWORDS, "", own[: at - len(_NAME)], "(", "", "")
    end = own.rfind(")", own.index(SENTINEL)) + 1
    return replace(layout, end=own[end:])


def _of_elements(writer: _Writer, own: str) -> CallLayout | None:
    """Return the layout of a name with an element a parameter."""
    parts = re.split("|".join((_NAME, *_KEYS, _VALUE, str(_NUMBER), rf"\b{_LAST}\b", SENTINEL)), own)
    if len(parts) != 8:
        return None
    begin, opened, text, mid, other, again, last, end = parts
    at = opened.rfind("<")
    before = opened[at:] if at >= 0 else ""
    if not before or not (mid.endswith(before) and again == mid and last == text):
        return None
    after = mid.removesuffix(before)
    indent = opened[:at]
    after = after if end.startswith(after) else after.rstrip()
    if not after.strip() or not end.startswith(after):
        return None
    element = Element(before, text, other, after)
    return CallLayout(
        ArgumentsForm.ELEMENTS, "", begin.replace(_ID, "{id}"), indent, end.removeprefix(after), "", element=element
    )


def _parted(writer: _Writer, layout: CallLayout) -> CallLayout:
    """Return `layout` with what opens and closes all calls of a reply told from what begins and ends one."""
    whole = layout.form is not ArgumentsForm.CALL
    opener, end = (layout.begin, layout.end) if whole else (layout.opener, layout.closer)
    separator = _between_calls(writer, layout) if writer.form.is_parallel else None
    if separator is None or (separator and _squeezed(separator) == _squeezed(end + opener)):
        begin, ended = ("", "") if whole else (layout.begin, layout.end)
        return replace(layout, opener=opener, begin=begin, end=ended, closer=end, separator=None)
    if not whole:
        return replace(layout, separator=separator)
    begin = _common_end(opener, separator)
    ended = _common_start(end, separator)
    between = separator[len(ended) : len(separator) - len(begin)]
    if begin == opener and not between.strip():  # nothing is around all of them
        return replace(layout, opener=opener, begin="", end="", closer=ended, separator=None)
    opener, closer = opener[: len(opener) - len(begin)], end[len(ended) :]
    return replace(layout, opener=opener, begin=begin, end=ended, closer=closer, separator=between)


def _between_calls(writer: _Writer, layout: CallLayout) -> str | None:
    """Return what stands between the arguments of a call, or the call, and the next name, or call."""
    first = {_KEYS[0]: _VALUE, _KEYS[1]: "oasisEND6f"}
    own = writer.own((_NAME, first), (_OTHER_NAME, {_LAST: SENTINEL}))
    if layout.form is ArgumentsForm.CALL:
        start = own.index(layout.opener) + len(layout.opener)
        value, end = _decoded(own, start)
        if value is None or SENTINEL in own[start:end]:
            return ""
        following = re.compile(r"[\[{]").search(own, end)
        return own[end : following.start()] if following else None
    at = own.index("oasisEND6f") + len("oasisEND6f")
    closing = own[at : own.index(_OTHER_NAME)]
    single = writer.own((_NAME, {**first, _LAST: SENTINEL}))
    tail = single[single.index(SENTINEL) + len(SENTINEL) :]
    held = tail[: len(tail) - len(layout.end)]
    return closing.removeprefix(held).replace("oasis0001", "{id}") if closing.startswith(held) else None


def _trimmed(layout: CallLayout) -> CallLayout:
    """Return `layout` with the outermost mark alone as opener and as closer; the rest belongs to what is inside."""
    layout = replace(layout, opener=layout.opener.strip(), closer=layout.closer.strip())
    outer, inner = re.match(r"<[^<>\s]+>", layout.opener), re.search(r"<[^<>\s]+>\Z", layout.closer)
    if layout.form is ArgumentsForm.CALL or outer is None or inner is None or outer.group() == layout.opener:
        return layout
    begin, end = layout.opener[outer.end() :] + layout.begin, layout.end + layout.closer[: inner.start()]
    return replace(layout, opener=outer.group(), begin=begin, end=end, closer=inner.group())


def _require_exact(writer: _Writer, layout: CallLayout) -> None:
    """Read back calls of every type, and two at once."""
    made: list[list[_Call]] = [[(_OTHER_NAME, {**trial, _LAST: SENTINEL})] for trial in _TRIALS]
    if writer.form.is_parallel:
        made.append([(_NAME, {_KEYS[0]: "1"}), (_OTHER_NAME, {_KEYS[0]: 1, _LAST: SENTINEL})])
    for calls in made:
        own = writer.own(*calls)
        own = own[_after_reasoning(own[: own.index(calls[0][0])]) :]
        found = parse_reply(own.encode(), CallSyntax.of_layout(layout), index=0, tools=_schemas(calls))
        read = [(call.name, dict(call.arguments)) for call in found.calls if not call.error]
        if [(name, json.dumps(given)) for name, given in read] != [(name, json.dumps(given)) for name, given in calls]:
            raise _Unlike(f"what it writes for a call does not say what the call said ({own[:300]!r}, read {found})")


def _schemas(calls: Sequence[_Call]) -> list[dict[str, Any]]:
    """Return the tools that `calls` call, with the types they call them with."""
    found = []
    for name, arguments in calls:
        properties = {key: {"type": "string"} if isinstance(value, str) else {} for key, value in arguments.items()}
        found.append({"type": "function", "function": {"name": name, "parameters": {"properties": properties}}})
    return found


def _tool_call(call_id: str, name: str, arguments: Mapping[str, Any], *, as_text: bool) -> dict[str, Any]:
    given = json.dumps(arguments, ensure_ascii=False) if as_text else arguments
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": given}}


def _after_reasoning(before: str) -> int:
    """Return where, in what stands before a call's name, the last mark of reasoning ends."""
    ends = [before.rfind(mark) + len(mark) for pair in REASONING_MARKS for mark in pair if mark in before]
    return max([*ends, *(match.end() for match in _THINKING.finditer(before))], default=0)


def _decoded(text: str, at: int) -> tuple[Any, int]:
    try:
        return json.JSONDecoder().raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, at


def _n_common(one: str, other: str) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _common_end(one: str, other: str) -> str:
    """Return the longest common end of both that does not begin inside a mark."""
    n = _n_common(one[::-1], other[::-1])
    common = one[len(one) - n :]
    at = common.find("<")
    is_inside = n < len(one) and at >= 0
    return common[at:] if is_inside else common


def _common_start(one: str, other: str) -> str:
    """Return the longest common start of both that does not end inside a mark."""
    common = one[: _n_common(one, other)]
    at = common.rfind("<")
    return common[:at] if at >= 0 and ">" not in common[at:] and len(common) < len(one) else common


def _squeezed(text: str) -> str:
    return "".join(text.split())
