"""Names for what breaks a prompt's prefix: sixteen kinds, one small check each, in a fixed order.

The first check that speaks names the break; a break that none can name is `unknown`, and still a break. The kinds are
those of public reports about agents that lost their cache.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from oasis_harness.sequences import first_difference

from . import causes_in_history as history
from . import causes_in_text as wording
from .blocks import Body, Read, Reader, Request
from .changes import Change, change_of

__all__ = ["CHECKS", "Diagnosis", "Kind", "classify", "diagnose", "findings"]


class Kind(StrEnum):
    """Why a byte, a token or the engine's memory of it moved."""

    CLOCK = "clock"
    """A time, a date or a counter on both sides, and nothing else."""
    RANDOM = "random"
    """An id made anew: uuid, nonce, cache key, tool-call id."""
    ORDER = "order"
    """The same tools, keys, items or lines in another order."""
    SERIALISATION = "serialisation"
    """The same value in other characters: spacing, escapes, 1.0 for 1, True for true, doubled keys."""
    PRESENCE = "presence"
    """null, "", [] or {} for one another, or for nothing at all."""
    WHITESPACE = "whitespace"
    """Trimmed, CRLF, a byte order mark, a newline at the end."""
    UNICODE = "unicode"
    """Another normal form, invisible characters, surrogates."""
    PATH = "path"
    """A path on both sides: home, temporary folder, upper and lower case."""
    ENVIRONMENT = "environment"
    """A fact of the machine under its label: cwd, git, OS, user, width."""
    EPHEMERAL = "ephemeral"
    """Sent in the last message and not stored, or stored and not sent, or wrapped."""
    RETROACTIVE = "retroactive"
    """The past rewritten: pruned, summarised, an image swapped, reasoning removed, arguments repaired."""
    STRUCTURAL = "structural"
    """Messages inserted, merged, split or moved; system text doubled or hoisted."""
    TOPOLOGY = "topology"
    """Another model, effort or mode; tools that came, went or were redefined."""
    TEMPLATE = "template"
    """The same messages rendered otherwise: template, engine, arguments, date, dropped reasoning."""
    TOKEN = "token"
    """The same bytes in other tokens."""
    CACHE = "cache"
    """The same tokens, read again: trimmed, forgotten, evicted by a side request."""
    UNKNOWN = "unknown"
    """Moved, and none of the above."""


CHECKS: Final[tuple[tuple[Kind, Callable[[Change], str]], ...]] = (
    (Kind.TEMPLATE, history.template),
    (Kind.TOKEN, history.token),
    (Kind.CACHE, history.cache),
    (Kind.PRESENCE, wording.presence),
    (Kind.ORDER, wording.order),
    (Kind.SERIALISATION, wording.serialisation),
    (Kind.WHITESPACE, wording.whitespace),
    (Kind.UNICODE, wording.unicode),
    (Kind.CLOCK, wording.clock),
    (Kind.ENVIRONMENT, wording.environment),
    (Kind.PATH, wording.path),
    (Kind.RANDOM, wording.random),
    (Kind.STRUCTURAL, history.structural),
    (Kind.EPHEMERAL, history.ephemeral),
    (Kind.RETROACTIVE, history.retroactive),
    (Kind.TOPOLOGY, history.topology),
)
"""In the order they are asked; every kind but `unknown` has one."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The name of a break."""

    kind: Kind
    detail: str
    """Which sort of it, in words: `schema keys`, `reasoning dropped`."""
    where: str
    """`tools[3].function.description`, `the rendered prompt, byte 812`, `token 40`."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}, at {self.where}"


def classify(before: Request | Body, after: Request | Body, *, n_between: int = 0) -> Diagnosis | None:
    """Name what keeps `after` from extending `before`; None where it does extend it.

    Bodies, rendered prompts, ids and reuse counts are used as far as they are given. `n_between` counts the requests
    of other conversations that the engine was asked in between.

    Raises:
        ValueError: A mapping with neither messages nor a prompt.
    """
    requests = [item if isinstance(item, Request) else Request(item) for item in (before, after)]
    is_exact = len({isinstance(request.body, bytes | str) for request in requests}) == 1
    reader = Reader(is_exact=is_exact)
    return diagnose(reader.read(requests[0]), reader.read(requests[1]), n_between=n_between)


def diagnose(before: Read, after: Read, *, n_between: int = 0) -> Diagnosis | None:
    """Name what keeps `after` from extending `before`; both from one reader."""
    change = change_of(before, after, n_between)
    found = next(findings(change), None)
    return found or (Diagnosis(Kind.UNKNOWN, "changed", change.path) if change.section else None)


def findings(change: Change) -> Iterator[Diagnosis]:
    """Yield what every check says; more than one would be a fault of the wording."""
    for kind, check in CHECKS:
        if detail := check(change):
            yield Diagnosis(kind, detail, _where(kind, change))


def _where(kind: Kind, change: Change) -> str:
    if change.path:
        return change.path
    if kind is not Kind.TEMPLATE:
        return f"token {history.n_same(change):,}"
    old, new = change.before.request.prompt, change.after.request.prompt
    return "the rendered prompt" + ("" if old is None or new is None else f", byte {first_difference(old, new):,}")
