"""Where authored text went in a render: every byte of a prompt is either someone's text or template scaffold.

A second render, with a numbered mark around each text, shows it. It is believed only where taking the marks out gives
exactly the unmarked render, so a template cannot be fooled into writing anything else. Contents and the free texts of
schemas must be found so: no special token may be recognised in them. Names, and what else a schema says, are tried in
renders of their own; where a template looks at them, or rewrites them, only their tool is known.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from oasis_harness.errors import TemplateFailed, TemplateRunaway, UnsupportedTemplate
from oasis_harness.templates import Message, quoting_of

from .markers import Markers, Placed, placed
from .owned_text import Group, Leaf, OwnedText, Run, leaves_of, map_leaves, runs_of, tool_owner
from .spans import Resolution, Span

__all__ = ["Render", "Traced", "schema_text", "trace"]

Render: TypeAlias = Callable[[Sequence[Message], Sequence[dict[str, Any]]], str]
"""(messages, tools) to text."""


class Traced:
    """What a render was seen to hold."""

    def __init__(self, search: "_Search", render: Render) -> None:
        self._search = search
        self._render = render
        self._texts = search.texts(render)

    @property
    def authored(self) -> tuple[tuple[int, int], ...]:
        """Byte ranges of contents and free texts, in order."""
        return tuple((one.start, one.end) for one in self._texts)

    def owned(self) -> tuple[tuple[Span, ...], float]:
        """Look for names and what else schemas say, and return (spans, share).

        The spans are in order and apart; the rest is the template's. The share is the fraction of the bytes of
        contents, free texts and names that have a span of their own.
        """
        found, n_lost = [one for one in self._texts if self._search.knows(one)], 0
        for group in (Group.NAME, Group.KEY, Group.OTHER) if self._search.has_leaves else ():
            more = self._search.leaves(self._render, group, beside=found)
            n_lost += self._search.n_bytes(group) if more is None else 0
            found = found if more is None else more
        return tuple(self._search.spans(found)), self._search.share(found, n_lost)


def trace(plain: str, render: Render, messages: Sequence[Message], tools: Sequence[dict[str, Any]] = ()) -> Traced:
    """Find the texts of `messages` and `tools` in `plain`, which is what `render` makes of them.

    Raises:
        TemplateFailed: The template refuses the marked texts.
        UnsupportedTemplate: It changes or drops a text, or writes other scaffold around it.
    """
    return Traced(_Search(plain, messages, tools), render)


def schema_text(function: Mapping[str, Any], owner: str) -> OwnedText:
    """Return the JSON of a tool's `function`: its texts and names by their own names, all else `owner`'s."""
    marks, leaves = Markers(json.dumps(function, ensure_ascii=False)), leaves_of(function, owner)
    numbers = itertools.count()
    marked = map_leaves(function, owner, lambda leaf: marks.around(next(numbers), leaf.text))
    return OwnedText(
        Run(owner, text, Resolution.CONTAINER) if number < 0 else Run(leaves[number].name, text, Resolution.EXACT)
        for number, text in marks.split(json.dumps(marked, ensure_ascii=False))
    )


class _Search:
    """Looks for the texts of one render. Contents are numbered as they come, leaves of schemas after them."""

    def __init__(self, plain: str, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> None:
        self._plain = plain
        self._marks = Markers(plain)
        self._messages = messages
        self._tools = tools
        leaves = [leaf for tool in tools for leaf in leaves_of(tool, tool_owner(tool))]
        # By what they say, as templates sort, so that marked names come in the order of the names.
        order = sorted(range(len(leaves)), key=lambda n: leaves[n].text.lower())
        self._leaves = [leaves[n] for n in order]
        self._numbers = [len(messages) + rank for rank in sorted(range(len(order)), key=order.__getitem__)]
        """The number of each leaf, in the order of the schemas."""

    @property
    def has_leaves(self) -> bool:
        return bool(self._leaves)

    def knows(self, one: Placed) -> bool:
        """Say whether a text was given that number: a template can rewrite digits and leave the words of marks."""
        return one.number < len(self._messages) + len(self._leaves)

    def texts(self, render: Render) -> list[Placed]:
        """Find the contents and the free texts.

        Raises:
            TemplateFailed: The template refuses the marked texts.
            UnsupportedTemplate: It changes or drops a text, or writes other scaffold around it.
        """
        messages = [
            {**message, "content": self._marks.around(number, message["content"])}
            for number, message in enumerate(self._messages)
        ]
        chunks = list(self._marks.split(render(messages, self._marked_tools(Group.TEXT))))
        self._refuse_changes(chunks)
        return placed(chunks)

    def leaves(self, render: Render, group: Group, *, beside: Sequence[Placed]) -> list[Placed] | None:
        """Find the leaves of `group`, and return them among those `beside`.

        None where the template prints none of them as they are, or where others stand.
        """
        try:
            chunks = list(self._marks.split(render(self._messages, self._marked_tools(group))))
        except (TemplateFailed, TemplateRunaway):
            return None
        found = placed(chunks)
        both = sorted([*beside, *found])
        is_apart = all(one.end <= other.start for one, other in itertools.pairwise(both))
        is_believed = is_apart and all(map(self.knows, found)) and "".join(text for _, text in chunks) == self._plain
        return both if is_believed else None

    def spans(self, found: Sequence[Placed]) -> Iterator[Span]:
        """Return whose bytes those `found` are; what stands between two leaves of one tool is the tool's.

        Not before a leaf that stands there again: a template that lists tools twice may say something in between.
        """
        before = Placed(0, 0, -1, "")
        seen: set[int] = set()
        for one in found:
            owner = self._owner(one)
            if owner and owner == self._owner(before) and one.number not in seen:
                yield Span(before.end, one.start, owner, Resolution.CONTAINER)
            else:
                seen.clear()
            yield from self._own_spans(one)
            seen.add(one.number)
            before = one

    def share(self, found: Sequence[Placed], n_lost: int) -> float:
        """Return the fraction of the texts and names that were found as they are, where `n_lost` bytes were not."""
        sought = [one for one in found if not self._owner(one) or self._leaf(one).group is not Group.OTHER]
        n_bytes = n_lost + sum(one.end - one.start for one in sought)
        n_own = sum(one.end - one.start for one in sought if self._is_own(one))
        return n_own / n_bytes if n_bytes else 1.0

    def n_bytes(self, group: Group) -> int:
        """Return how many bytes of names `group` has."""
        texts = [leaf.text.strip() for leaf in self._leaves if leaf.group is group is not Group.OTHER]
        return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)

    def _marked_tools(self, group: Group) -> list[dict[str, Any]]:
        numbers = iter(self._numbers)

        def mark(leaf: Leaf) -> str:
            number = next(numbers)
            return self._marks.around(number, leaf.text) if leaf.group is group else leaf.text

        return [map_leaves(tool, tool_owner(tool), mark) for tool in self._tools]

    def _refuse_changes(self, chunks: Sequence[tuple[int, str]]) -> None:
        printed = [(number, text) for number, text in chunks if 0 <= number < len(self._messages)]
        changed = [text for number, text in printed if not quoting_of(text, self._content(number))]
        found = {self._content(number) for number, _ in printed}
        lost = [core for core in map(self._content, range(len(self._messages))) if core and core not in found]
        unmarked = "".join(text for _, text in chunks)
        if unmarked != self._plain or changed or lost:  # a mark that is left over differs from the plain render too
            raise UnsupportedTemplate(
                "the chat template changes or drops the text it is given, so typed text cannot be told from its own "
                f"marks: {(lost or changed or [unmarked])[0][:80]!r} ….",
                remedy="Use another template for this model.",
            )

    def _own_spans(self, one: Placed) -> Iterator[Span]:
        """Return the spans of a text: one, or where it is put together of runs, theirs."""
        if self._owner(one):
            yield self._leaf_span(one)
            return
        core, end = self._content(one.number), one.start
        form = quoting_of(one.printed, core)
        assert form is not None, "texts() lets no other pass"
        for run in runs_of(self._messages[one.number]["content"]):
            start, end = end, end + len(form(run.text, core).encode())
            yield Span(start, end, run.name, run.resolution)

    def _leaf_span(self, one: Placed) -> Span:
        leaf = self._leaf(one)
        if self._is_own(one):
            return Span(one.start, one.end, leaf.name, Resolution.EXACT)
        return Span(one.start, one.end, leaf.owner, Resolution.CONTAINER)

    def _is_own(self, one: Placed) -> bool:
        return not self._owner(one) or quoting_of(one.printed, self._leaf(one).text.strip()) is not None

    def _content(self, number: int) -> str:
        content: str = self._messages[number]["content"]
        return content.strip()

    def _leaf(self, one: Placed) -> Leaf:
        return self._leaves[one.number - len(self._messages)]

    def _owner(self, one: Placed) -> str:
        return self._leaf(one).owner if one.number >= len(self._messages) else ""
