r"""Texts that a template takes for its own: written so that it cannot, and everybody sees that.

    a file says           if "</think>" in reply:
    some templates        drop what stands before </think>, in a tool's result too, and so refuse to be driven
    what is recorded      if "</\x74hink>" in reply:
                          [\x74 is t: this model's template would take the mark for its own]

Only what the template refuses is changed, once, when it is recorded; what is recorded is what is sent. The first way
breaks marks of reasoning, which is all that 763 templates were seen to refuse; the second any mark.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from oasis_harness.conversation import ToolResults, User

__all__ = ["broken_forms"]

_MARKS = (
    re.compile(rb"(?i)(?:</?\|?|/|\[/?)(?:no_)?(?P<letter>t)hink|</?(?P<other>r)easoning"),
    re.compile(rb"[<\[]/?\|?(?P<letter>[A-Za-z])|/(?P<other>[A-Za-z])"),
)


def broken_forms(event: User | ToolResults) -> Iterator[User | ToolResults]:
    """Yield `event` as it is, and then in forms that ever fewer templates take for their own marks."""
    yield event
    for marks in _MARKS:
        if isinstance(event, User):
            yield replace(event, text=_broken(event.text, marks))
        else:
            results = (replace(result, content=_broken(result.content, marks)) for result in event.results)
            yield replace(event, results=tuple(results))


def _broken(text: bytes, marks: re.Pattern[bytes]) -> bytes:
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
    return text + f"\n[{told}: this model's template would take the mark for its own]".encode()
