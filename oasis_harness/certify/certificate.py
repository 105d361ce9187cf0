"""What a chat template was seen to do: plain data, one value per (template hash, arguments).

`certify` finds it; everything here only says what the words mean. `Certificate.to_json` is what
`oasis template check --json` prints.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from oasis_harness.replies import CallLayout

from .call_form import CallForm

__all__ = [
    "Anchor",
    "Arguments",
    "Boundary",
    "BoundaryName",
    "Break",
    "Certificate",
    "Handling",
    "Kept",
    "Mode",
    "NoneContent",
    "Offset",
    "ReasoningForm",
    "Switch",
    "Verdict",
]


class Handling(StrEnum):
    """What becomes of a message that is not expected where it stands."""

    IN_PLACE = "in place"
    MOVED = "moved"
    """Printed before what was there already: everything after it is read again."""
    DROPPED = "dropped"
    REFUSED = "refused"


class Arguments(StrEnum):
    """How a call's arguments are printed, given in one form."""

    JSON = "json"
    PYTHON = "python"
    """As Python's `repr`: `{'limit': False}`."""
    OWN = "own"
    """In a form of the family's own, such as one tag a parameter."""
    DOUBLE = "double-encoded"
    """As a JSON string that holds JSON."""
    LOST = "lost"
    REFUSED = "refused"


class NoneContent(StrEnum):
    """What becomes of `content: None`, which clients send beside a call."""

    EMPTY = "as empty"
    WORD = "printed as a word"
    OTHER = "otherwise"
    REFUSED = "refused"


class Kept(StrEnum):
    """How long a re-render keeps what the model thought."""

    ALWAYS = "always"
    WITHIN_TURN = "until the next user turn"
    NEVER = "never"


class Anchor(StrEnum):
    """A place in a conversation from which a break is measured, for it moves with the conversation. In their order."""

    START = "start of the prompt"
    SYSTEM = "start of the system text"
    TOOLS = "start of what is written for the tools"
    USER = "end of the last user's words"
    FIRST_REPLY = "start of the first reply since the user's words"
    RESULT = "end of the last result since the user's words"
    LAST_REPLY = "start of the last reply"
    LAST_ANSWER = "end of what the last reply thought"
    FIRST_CALL = "end of the last word in the last reply's first call"
    LAST_CALL = "end of the last reply's calls"
    LAST_END = "end of the last reply"


class BoundaryName(StrEnum):
    """Where a conversation grows."""

    GENERATION_PROMPT = "generation prompt"
    """The opener of a reply, and the reply in history."""
    RESULT = "tool result"
    SECOND_RESULT = "second result"
    """The second of two results of one reply, appended alone."""
    USER = "user turn"
    NOTE = "note in a tool loop"
    """A user message right after a result."""
    TRUNCATED = "truncated reply"
    """A user turn after a reply that was cut."""


class Mode(StrEnum):
    """How a conversation can be driven: what is given to the template beside its messages."""

    TOOLS = "with tools"
    """The tools are given, and calls and results are messages."""
    BARE = "without tools"
    """None are given: there are none, or they are listed in the system text, and calls and results are text."""


class Verdict(StrEnum):
    """What all boundaries say together."""

    EXTENDS = "extends"
    """A full re-render keeps every prefix; any client is safe with it."""
    REWRITES = "rewrites"
    """A full re-render loses the prefix somewhere; it is driven append-only here."""


@dataclass(frozen=True, slots=True)
class Offset:
    """A place in any conversation: so many bytes from an anchor."""

    anchor: Anchor
    n_bytes: int
    """Negative for a place before it."""


@dataclass(frozen=True, slots=True)
class Break:
    """Where a re-render would leave what was sent and sampled, in the probe's own conversation.

    Of the probe's conversations it is the one that breaks earliest: a reply with or without reasoning, a call with
    or without words beside it.
    """

    n_bytes: int
    """Offset of the first byte that differs."""
    n_sent: int
    """Bytes that had been sent and sampled; all from the break on would be read again."""
    sent: str
    """What stood there."""
    rendered: str
    """What a re-render puts there."""
    what: str
    """What is lost or moved, in a word or two: `reasoning`, `tools`, `system` ..."""
    offset: Offset
    """No conversation breaks before this place, and some break right here."""
    mode: Mode
    """How that conversation was driven."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """What a re-render does at one boundary."""

    name: BoundaryName
    is_evaluated: bool
    """False where the template refuses such a conversation, or knows no calls."""
    reason: str = ""
    """The template's own words, where it refuses."""
    broken: Break | None = None


@dataclass(frozen=True, slots=True)
class Switch:
    """A variable of the template that makes a re-render keep the reasoning."""

    name: str
    value: bool | str


@dataclass(frozen=True, slots=True)
class ReasoningForm:
    """How the template treats what a model thinks before it answers."""

    field: str
    """The key of a message it reads it from; `content` where it stands inside the text."""
    opener: str
    closer: str
    is_prompted: bool
    """The generation prompt opens it."""
    is_skipped: bool
    """The generation prompt holds an empty one."""
    kept: Kept
    switch: Switch | None
    """Set by whoever drives it; None where there is none."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a template was seen to do."""

    digest: str
    """Names the template and the special tokens it prints."""
    arguments: Mapping[str, object]
    """The switches it was tried under."""
    has_parts: bool
    """Wants contents as lists of parts."""
    lists_no_tools: bool
    """Wants an empty list where there are no tools."""
    needs_tools: bool
    """Writes messages otherwise where no tools are given: a delta's base is given those of the head."""
    has_system: bool
    """Prints a system message."""
    has_tools: bool
    """Prints the tools it is given."""
    tools_need_system: bool
    """Prints them beside a system message only: where there is no system text, an empty one is given."""
    native: CallForm | None
    """How it writes calls and results itself; None where it prints none."""
    calls: CallForm | None
    """`native`, where somebody here can read the calls; None where they travel as text instead."""
    layout: CallLayout | None
    """Where the parts of a call stand, learned from the template; None where its syntax was known, or is of no use."""
    generation_prompt: str
    """What opens a reply after a user turn."""
    answer_opener: str
    """What stands then before an answer's words, such as `<|channel|>final<|message|>`; mostly nothing."""
    closer: str
    """What ends an answer in history; empty where nothing does, or where it depends on what follows."""
    counts_turns: bool
    """Numbers the turns, so a delta's base holds as many."""
    uses_date: bool
    """Asks for the date somewhere."""
    roles: Mapping[str, Handling]
    """What becomes of these in mid-conversation: `system`, `developer`, `user after user`, `user after result`."""
    trims: tuple[str, ...]
    """Roles whose text loses its outer white space."""
    none_content: NoneContent
    object_arguments: Arguments | None
    """Arguments given as an object, which is the form of the interface; None without calls."""
    text_arguments: Arguments | None
    """Arguments given as a JSON string, which is the form on the wire."""
    prints_python: bool
    """Writes `True` or `None` inside a call, where JSON has `true` and `null`."""
    reasoning_form: ReasoningForm | None
    """None for a template that knows no reasoning."""
    boundaries: tuple[Boundary, ...]
    letter: str
    """A extends everywhere; B breaks at a user turn; C at a result; D moves the head; E changes closing bytes.

    The worst of `letters`.
    """
    letters: Mapping[Mode, str]
    """The same of each way the template can be driven; one that prints no tools is driven without."""
    remarks: tuple[str, ...] = ()
    """What is done otherwise than the template would, and why; each a sentence."""

    @property
    def verdict(self) -> Verdict:
        """What a client that re-renders must expect."""
        return Verdict.EXTENDS if self.letter == "A" else Verdict.REWRITES

    @property
    def is_batched(self) -> bool:
        """Whether the results of one reply are wrapped together, so that they must be appended at once."""
        return self.boundary(BoundaryName.SECOND_RESULT).broken is not None

    def boundary(self, name: BoundaryName) -> Boundary:
        """Return what was found at `name`."""
        return next(boundary for boundary in self.boundaries if boundary.name is name)

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as JSON values, with `verdict`."""
        return {**dataclasses.asdict(self), "verdict": self.verdict}
