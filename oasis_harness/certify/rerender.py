r"""Where a full re-render would leave what was sent and sampled: what clients that re-render must expect of a template.

    user turn    sent      assistant\n<think>\nToasis6f0b\n</think>\n\nAoasis9d02
                 rendered  assistant\nAoasis9d02<|im_end|>\n<|im_start|>user\nMoasis77a3<|im_end|>\n
    tool result  sent      assistant\n<think>\n\n</think>\n\n\n<tool_call>\n{"name": "oasis_probe", …
                 rendered  assistant\n\n<tool_call>\n{"name": "oasis_probe", …

This template prints what was thought since the user's words, and empty reasoning in the last message. At a user turn
it loses the reasoning; at a result it loses the empty one, which makes its letter C. Without that it would be B.

What the model sampled is taken from the template's own render of the reply, completed by what that drops (`sampled`).
Idea: the boundaries and three-valued stability of PrimeIntellect's `renderers`; here found by trying, not declared.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from oasis_harness.errors import TemplateFailed
from oasis_harness.templates import Message, Template

from .anchors import Places, Sent, common
from .call_form import CallForm
from .certificate import Anchor, Boundary, BoundaryName, Break, Mode, ReasoningForm
from .probes import Probe, Probes, Word
from .sampled import Sampler

__all__ = ["Rerender", "earliest", "letter_of"]


class Rerender:
    """Re-renders growing conversations through one template."""

    def __init__(
        self,
        template: Template,
        tools: Sequence[dict[str, Any]],
        form: CallForm | None,
        reasoning_form: ReasoningForm | None,
        *,
        has_system: bool,
        mode: Mode,
        no_results: str,
    ) -> None:
        """`no_results` says why there are none where `form` is None."""
        self._template = template
        self._tools = tools
        self._reasoning_form = reasoning_form
        self._mode = mode
        is_bare = mode is Mode.BARE
        self._probes = Probes(form, reasoning_form, has_system=has_system, has_text_calls=is_bare)
        self._sampler = Sampler(self._render, reasoning_form, form.cut if form is not None else None)
        self._no_results = no_results or "results are tried with tools"
        self._texts: dict[str, str] = {}
        self._whats: set[str] = set()

    @property
    def has_results(self) -> bool:
        """Whether calls and results are tried."""
        return self._probes.form is not None

    def boundaries(self) -> tuple[Boundary, ...]:
        """Return what a re-render does at every boundary."""
        grow = self._probes
        return (
            self._tried(BoundaryName.GENERATION_PROMPT, grow.answered(), self._opened),
            self._tried(BoundaryName.RESULT, grow.result(), self._broken),
            self._second_result(),
            self._tried(BoundaryName.USER, grow.user(), self._broken),
            self._tried(BoundaryName.NOTE, grow.note(), self._broken),
            self._tried(BoundaryName.TRUNCATED, grow.truncated(), self._broken),
        )

    def moves_head(self) -> bool:
        """Say whether any result or user turn moves the tools or the system text."""
        return bool({"system", "tools"} & self._whats)

    def closing(self) -> bool:
        """Say whether the bytes that end a reply change once something follows."""
        for probe in (*self._probes.result(), *self._probes.user()):
            try:
                if self._broken(probe, with_closer=True) is not None:
                    return True
            except TemplateFailed:
                continue
        return False

    def keeps_reasoning(self, name: BoundaryName) -> bool:
        """Say whether all that the model thought is still there after a result or a user turn."""
        for probe in self._probes.result() if name is BoundaryName.RESULT else self._probes.user():
            try:
                text = self._render([*probe.history, probe.reply, *probe.new])
            except TemplateFailed:
                return False
            if text.count(Word.REASONING) < probe.n_reasoned:
                return False
        return True

    def is_broken(self, name: BoundaryName) -> bool:
        """Say whether a result or a user turn breaks the prefix."""
        probes = self._probes.result() if name is BoundaryName.RESULT else self._probes.user()
        return self._tried(name, probes, self._broken).broken is not None

    def _tried(self, name: BoundaryName, probes: Iterator[Probe], broken: Callable[[Probe], Break | None]) -> Boundary:
        """Return the earliest break among the variants of a boundary."""
        found: list[Break | None] = []
        reason = ""
        for probe in probes:
            try:
                found.append(broken(probe))
            except TemplateFailed as error:
                reason = reason or error.reason
        if not found:
            return Boundary(name, False, reason=reason or self._no_results)
        if name in (BoundaryName.RESULT, BoundaryName.USER):
            self._whats |= {one.what for one in found if one is not None}
        return Boundary(name, True, reason=reason, broken=earliest(found))

    def _second_result(self) -> Boundary:
        name, form = BoundaryName.SECOND_RESULT, self._probes.form
        if form is None:
            return Boundary(name, False, reason=self._no_results)
        if not form.is_parallel:
            return Boundary(name, False, reason="the template prints one call a reply")
        found = []
        for before, second in self._probes.second_result():
            try:
                sent = self._render(before, generation_prompt=False)
                rendered = self._render([*before, second])
            except TemplateFailed as error:
                return Boundary(name, False, reason=error.reason)
            found.append(self._sent(sent, before, Probe(before, {}), n_prompt=len(sent)).left_by(rendered))
        return Boundary(name, True, broken=earliest(found))

    def _opened(self, probe: Probe) -> Break | None:
        """Return where a reply in history leaves the prompt it was sampled after."""
        prompt = self._render(probe.history)
        rendered = self._render([*probe.history, probe.reply], generation_prompt=False)
        return self._sent(prompt, probe.history, probe, n_prompt=len(prompt)).left_by(rendered)

    def _broken(self, probe: Probe, *, with_closer: bool = False) -> Break | None:
        sampled = self._sampler.sampled(probe)
        sent = self._sent(
            sampled.prompt + sampled.reasoning + sampled.answer,
            probe.history,
            probe,
            n_prompt=len(sampled.prompt),
            reasoning=sampled.reasoning,
        )
        if not with_closer:
            sent = sent.without_closer()
        return sent.left_by(self._render([*probe.history, probe.reply, *probe.new]))

    def _sent(self, text: str, history: Sequence[Message], probe: Probe, *, n_prompt: int, reasoning: str = "") -> Sent:
        return Sent(
            text=text,
            probe=probe,
            reasoning_form=self._reasoning_form,
            cut=self._probes.form.cut if self._probes.form is not None else None,
            reasoning=reasoning,
            n_prompt=n_prompt,
            mode=self._mode,
            places=lambda: self._places(text, history, n_prompt),
        )

    def _places(self, text: str, history: Sequence[Message], n_prompt: int) -> Places:
        at = next(index for index in range(len(history) - 1, -1, -1) if history[index]["role"] == "user")
        return Places(
            tools=self._tools_start(history, text),
            first=(
                self._length(history[: at + 1], text, generation_prompt=False),
                self._length(history[: at + 1], text),
            ),
            last=(self._length(history, text[:n_prompt], generation_prompt=False), n_prompt),
        )

    def _tools_start(self, history: Sequence[Message], text: str) -> int:
        """Return where what is written for the tools starts; behind all of `text` where nothing is."""
        try:
            with_tools, without = self._render(history), self._render(history, has_tools=False)
        except TemplateFailed:
            return len(text) + 1
        return common(with_tools, without) if with_tools != without else len(text) + 1

    def _length(self, messages: Sequence[Message], text: str, *, generation_prompt: bool = True) -> int:
        """Return how much of `text` these messages are."""
        try:
            return common(self._render(messages, generation_prompt=generation_prompt), text)
        except TemplateFailed:
            return 0

    def _render(self, messages: Sequence[Message], *, generation_prompt: bool = True, has_tools: bool = True) -> str:
        key = repr((messages, generation_prompt, has_tools))
        if key not in self._texts:
            tools = self._tools if has_tools else ()
            self._texts[key] = self._template.render(messages, tools=tools, generation_prompt=generation_prompt)
        return self._texts[key]


def letter_of(boundaries: Sequence[Boundary], *, moves_head: bool, is_closed_otherwise: bool) -> str:
    """Return the class of a template, from what a re-render breaks first."""
    if moves_head:
        return "D"
    found = {boundary.name: boundary.broken for boundary in boundaries}
    result, user = found[BoundaryName.RESULT], found[BoundaryName.USER]
    whats = [broken.what if broken is not None else "" for broken in (result, user)]
    if whats[0] not in ("", "closer"):
        return "C"
    if whats[1] not in ("", "closer"):
        return "B"
    return "E" if is_closed_otherwise or "closer" in whats else "A"


def earliest(found: Iterable[Break | None]) -> Break | None:
    """Return the break that comes first in any conversation.

    The last reply since the user's words may be the first: a break in the one may be the earlier break in the other.
    """
    order = list(Anchor)
    breaks = [one for one in found if one is not None]
    if any(one.offset.anchor is Anchor.FIRST_REPLY for one in breaks):
        breaks = [_in_first_reply(one) for one in breaks]
    return min(breaks, key=lambda one: (order.index(one.offset.anchor), one.offset.n_bytes), default=None)


def _in_first_reply(broken: Break) -> Break:
    if broken.offset.anchor is not Anchor.LAST_REPLY:
        return broken
    return replace(broken, offset=replace(broken.offset, anchor=Anchor.FIRST_REPLY))
