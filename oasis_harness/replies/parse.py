"""What a reply says: its text, its reasoning and its calls. A view of the sampled bytes, never stored with them.

    <think>Look.</think>Here.                    reasoning "Look.", text "Here."
    Look.</think>Here.                           the same, where the prompt ended with <think>; all text, where not
    <tool_call>{"name": "ls"}</tool_call>        a call of ls without arguments
    <tool_call>{"name": "ls"                     error: the call was cut off before </tool_call>
    <tool_call>ls</tool_call>                    error: the call does not parse: Expecting value: …
    <tool_call>{"name": "say", "arguments": {"text": "</tool_call>"}}</tool_call>    one call: the JSON goes on
    <tool_call>I call <tool_call>{"name": "ls"}</tool_call></tool_call>              one error: ls is never run

A call that does not parse becomes a ToolCall with an error: the loop answers it with a result, and the bytes stay as
they were sampled.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .calls import CallSyntax, GivenIds, ToolCall

__all__ = [
    "REASONING_MARKS",
    "Parsed",
    "left_open",
    "parse_reply",
    "reasoning_extent",
]

REASONING_MARKS = (
    ("<think>", "</think>"),
    ("<|channel>thought", "<channel|>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<seed:think>", "</seed:think>"),
    ("<thinking>", "</thinking>"),
)
"""Reasoning marks in use; a reply has one pair at most."""

_MAX_TRIES, _MAX_MARKS = 16, 256
"""How many marks are tried as the end of one call, of how many that are looked at."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """The parts of a reply."""

    text: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()


def parse_reply(
    data: bytes,
    syntax: CallSyntax,
    *,
    index: int,
    tools: Sequence[Mapping[str, Any]] = (),
    generation_prompt: str = "",
    given_ids: GivenIds = GivenIds.ANY,
) -> Parsed:
    """Split the sampled bytes of event `index` into text, reasoning and calls. Raises nothing, whatever the bytes.

    `generation_prompt` is what stood before the reply: it may already have opened the reasoning.
    """
    reasoning, text = _split_reasoning(data.decode("utf-8", errors="replace"), generation_prompt, syntax.opener)
    parts: list[str] = []
    calls: list[ToolCall] = []
    if syntax.is_whole:
        calls, text = _read_whole(text, syntax, tools)
    while (opened := syntax.find(text)) is not None:
        parts.append(text[: opened[0]])
        found, text = _read_calls(text[opened[1] :], syntax, tools)
        calls += found
    parts.append(text)
    return Parsed("".join(parts).strip(), reasoning.strip(), tuple(_with_ids(calls, index, given_ids)))


def left_open(data: bytes, syntax: CallSyntax, *, generation_prompt: str, reasoning_closer: str = "") -> str:
    """Return what closes the reasoning or the call that a reply did not close itself; empty if nothing is open.

    `reasoning_closer` is how the template closes reasoning; without it, the mark stands on a line of its own.
    """
    text = data.decode("utf-8", errors="replace")
    marks = _reasoning_marks(text, generation_prompt, syntax.opener)
    if marks is not None and marks[1] not in text:
        return reasoning_closer if marks[1] in reasoning_closer else f"\n{marks[1]}\n\n"
    _, said = _split_reasoning(text, generation_prompt, syntax.opener)
    if syntax.is_whole:
        return ""
    at = said.rfind(syntax.opener) if syntax.opener and syntax.closer else -1
    return syntax.closer if at >= 0 and syntax.closer not in said[at:] else ""


def reasoning_extent(data: bytes, syntax: CallSyntax, *, generation_prompt: str) -> tuple[int, int]:
    """Return how many bytes at the end of the prompt open reasoning, and how many of the reply are reasoning.

    Its marks and the white space after it are part of it.
    """
    text = data.decode("utf-8", errors="surrogateescape")
    marks = _reasoning_marks(text, generation_prompt, syntax.opener)
    if marks is None:
        return 0, 0
    _, closed, answer = text.partition(marks[1])
    answer = answer.lstrip() if closed else ""
    prompted = generation_prompt.rstrip().endswith(marks[0])
    n_opener = len(generation_prompt[generation_prompt.rfind(marks[0]) :].encode()) if prompted else 0
    return n_opener, len(data) - len(answer.encode("utf-8", errors="surrogateescape"))


def _split_reasoning(text: str, generation_prompt: str, call_opener: str) -> tuple[str, str]:
    marks = _reasoning_marks(text, generation_prompt, call_opener)
    if marks is None:
        return "", text
    reasoning, _, answer = text.lstrip().removeprefix(marks[0]).partition(marks[1])
    return reasoning, answer


def _reasoning_marks(text: str, generation_prompt: str, call_opener: str) -> tuple[str, str] | None:
    """Return the marks of the reasoning that a reply begins with, or that the prompt has opened for it."""
    start = text.lstrip()
    for opener, closer in REASONING_MARKS:
        is_open = generation_prompt.rstrip().endswith(opener)
        if is_open and closer not in text and call_opener and start.startswith(call_opener):
            return None  # a call was required of a model that was about to think
        if is_open or start.startswith(opener):
            return opener, closer
    return None


def _read_calls(rest: str, syntax: CallSyntax, tools: Sequence[Mapping[str, Any]]) -> tuple[list[ToolCall], str]:
    """Return the calls that `rest` begins with, right after their opener, and the text after them."""
    ends = _ends(rest, syntax)
    error = "" if ends.likely else f"the call was cut off before {syntax.closer}"
    for end, after in ends.likely[:_MAX_TRIES]:
        try:
            parsed = syntax.parse(rest[:end], tools)
        except Exception as caught:  # noqa: BLE001 - the parser is foreign code, its errors are the model's to read
            error = error or f"the call does not parse: {str(caught) or type(caught).__name__:.200}"
        else:
            return [_call(one) for one in _listed(parsed)], rest[after:]
    return [ToolCall("", "", error=_printable(error))], rest[ends.resume :]


def _read_whole(text: str, syntax: CallSyntax, tools: Sequence[Mapping[str, Any]]) -> tuple[list[ToolCall], str]:
    """Return the calls that a reply is as a whole, or its text. Only what begins as a call of a known tool can fail."""
    opener, said, closer = syntax.opener.strip(), text.strip(), syntax.closer.strip()
    rest = said.removeprefix(opener)
    if syntax.layout is None or not said.startswith(opener):
        return [], text
    end = syntax.extent(rest)
    if end and rest[end:].strip() == closer:
        calls = [_call(one) for one in syntax.parse(rest[:end], tools)]
        return (calls, "") if not any(call.error for call in calls) else ([], text)
    if syntax.layout.is_begun(rest, tools):
        return [ToolCall("", "", error="the call was cut off, or words stand beside it")], ""
    return [], text


class _Ends(NamedTuple):
    """Where a call may end."""

    likely: list[tuple[int, int]]
    """(end of the call, start of what follows its closer), likeliest first."""
    resume: int
    """Where to read on if none of them holds. A call written inside the text of a broken one must never run."""


def _ends(rest: str, syntax: CallSyntax) -> _Ends:
    """Find the ends of a call: a mark may also stand in its arguments, when a model writes about calls."""
    exact = syntax.extent(rest)
    if not syntax.closer:
        starts = [match.start() for match in re.finditer(re.escape(syntax.opener), rest)]
        return _Ends([(at, at) for at in ([exact] if exact else [*starts, len(rest)])], len(rest))
    closer = re.compile(rf"\s*{re.escape(syntax.closer)}").match(rest, exact)
    if exact and closer:
        return _Ends([(exact, closer.end())], closer.end())
    return _nested_ends(rest, syntax)


def _nested_ends(rest: str, syntax: CallSyntax) -> _Ends:
    """Find the closers that are not a nested opener's; where there is none, those that stand where a call may end.

    Likeliest of all is one that is both.
    """
    opener, closer = re.escape(syntax.opener), re.escape(syntax.closer)
    may_follow = re.compile(rf"\s*({opener}|\Z)")
    own: list[tuple[int, int]] = []
    others: list[tuple[int, int]] = []
    depth = 0
    for match in itertools.islice(re.finditer(f"{opener}|{closer}", rest), _MAX_MARKS):
        is_last = may_follow.match(rest, match.end()) is not None
        if match.group() == syntax.opener:
            depth += 1
        elif depth == 0:
            own.append(match.span())
            if is_last:
                return _Ends([own[-1], *own[:-1]], match.end())
        else:
            depth -= 1
            others += [match.span()] if is_last else []
    return _Ends(own or others, len(rest))


def _listed(parsed: Any) -> list[Any]:
    return parsed if isinstance(parsed, list) and parsed else [parsed]


def _call(found: Any) -> ToolCall:
    """Return the call a parser found; its id is the one the model gave, if it did."""
    name = found.get("name") if isinstance(found, dict) else None
    if not isinstance(name, str) or not name.strip():
        return ToolCall("", "", error='a call must be an object with "name" and "arguments"')
    arguments = found.get("arguments", found.get("parameters"))
    if isinstance(arguments, str):
        arguments = _json_object(arguments)
    arguments = {} if arguments is None else arguments
    if not isinstance(arguments, dict) or not all(isinstance(key, str) for key in arguments):
        return ToolCall("", _printable(name), error='"arguments" must be an object')
    return ToolCall(str(found.get("id", "")), _printable(name), arguments)


def _json_object(text: str) -> Any:
    try:
        return json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return text


def _with_ids(calls: Sequence[ToolCall], index: int, given_ids: GivenIds) -> Iterator[ToolCall]:
    taken: set[str] = set()
    for number, call in enumerate(calls):
        ours = (_call_id(index, n) for n in itertools.count(number))
        given = [call.id] if re.fullmatch(given_ids, call.id) else []
        call_id = next(one for one in itertools.chain(given, ours) if one not in taken)
        taken.add(call_id)
        yield replace(call, id=call_id)


def _call_id(index: int, number: int) -> str:
    return f"c{_base36(index, 5)}{_base36(number, 3)}"


def _base36(value: int, n_digits: int) -> str:
    digits = ""
    for _ in range(n_digits):
        value, digit = divmod(value, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits


def _printable(text: str) -> str:
    """Return `text` with any half of a surrogate pair written out: a JSON string may hold one, a file may not."""
    return text.encode(errors="backslashreplace").decode()
