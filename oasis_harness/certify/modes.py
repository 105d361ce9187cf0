r"""What a re-render loses in each way a template can be driven, and the switch that keeps reasoning in all of them.

    with tools      …<A><think>Toasis6f0b</think>Aoasis9d02<E><user>Moasis77a3…     reasoning is kept
    without tools   …<A></think>Aoasis9d02<E><user>Moasis77a3…                      it goes at the next user turn

Real templates do this (DeepSeek-V4, Hy3). A certificate that had looked only at the first would call them append-only.
What is said of a template is the worst that any way of driving it shows, and each break says which one it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oasis_harness.templates import Message, Template

from .call_form import CallForm
from .calls import Calls
from .certificate import Boundary, BoundaryName, Kept, Mode, ReasoningForm, Switch
from .opened import PROBE_TOOL, Opened, probe_system, probe_user
from .reasoning import switch_candidates
from .rerender import Rerender, earliest, letter_of
from .sentinels import tried

__all__ = ["Found", "tried_in_all_modes"]

_WORST_FIRST = "DCBEA"


@dataclass(frozen=True, slots=True)
class Found:
    """What all modes say together."""

    boundaries: tuple[Boundary, ...]
    letters: Mapping[Mode, str]
    reasoning_form: ReasoningForm | None

    @property
    def letter(self) -> str:
        """The worst letter."""
        return min(self.letters.values(), key=_WORST_FIRST.index)


def tried_in_all_modes(template: Template, opened: Opened, calls: Calls, reasoning_form: ReasoningForm | None) -> Found:
    """Re-render growing conversations in every mode."""
    rerenders = _rerenders(template, opened, calls, reasoning_form)
    boundaries = {mode: rerender.boundaries() for mode, rerender in rerenders.items()}
    letters = {
        mode: letter_of(boundaries[mode], moves_head=rerender.moves_head(), is_closed_otherwise=rerender.closing())
        for mode, rerender in rerenders.items()
    }
    if reasoning_form is not None:
        kept = _kept(rerenders, reasoning_form)
        switch = _keep_switch(template, opened, calls, reasoning_form) if kept is not Kept.ALWAYS else None
        reasoning_form = replace(reasoning_form, kept=kept, switch=switch)
    return Found(_merged(list(boundaries.values())), letters, reasoning_form)


def _rerenders(
    template: Template, opened: Opened, calls: Calls, reasoning_form: ReasoningForm | None
) -> dict[Mode, Rerender]:
    """Return a re-render a mode; a template that prints no tools is driven without any, calls or not."""
    bare = template.shaped(template.shape._replace(tools=()))  # it is given tools where the conversation has some

    def rerender(mode: Mode, tools: Sequence[dict[str, Any]], form: CallForm | None) -> Rerender:
        return Rerender(
            bare,
            tools,
            form,
            reasoning_form,
            has_system=opened.has_system,
            mode=mode,
            no_results=calls.no_results,
        )

    if not opened.has_tools:
        return {Mode.BARE: rerender(Mode.BARE, (), calls.rerendered)}
    return {
        Mode.TOOLS: rerender(Mode.TOOLS, [PROBE_TOOL], calls.rerendered),
        Mode.BARE: rerender(Mode.BARE, (), None),
    }


def _merged(found: Sequence[tuple[Boundary, ...]]) -> tuple[Boundary, ...]:
    """Return each boundary with its earliest break in any mode; one that is tried in some mode is tried."""
    merged = []
    for boundaries in zip(*found, strict=True):
        first = next((one for one in boundaries if one.is_evaluated), boundaries[0])
        merged.append(replace(first, broken=earliest(one.broken for one in boundaries)))
    return tuple(merged)


def _kept(rerenders: Mapping[Mode, Rerender], reasoning_form: ReasoningForm) -> Kept:
    """Return how long reasoning is kept in the mode that keeps it shortest."""
    if reasoning_form.is_skipped:  # nothing is thought: what can be lost is the empty reasoning of the prompt
        if any(one.is_broken(BoundaryName.RESULT) for one in rerenders.values()):
            return Kept.NEVER
        is_broken = any(one.is_broken(BoundaryName.USER) for one in rerenders.values())
        return Kept.WITHIN_TURN if is_broken else Kept.ALWAYS
    if all(one.keeps_reasoning(BoundaryName.USER) for one in rerenders.values()):
        return Kept.ALWAYS
    with_results = [one for one in rerenders.values() if one.has_results]
    is_kept = bool(with_results) and all(one.keeps_reasoning(BoundaryName.RESULT) for one in with_results)
    return Kept.WITHIN_TURN if is_kept else Kept.NEVER


def _keep_switch(template: Template, opened: Opened, calls: Calls, reasoning_form: ReasoningForm) -> Switch | None:
    """Return the first setting under which the same first prompt goes on to keep what was thought, everywhere."""
    first = _first_prompts(template, opened)
    for switch in switch_candidates(template):
        switched = template.under({switch.name: switch.value})
        if _first_prompts(switched, opened) != first:
            continue
        if _kept(_rerenders(switched, opened, calls, reasoning_form), reasoning_form) is Kept.ALWAYS:
            return switch
    return None


def _first_prompts(template: Template, opened: Opened) -> list[str | None]:
    """Return the first prompt with a system text and tools, with one of them, and with none."""
    heads: list[list[Message]] = [[], [probe_system()]] if opened.has_system else [[]]
    tools: list[list[dict[str, Any]]] = [[], [PROBE_TOOL]] if opened.has_tools else [[]]
    return [tried(template, [*head, probe_user()], tools=some) for head in heads for some in tools]
