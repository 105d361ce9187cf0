r"""Places in what was sent and sampled from which a break is measured, so that it is found in any conversation.

    sent      <|user|>\nUoasis5c27<|assistant|><think>Toasis6f0b</think>Aoasis9d02
    rendered  <|user|>\nUoasis5c27<|assistant|></think>Aoasis9d02<|user|>\nMoasis77a3<|assistant|><think>

The two part after the `<` of `<think>`: what is lost is reasoning. An offset from the start of the prompt would hold
for these words only, so the break is "start of the last reply, -6 bytes": that reply was sampled after `<think>`, which
the prompt had opened. In any other conversation these six bytes are counted from its own last reply.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from .certificate import Anchor, Break, Mode, Offset, ReasoningForm
from .probes import NAME, Probe, Word
from .sentinels import Cut

__all__ = ["Places", "Sent", "common"]


class Places(NamedTuple):
    """Where parts of a prompt stand, which take renders to find."""

    tools: int
    """Where what is written for the tools starts."""
    first: tuple[int, int]
    """Where the opener of the first reply since the user's words starts, and where it ends."""
    last: tuple[int, int]
    """Where the opener of the last reply starts, and where it ends."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A prompt and the reply that was sampled after it. All places are offsets in characters of `text`."""

    text: str
    probe: Probe
    reasoning_form: ReasoningForm | None
    cut: Cut | None
    reasoning: str
    """What the model thought, with its marks."""
    n_prompt: int
    """Where the prompt ends, and so the opener of the last reply."""
    mode: Mode
    places: Callable[[], "Places"]
    """Looked for where it breaks: most do not."""

    def without_closer(self) -> "Sent":
        """Return it without the mark that ends the reply, which is the template's, or a stop token."""
        end = max(self._said(), self._call_end(), self._beside(), self.n_prompt + len(self.reasoning))
        return replace(self, text=self.text[:end])

    def left_by(self, rendered: str) -> Break | None:
        """Return where `rendered` leaves it."""
        if rendered.startswith(self.text):
            return None
        at, places = common(self.text, rendered), self.places()
        anchor, start = self._anchor(at, places)
        n_bytes = len(self.text[start:at].encode()) if start <= at else -len(self.text[at:start].encode())
        return Break(
            n_bytes=len(self.text[:at].encode()),
            n_sent=len(self.text.encode()),
            sent=self.text[at : at + 80],
            rendered=rendered[at : at + 80],
            what=self._what(at, rendered, places),
            offset=Offset(anchor, n_bytes),
            mode=self.mode,
        )

    def _anchor(self, at: int, found: Places) -> tuple[Anchor, int]:
        """Return the anchor that stays as far from the break in every conversation, and where it stands."""
        if found.last[0] <= at < self.n_prompt:
            return Anchor.LAST_REPLY, self.n_prompt
        if found.first[0] <= at < found.first[1]:
            return Anchor.FIRST_REPLY, found.first[1]
        if not self.probe.is_call and at >= self._said() > 0:
            return Anchor.LAST_END, len(self.text)
        places = {Anchor.START: 0, Anchor.SYSTEM: self._before(Word.SYSTEM), Anchor.TOOLS: found.tools}
        places |= {Anchor.USER: self._after(Word.USER), Anchor.RESULT: self._after(Word.DONE)}
        places |= {Anchor.LAST_REPLY: self.n_prompt, Anchor.LAST_ANSWER: self.n_prompt + len(self.reasoning)}
        if found.first != found.last:
            places[Anchor.FIRST_REPLY] = found.first[1]
        if self.probe.is_call and self._said():
            places |= {Anchor.FIRST_CALL: self._first_said(), Anchor.LAST_CALL: self._call_end()}
        anchor = max((mark for mark in places if places[mark] <= at), key=lambda mark: places[mark])
        return anchor, places[anchor]

    def _what(self, at: int, rendered: str, found: Places) -> str:
        words = self.text.rfind(Word.USER)
        if at < words:
            moved = self.text[at:words]
            return "tools" if NAME in moved else "system" if Word.SYSTEM in moved else "history"
        if self._is_reasoning(at):
            return "reasoning" if self.probe.reasoning else "empty reasoning"
        if at < self.n_prompt:
            is_in_opener = any(start <= at < end for start, end in (found.first, found.last))
            return "generation prompt" if is_in_opener else "result"
        is_said = at >= self._said() or (at >= self._first_said() and Word.SAID in rendered[at:])
        return "closer" if is_said and not self._beside() > at else "reply"

    def _is_reasoning(self, at: int) -> bool:
        """Say whether reasoning of this turn, or the mark that opens it, stands here."""
        if self.reasoning_form is None:
            return False
        start, end = self.n_prompt, self.n_prompt + len(self.reasoning)
        if start <= at < end:
            return True
        mark = self.reasoning_form.opener.strip()
        near = self.text[max(0, at - len(mark)) : at + len(mark) + 2]
        return bool(mark) and mark in near

    def _after(self, word: str) -> int:
        """Return where the last `word` ends, or a place that no break comes after."""
        at = self.text.rfind(word)
        return at + len(word) if at >= 0 else len(self.text) + 1

    def _before(self, word: str) -> int:
        """Return where `word` starts, or a place that no break comes after."""
        at = self.text.find(word)
        return at if at >= 0 else len(self.text) + 1

    def _first_said(self) -> int:
        """Return where the words in the reply's first call end."""
        at = self.text.rfind(Word.FIRST)
        return at + len(Word.FIRST) if at >= self.n_prompt else self._said()

    def _said(self) -> int:
        """Return where the reply's words end, or those in its call."""
        at = self.text.rfind(Word.SAID)
        return at + len(Word.SAID) if at >= self.n_prompt else 0

    def _call_end(self) -> int:
        """Return where the reply's call ends."""
        cut, said = self.cut, self._said()
        mark = "" if cut is None else cut.end or cut.closer
        if cut is None or not said or not self.probe.is_call or mark not in self.text[said:]:
            return 0
        return self.text.index(mark, said) + len(cut.end)

    def _beside(self) -> int:
        """Return where the words beside the call end."""
        at = self.text.rfind(Word.BESIDE)
        return at + len(Word.BESIDE) if at >= self.n_prompt else 0


def common(one: str, other: str) -> int:
    """Return how many characters the two begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low
