r"""How a template quotes a text: as it is, or as in the JSON, ASCII JSON or Python string of it.

the text        say "é"
as it is        say "é"
in JSON         say \"é\"
in ASCII JSON   say \"\u00e9\"
in Python       say "é"       (escaped only where the whole text holds both kinds of quotes)
"""

import json
from collections.abc import Callable

__all__ = ["is_verbatim", "quoting_of"]

_QUOTINGS: tuple[Callable[[str, str], str], ...] = (
    lambda part, whole: part,
    lambda part, whole: json.dumps(part, ensure_ascii=False)[1:-1],
    lambda part, whole: json.dumps(part)[1:-1],
    lambda part, whole: repr(part + '"')[1:-1].removesuffix('"') if '"' in whole else repr(part)[1:-1],
)
"""How a part of a whole text stands in a prompt: as it is, or as in the JSON, ASCII JSON or Python string of it."""


def is_verbatim(text: str, render: str) -> bool:
    """Say whether `render` holds `text`, its ends trimmed or not, as it is or inside a JSON or Python string."""
    core = text.strip()
    return any(form(core, core) in render for form in _QUOTINGS)


def quoting_of(printed: str, core: str) -> Callable[[str, str], str] | None:
    """Return how `printed` quotes `core`, as a function of (part, whole); None where it is another text."""
    return next((form for form in _QUOTINGS if form(core, core) == printed), None)
