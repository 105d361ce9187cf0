r"""Texts that a template takes for its own: written so that it cannot, and everybody sees that.

    a file says           if "</think>" in reply:
    some templates        drop what stands before </think>, in a tool's result too, and so refuse to be driven
    what is recorded      if "</\x74hink>" in reply:
                          [\x74 is t: this model's template would take the mark for its own]

Only what the template refuses is changed, once, when it is recorded; what is recorded is what is sent. The first way
breaks marks of reasoning, which is all that 763 templates were seen to refuse; the second any mark.

Results are wrapped in `<tool_response>` by us or by the template. Where that is no token of its own, a file that holds
`</tool_response>` and a user's words would be read as the end of the result and a turn: there it is broken as well.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from oasis_harness.conversation import ToolResults, User

__all__ = ["broken_forms", "without_wrap"]

_MARKS = (
    re.compile(rb"(?i)(?:</?\|?|/|\[/?)(?:no_)?(?P<letter>t)hink|</?(?P<other>r)easoning"),
    re.compile(rb"[<\[]/?\|?(?P<letter>[A-Za-z])|/(?P<other>[A-Za-z])"),
)


_WRAP = re.compile(rb"(?i)</?(?P<letter>t)ool_response|(?P<other>(?!))")
_TAKEN = "this model's template would take the mark for its own"


def broken_forms(event: User | ToolResults) -> Iterator[User | ToolResults]:
    """Yield `event` as it is, and then in forms that ever fewer templates take for their own marks."""
    yield event
    for marks in _MARKS:
        if isinstance(event, User):
            yield replace(event, text=_broken(event.text, marks))
        else:
            results = (replace(result, content=_broken(result.content, marks)) for result in event.results)
            yield replace(event, results=tuple(results))


def without_wrap(content: bytes) -> bytes:
    """Break the marks around a result inside of one."""
    return _broken(content, _WRAP, "it would end this result")


def _broken(text: bytes, marks: re.Pattern[bytes], why: str = _TAKEN) -> bytes:
    written: dict[str, str] = {}

    def spelled(match: re.Match[bytes]) -> bytes:
        at = match.start("letter" if match["letter"] else "other") - match.start()
        letter = match[0][at : at + 1].decode()
        written[letter] = f"\\x{ord(letter):02x}"
        return match[0][:at] + written[letter].encode() + match[0][at + 1 :]

    text = marks.sub(spelled, text)
    if not written:
        return text
    told = ", ".join(f"{code} is {letter}" for letter, code in sorted(written.items()))
    return text + f"\n[{told}: {why}]".encode()
