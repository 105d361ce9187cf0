"""The checks of what was done to a conversation: to its past, its settings, its rendering, its tokens, its cache.

    S"You mend." U"Repair add." A"I read it." U"Go on. Be brief."           was sent, and then:

    S"You mend." U"Repair add." A"I read it." U"Go on." A"Done."            ephemeral: sent, not stored
    S"You mend." U"Repair add." A"I read it." A"Done."                      ephemeral: last message sent, not stored
    S"You mend." U"Repair add." A"[removed]" U"Go on. Be brief." A"Done."   retroactive: content cut or replaced
    S"You mend." U"Go on. Be brief." A"Done."                               retroactive: messages dropped
    S"You mend." U"Summary: add is read."                                   retroactive: messages summarised
    S"You mend." U"Repair add." S"Hi." A"I read it." U"Go on. Be brief."    structural: system text inserted

With the messages as they were, the prompt "<think>Why?</think>Done." became "Done.": template. The ids 1 2 3 4 became
1 2 9 4 5: token. They became 1 2 3 4 5, of which the engine reused one: cache.

Those of the past speak only where the words alone do not tell, those of the rendering only where every block stands.
"""

import re

from oasis_harness.sequences import common_prefix, first_difference

from ..volatile import Mask, mask_of
from .causes_in_text import is_prompt, is_rewritten, is_told, order, presence
from .changes import ABSENT, Change, Members, Shift, Tree, parse, words_of

__all__ = ["cache", "ephemeral", "n_same", "retroactive", "structural", "template", "token", "topology"]

_SYSTEM = ("system", "developer")
_TEMPLATE = ("chat_template", "chat_template_kwargs")


def structural(change: Change) -> str:
    """Find messages put in, merged, split or moved, and system text where it was not."""
    if change.section == "system" and change.leaf and ABSENT in change.leaf and not presence(change):
        return "system text hoisted"
    if change.section != "messages":
        return ""
    if change.shift is None:
        return "another role" if change.path.endswith("].role") else ""
    is_system = any(block and block.role in _SYSTEM for block in change.blocks)
    what = "system text" if is_system else "message"
    if change.shift is Shift.INSERTED:
        known = change.before.section("messages")[: change.index]
        return f"{what} {'doubled' if change.blocks[1] in known else 'inserted'}"
    if change.shift is Shift.PERMUTED:
        return "" if order(change) else f"{what} moved"
    names = {Shift.MERGED: "messages merged", Shift.SPLIT: "message split"}
    return "system text dropped" if is_system and change.shift is Shift.DROPPED else names.get(change.shift, "")


def ephemeral(change: Change) -> str:
    """Find what only the last message had when it was sent, or only when it was replayed."""
    if change.shift is Shift.UNSENT:
        return "last message sent, not stored"
    if is_prompt(change):
        return "end of the prompt not replayed" if _is_unreplayed(change) else ""
    if not change.is_last or change.leaf is None or is_told(change) or structural(change):
        return ""
    a, b = (_listed_text(value) for value in change.leaf)
    return "sent, not stored" if _contains(a, b) else "stored, not sent" if _contains(b, a) else ""


def retroactive(change: Change) -> str:
    """Find what was cut, summarised, swapped or repaired long after it was sent."""
    if change.section != "messages" or change.role in _SYSTEM:
        return ""
    if change.shift is not None:
        return {Shift.DROPPED: "messages dropped", Shift.REPLACED: "messages summarised"}.get(change.shift, "")
    if is_told(change) or structural(change) or ephemeral(change) or change.leaf is None:
        return ""
    return _rewrite(change.path, *change.leaf)


_PLACEHOLDER = re.compile(r"(?i)\[[^\]]*\]|\.\.\.|…|\b(?:removed|omitted|pruned|cleared|truncated|elided|summar)")


def _rewrite(path: str, a: Tree, b: Tree) -> str:
    for pattern, what in (
        (r"reasoning|thinking", "reasoning"),
        (r"tool_calls.*arguments", "arguments"),
        (r"tool_calls", "call"),
        (r"image|source", "image"),
    ):
        if re.search(pattern, path):
            return f"{what} {'removed' if b in (ABSENT, None, '') else 'rewritten'}"
    old, new = _listed_text(a), _listed_text(b)
    if len(new) < len(old) or _PLACEHOLDER.search(new):
        return "image swapped" if "image_url" in old else "content cut or replaced"
    return "content added to" if _contains(new, old) else ""


def _listed_text(value: Tree) -> str:
    return value if type(value) is str else "" if value in (ABSENT, None) else repr(value)


def _contains(long: str, short: str) -> bool:
    """Whether taking one stretch out of `long`, or a wrapping off, leaves `short`."""
    at = first_difference(long, short)
    return len(long) > len(short) and (long.endswith(short[at:]) or short.strip() in long)


def _is_unreplayed(change: Change) -> bool:
    """Whether the last lines of a prompt (its generation prompt) follow at once on where the next one leaves it."""
    if change.texts is None or is_told(change) or template(change):
        return False
    old, new = change.texts
    at = first_difference(old, new)
    ends = (match.end() for match in re.finditer("\n", old) if at < match.end() < len(old))
    return any(new.startswith(old[end:], at) for end in ends)


def topology(change: Change) -> str:
    """Find another model, effort or mode, and other tools."""
    if change.shift is Shift.RENAMED:
        return "tools came or went"
    if change.section in ("", "system", "messages", "prompt", *_TEMPLATE) or change.shift is not None:
        return ""
    if is_told(change):
        return ""
    return "a tool redefined" if change.section == "tools" else f"another {change.section}"


_REASONING = re.compile(r"<think>|\[THINK\]|<\|channel\|>analysis|<reasoning>")


def template(change: Change) -> str:
    """Find the same messages rendered otherwise."""
    if change.section in _TEMPLATE:
        return "" if is_rewritten(change) else f"another {change.section}"
    old, new = change.before.request, change.after.request
    if change.section:
        return "reasoning dropped" if is_prompt(change) and _drops_reasoning(change) else ""
    if old.template != new.template or old.arguments != new.arguments:
        return "another template" if old.template != new.template else "other arguments"
    if old.prompt is None or new.prompt is None or new.prompt.startswith(old.prompt):
        return ""
    texts = old.prompt.decode("utf-8", "replace"), new.prompt.decode("utf-8", "replace")
    if mask_of(*texts, is_prompt=True) is Mask.CLOCK:
        return "date"
    return "reasoning dropped" if _lost_reasoning(change, old.prompt, new.prompt) else "the same messages otherwise"


def token(change: Change) -> str:
    """Find the same bytes in other tokens."""
    old, new = change.before.request.ids, change.after.request.ids
    if change.section or template(change) or old is None or new is None or list(new[: len(old)]) == list(old):
        return ""
    return "boundary" if n_same(change) >= len(old) - 3 else "tokenised anew"


def cache(change: Change) -> str:
    """Find tokens that were read again although they stand."""
    old, new = change.before.request, change.after.request
    if change.section or template(change) or token(change) or new.n_reused is None:
        return ""
    n_expected = min(len(old.ids), max(0, len(new.ids) - 1)) if old.ids and new.ids else old.n_reused or 0
    if new.ids and new.n_reused > len(new.ids):
        return f"{new.n_reused:,} reused of {len(new.ids):,} that were sent"
    if new.n_reused >= n_expected:
        return ""
    why = "evicted by a side request" if change.n_between else "trimmed" if new.n_reused else "forgotten"
    return f"{why}, {new.n_reused:,} of {n_expected:,} tokens reused"


def n_same(change: Change) -> int:
    """Return how many tokens both requests begin with in common."""
    old, new = change.before.request.ids or (), change.after.request.ids or ()
    return common_prefix(old, new)


def _drops_reasoning(change: Change) -> bool:
    if change.texts is None or is_told(change):
        return False
    old, new = change.texts
    at = first_difference(old, new)
    start = max(0, at - 12)
    return bool(_REASONING.search(old, start, at + 40)) and not _REASONING.search(new, start, at + 12)


def _lost_reasoning(change: Change, old: bytes, new: bytes) -> bool:
    reasoned = (text for block in change.before.section("messages") for text in _reasonings(parse(block.text)))
    return any(text in old and text not in new for text in reasoned)


def _reasonings(message: Tree) -> list[bytes]:
    if not isinstance(message, Members):
        return []
    named = [message.get(key) for key in ("reasoning_content", "reasoning", "thinking")]
    inline = re.findall(r"(?s)<think>(.*?)</think>", words_of(message))
    return [text.strip().encode() for text in [*named, *inline] if type(text) is str and text.strip()]
