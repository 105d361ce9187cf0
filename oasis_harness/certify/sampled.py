r"""What a model sampled for a reply: the bytes its template would write for it, and what that leaves out.

    the reply    {"content": "Boasis21d7", "tool_calls": [oasis_probe(oasis="Aoasis9d02")]}
    rendered     <|assistant|><call>{"oasis": "Aoasis9d02"}</call><|end|>
    sampled      <|assistant|>Boasis21d7<call>{"oasis": "Aoasis9d02"}</call><|end|>

This template writes a call and leaves out the words beside it. The model said them, and they are in the engine's cache:
what is compared with a later render is what was said, not what is left of it. Likewise for reasoning, for an answer,
and for a call that the template leaves out because there are two, or because there are words beside it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from oasis_harness.templates import Message

from .anchors import common
from .certificate import ReasoningForm
from .probes import Probe, Word
from .sentinels import Cut

__all__ = ["Sampled", "Sampler"]


@dataclass(frozen=True, slots=True)
class Sampled:
    """A prompt, and what was sampled after it."""

    prompt: str
    reasoning: str
    """With its marks."""
    answer: str
    """Words and calls, with what ends the reply in history."""


class Sampler:
    """Says what a model sampled, of a template that `render` renders."""

    def __init__(self, render: Callable[..., str], reasoning_form: ReasoningForm | None, cut: Cut | None) -> None:
        self._render = render
        self._reasoning_form = reasoning_form
        self._mark = Cut() if cut is None else cut

    def sampled(self, probe: Probe) -> Sampled:
        """Return what was sampled when the model made the reply of `probe`.

        Raises:
            TemplateFailed: The template refuses the reply.
        """
        prompt = self._render(probe.history)
        reasoning, answer = self._parts(prompt, probe)
        if probe.is_cut:
            return Sampled(prompt, reasoning, "")
        words = [word for word in (Word.BESIDE, Word.FIRST, Word.SAID) if word in str(probe.reply)]
        lost = [word for word in words if word not in answer]
        if lost and (not probe.is_call or lost == [Word.BESIDE]):
            answer = "".join(lost) + answer
        elif lost:
            answer = self._with_calls(prompt, probe, answer)
        return Sampled(prompt, reasoning, answer)

    def _with_calls(self, prompt: str, probe: Probe, answer: str) -> str:
        """Return the words beside the calls, then each call as the template writes it where it stands alone."""
        said = answer.partition(Word.BESIDE)
        beside = said[0] + said[1] if said[1] else Word.BESIDE if Word.BESIDE in str(probe.reply["content"]) else ""
        alone = [self._parts(prompt, replace(probe, reply=one))[1] for one in _single_calls(probe.reply)]
        return beside + "".join([*map(self._called, alone[:-1]), alone[-1]])

    def _called(self, answer: str) -> str:
        """Return a call without what ends its reply."""
        at = answer.find(self._mark.end or self._mark.closer, max(answer.find(Word.FIRST), 0))
        return answer[: at + len(self._mark.end)] if at >= 0 else answer

    def _parts(self, prompt: str, probe: Probe) -> tuple[str, str]:
        """Return what the model thought and what it said, in the template's own bytes where it prints them."""
        alone = self._render([*probe.history, probe.reply], generation_prompt=False)
        own = self._own(prompt, alone, probe)
        reasoning, reasoning_form = probe.reasoning, self._reasoning_form
        if not reasoning or reasoning_form is None:
            return "", own
        opener = "" if reasoning_form.is_prompted else reasoning_form.opener
        before, found, after = own.partition(reasoning)
        if not found:
            return opener + reasoning + ("" if probe.is_cut else reasoning_form.closer), own
        opened = before if alone.startswith(prompt) else opener
        answer = after.removeprefix(reasoning_form.closer)
        closer = "" if probe.is_cut else after[: len(after) - len(answer)]
        return opened + reasoning + closer, answer

    def _own(self, prompt: str, alone: str, probe: Probe) -> str:
        """Return the reply's part of its render, which need not begin with the prompt."""
        if alone.startswith(prompt):
            return alone[len(prompt) :]
        reasoning_form = self._reasoning_form
        opener = prompt[common(self._render(probe.history, generation_prompt=False), prompt) :]
        marks = [] if reasoning_form is None else [reasoning_form.opener.strip(), reasoning_form.closer.strip()]
        for mark in filter(None, marks):
            opener = opener.partition(mark)[0]
        if not opener or opener not in alone:
            return alone[common(prompt, alone) :]
        own = alone.rpartition(opener)[2]
        return own if reasoning_form is None else own.removeprefix(reasoning_form.closer.strip()).lstrip("\n")


def _single_calls(reply: Message) -> Sequence[Message]:
    """Return the reply as one a call, without words beside it."""
    kept = {key: value for key, value in reply.items() if key not in ("content", "tool_calls")}
    reasoning = str(reply["content"]).partition(Word.BESIDE)[0]
    return [{**kept, "content": reasoning, "tool_calls": [call]} for call in reply["tool_calls"]]
