r"""Whose each byte of a whole prompt is: the spans of all that an epoch sent, put together.

    Be brief.                  head/system                          exact
    ", "description": "        head/tool[read_file]                 container
    Does it.                   head/tool[read_file].description     exact
    Hi                         event 1 text                         exact
    <|im_end|>\n               template                             scaffold
    <|im_start|>assistant\n    template/generation prompt           scaffold
    Well                       event 2 reply                        exact
    <|im_end|>\n               template/closer                      scaffold

The bytes are those that were sent, as the log has them. They are rendered again only to see whose they are, and where
that gives other bytes, only the event is known.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from oasis_harness.conversation import Compaction, Conversation, Node, Reply, ToolResults, User, epoch_nodes
from oasis_harness.errors import RenderError
from oasis_harness.registry import Skill, Tool

from .delta import Delta, Renderer
from .spans import Resolution, Span

__all__ = ["Provenance", "Sources", "provenance_of", "sources_of"]

Sources: TypeAlias = Mapping[str, str]
"""`file:line` of `head/system`, `tool[read_file]` or `skill[tidy]`. It differs by machine and never enters a prompt."""

_OWNER = re.compile(r"(?:head/|event \d+ )((?:tool|skill)\[.*?\])(?:\.|$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Provenance:
    """The owners of the bytes of a prompt, from the first byte of its epoch."""

    spans: tuple[Span, ...]
    """In order, without gap or overlap."""

    def explain(self, offset: int) -> Span:
        """Return the span that holds byte `offset` of the prompt.

        Raises:
            ValueError: The prompt has no such byte.
        """
        n_bytes = self.spans[-1].end if self.spans else 0
        if not 0 <= offset < n_bytes:
            raise ValueError(f"byte {offset} is not in the prompt: its epoch has {n_bytes} bytes, counted from 0")
        return self.spans[bisect_right(self.spans, offset, key=lambda span: span.start) - 1]

    def find(self, name: str) -> tuple[Span, ...]:
        """Return the spans of `name`; several where a text was sent more than once, none where it was not."""
        return tuple(span for span in self.spans if span.name == name)


def provenance_of(at: Conversation | Node, renderer: Renderer, *, sources: Sources | None = None) -> Provenance:
    """Say whose each byte of the prompt that ends at `at` is.

    Costs what rendering the events of its epoch did.
    """
    spans: list[Span] = []
    end = 0
    for node in epoch_nodes(at.tip if isinstance(at, Conversation) else at):
        spans += [_with_source(span.moved(end), sources or {}) for span in _node_spans(node, renderer)]
        end += len(node.sent)
    return Provenance(tuple(spans))


def sources_of(tools: Iterable[Tool], skills: Iterable[Skill] = (), *, system: str = "") -> dict[str, str]:
    """Return where each of `tools` and `skills` was registered; `system` says where the system text stands."""
    sources = {"head/system": system} if system else {}
    sources |= {f"tool[{tool.name}]": tool.source for tool in tools}
    return sources | {f"skill[{skill.name}]": f"{skill.source}:1" for skill in skills}


def _node_spans(node: Node, renderer: Renderer) -> Iterable[Span]:
    if not node.sent:
        return ()
    if isinstance(node.event, Reply):
        return (Span(0, len(node.sent), f"event {node.index} reply", Resolution.EXACT),)
    delta = _rendered(node, renderer)
    if delta is not None and delta.data == node.sent:
        return delta.spans
    return (Span(0, len(node.sent), f"event {node.index}", Resolution.CONTAINER),)


def _rendered(node: Node, renderer: Renderer) -> Delta | None:
    """Return what would be sent for `node` today; None where nothing can be: another dialect may have sent it."""
    if not isinstance(node.event, User | ToolResults | Compaction):
        return None
    try:
        return renderer.extend(node.parent, node.event)
    except (RenderError, ValueError):
        return None


def _with_source(span: Span, sources: Sources) -> Span:
    match = _OWNER.match(span.name)
    source = sources.get(match[1] if match else span.name, "")
    return replace(span, source=source) if source else span
