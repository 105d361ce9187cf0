"""Conversations of probe words that grow by one step, one kind for every boundary.

Each kind comes in variants: with a system text, an earlier turn and a round of calls behind it or with none of these,
with or without reasoning, with words beside a call or none, with one call or two. What holds for all of them is said of
a template.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from oasis_harness.templates import Message

from .call_form import CallForm
from .certificate import ReasoningForm
from .sentinels import call_base, message, result_message

__all__ = ["NAME", "Probe", "Probes", "Word"]

NAME = "oasis_probe"
_CALL_IDS = ("oasis0001", "oasis0002", "oasis0003")


class Word:
    """What is said in these conversations; no two begin alike, so that a break is not seen later than it is."""

    SYSTEM, PAST, USER, MORE = "Soasis4b81", "Poasis0d4e", "Uoasis5c27", "Moasis77a3"
    FIRST, SAID, BESIDE, REASONING = "Foasis5a60", "Aoasis9d02", "Boasis21d7", "Toasis6f0b"
    DONE, OTHER = "Doasis3e4f", "Ooasis8c19"


_TEXT_CALL = f'{Word.BESIDE}\n<tool_call>{{"name": "{NAME}", "arguments": {{"oasis": "{Word.SAID}"}}}}</tool_call>'


@dataclass(frozen=True, slots=True)
class Probe:
    """One step of a conversation: what stood before, what the model said, what came back."""

    history: Sequence[Message]
    reply: Message
    new: Sequence[Message] = ()
    reasoning: str = ""
    """What the reply thought."""
    is_cut: bool = False
    """The reply ended inside its reasoning."""

    @property
    def is_call(self) -> bool:
        """Whether the reply makes a call in the template's own way."""
        return "tool_calls" in self.reply

    @property
    def n_reasoned(self) -> int:
        """How many replies hold reasoning."""
        return sum(any(Word.REASONING in str(value) for value in one.values()) for one in [*self.history, self.reply])


class Probes:
    """Makes them for a template of which these things are known."""

    def __init__(
        self,
        form: CallForm | None,
        reasoning_form: ReasoningForm | None,
        *,
        has_system: bool,
        has_text_calls: bool = False,
    ) -> None:
        """`has_text_calls`: calls and results are also tried as an assistant's and a user's own text."""
        self.form = form if form is not None and form.has_role else None
        self.reasoning_form = reasoning_form
        self._head = [message("system", Word.SYSTEM)] if has_system else []
        self._has_text_calls = has_text_calls

    def opened(self, *, has_past: bool = True) -> list[Message]:
        """Return a conversation up to a user's words; one with a past has a system text, too."""
        past = [*self._head, message("user", Word.PAST), message("assistant", Word.PAST)] if has_past else []
        return [*past, message("user", Word.USER)]

    def answered(self) -> Iterator[Probe]:
        """Yield replies to which nothing has come back."""
        for reasoning in self._reasonings():
            for history in self._histories(reasoning):
                yield Probe(history, self._reply(Word.SAID, reasoning), reasoning=reasoning)

    def result(self) -> Iterator[Probe]:
        """Yield calls and their results."""
        if self.form is None:
            return
        for reasoning in self._reasonings():
            for history in self._histories(reasoning):
                reply, results = self._called(_CALL_IDS[1:2], reasoning)
                probe = Probe(history, reply, results, reasoning)
                yield probe
                if probe.is_call:  # a model may say something beside a call
                    yield replace(probe, reply={**reply, "content": reply["content"] + Word.BESIDE})
                if probe.is_call:  # or call twice, also where the template prints one call
                    yield Probe(history, *self._called(_CALL_IDS[1:], reasoning), reasoning)

    def user(self) -> Iterator[Probe]:
        """Yield answers and the next user's words."""
        for probe in self.answered():
            yield replace(probe, new=[message("user", Word.MORE)])
            if self._has_text_calls:
                reply = self._reply(_TEXT_CALL, probe.reasoning)
                yield replace(
                    probe, reply=reply, new=[message("user", f"<tool_response>\n{Word.DONE}\n</tool_response>")]
                )

    def note(self) -> Iterator[Probe]:
        """Yield calls, their results, and a user message."""
        for probe in self.result():
            yield replace(probe, new=[*probe.new, message("user", Word.MORE)])

    def truncated(self) -> Iterator[Probe]:
        """Yield replies that were cut, in their answer or in their reasoning, and the next user's words."""
        yield from self.user()
        if self.reasoning_form is not None and not self.reasoning_form.is_skipped:
            for probe in self.user():
                if probe.reasoning:
                    yield replace(probe, reply=self._cut(probe.reasoning), is_cut=True)

    def second_result(self) -> Iterator[tuple[list[Message], Message]]:
        """Yield (a conversation with the first of two results, the second)."""
        assert self.form is not None, "only where the template prints results"
        reply, (first, second) = self._called(_CALL_IDS[1:], "")
        for history in self._histories(""):
            yield [*history, reply, first], second
            if self.form.writes_calls:
                yield [*history, {**reply, "content": Word.BESIDE}, first], second

    def _histories(self, reasoning: str) -> Iterator[list[Message]]:
        """Yield a conversation with a past, its newest user turn with a round of calls behind it, and one with none."""
        rounds: list[Message] = []
        if self.form is not None:
            reply, results = self._called(_CALL_IDS[:1], reasoning)
            rounds = [reply, *results]
        yield [*self.opened(), *rounds]
        yield self.opened(has_past=False)

    def _called(self, call_ids: Sequence[str], reasoning: str) -> tuple[Message, list[Message]]:
        """Return a reply that makes calls, and their results."""
        assert self.form is not None, "only where the template prints results"
        calls = [(call_id, NAME) for call_id in call_ids]
        reply = message("assistant", Word.SAID)
        if self.form.writes_calls:
            reply = call_base(calls, first=Word.FIRST, said=Word.SAID, as_text=self.form.arguments_as_text)[-1]
        contents = (Word.DONE, Word.OTHER)
        results = [result_message(*call, said) for call, said in zip(calls, contents, strict=False)]
        return self._with_reasoning(reply, reasoning), results

    def _reasonings(self) -> tuple[str, ...]:
        """Return what the model may have thought: something, and nothing where it need not."""
        if self.reasoning_form is None or self.reasoning_form.is_skipped:
            return ("",)
        return (Word.REASONING,) if self.reasoning_form.is_prompted else (Word.REASONING, "")

    def _reply(self, said: str, reasoning: str) -> Message:
        return self._with_reasoning(message("assistant", said), reasoning)

    def _cut(self, reasoning: str) -> Message:
        """Return a reply that ended inside its reasoning."""
        assert self.reasoning_form is not None, "only a thinker's reasoning is cut"
        if self.reasoning_form.field == "content":
            return message("assistant", self.reasoning_form.opener + reasoning)
        return self._reply("", reasoning)

    def _with_reasoning(self, message: Message, reasoning: str) -> Message:
        if not reasoning or self.reasoning_form is None:
            return message
        if self.reasoning_form.field != "content":
            return {**message, self.reasoning_form.field: reasoning}
        marked = f"{self.reasoning_form.opener}{reasoning}{self.reasoning_form.closer}"
        return {**message, "content": marked + message["content"]}
