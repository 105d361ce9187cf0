"""The opt-in check of every test: what grew during it only ever grew.

    [tool.pytest.ini_options]
    oasis_autouse = true

Checked are the conversations that a test appended to and the prompts its scripted engines were asked. Both are seen by
standing in for `Conversation.append` and `ScriptedEngine.generate` on their classes, from the first test to the end of
the run. A list of observers in the log itself would be a global that changes, and every program would carry it for the
sake of tests; so whoever reads `Conversation` sees nothing of this, and a run without the option has none of it.

What is not checked: other engines (theirs is the reuse check of every turn), and whether bytes are what a dialect
would render; they are what was sent.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from oasis_harness.conversation import Conversation, Node, Opening
from oasis_harness.engine import Prompt, ScriptedEngine
from oasis_harness.sequences import common_prefix
from oasis_harness.tokens import Tokenizer

__all__ = ["Watch"]


@dataclass(slots=True)
class _Grown:
    """A conversation that was appended to."""

    conversation: Conversation
    tip: Node
    """The node that was appended last."""
    went_back: str = ""
    """What happened between two appends that was none."""


@dataclass(slots=True)
class _Asked:
    """A scripted engine that was asked."""

    engine: ScriptedEngine
    n_before: int
    """Prompts it had been asked before this test."""


@dataclass(slots=True)
class _Seen:
    """What one test did, by the identity of who did it; all are kept alive until the test ends."""

    grown: dict[int, _Grown] = field(default_factory=dict)
    asked: dict[int, _Asked] = field(default_factory=dict)
    openings: list[Node] = field(default_factory=list)
    """What opened a new epoch: with one, the prompts under a key start over on purpose, once."""


class Watch:
    """A pytest plugin of its own, registered where the option is set.

    `report` hears of every test what faults it has, also of one that has none, and fails it if it has to.
    """

    def __init__(self, report: Callable[[pytest.Item, list[str]], None]) -> None:
        self._report = report
        self._seen = _Seen()
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(Conversation, "append", self._watched_append(Conversation.append))
        self._patch.setattr(ScriptedEngine, "generate", self._watched_generate(ScriptedEngine.generate))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        """Start afresh before the fixtures of a test are made."""
        self._seen = _Seen()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        """Check once its fixtures are gone."""
        result = yield
        seen, self._seen = self._seen, _Seen()
        self._report(item, list(_faults(seen)))
        return result

    def pytest_unconfigure(self) -> None:
        """Put the classes back."""
        self._patch.undo()

    def _watched_append(self, append: Callable[..., Node]) -> Callable[..., Node]:
        def watched(conversation: Conversation, *values: Any, **options: Any) -> Node:
            node = append(conversation, *values, **options)
            grown = self._seen.grown.setdefault(id(conversation), _Grown(conversation, node))
            if not _is_or_follows(node, grown.tip) and not grown.went_back:
                grown.went_back = f"it went back from {grown.tip!r} to {node.parent!r} before {node!r} was appended"
            grown.tip = node
            if isinstance(node.event, Opening) and node.ids:
                self._seen.openings.append(node)
            return node

        return watched

    def _watched_generate(self, generate: Callable[..., Any]) -> Callable[..., Any]:
        def watched(engine: ScriptedEngine, *values: Any, **options: Any) -> Any:
            self._seen.asked.setdefault(id(engine), _Asked(engine, len(engine.prompts)))
            return generate(engine, *values, **options)

        return watched


def _is_or_follows(node: Node, earlier: Node) -> bool:
    """Say whether `earlier` is `node` or before it; an append that was interrupted at its end was not seen."""
    later: Node | None = node
    while later is not None and later is not earlier and later.index > earlier.index:
        later = later.parent
    return later is earlier


def _faults(seen: _Seen) -> Iterator[str]:
    infos = [asked.engine.model_info for asked in seen.asked.values()]
    tokenizers = {info.tokenizer.digest: info.tokenizer for info in infos}
    checked: set[int] = set()
    for grown in seen.grown.values():
        fault = _fault(grown, tokenizers, checked)
        if fault:
            yield f"{grown.conversation!r}: {fault}"
    for asked in seen.asked.values():
        yield from _prompt_faults(asked, seen.openings)


def _fault(grown: _Grown, tokenizers: dict[str, Tokenizer], checked: set[int]) -> str:
    """Say what is wrong with a conversation; `checked` has the nodes that were found whole, and gets more."""
    tip = grown.conversation.tip
    if grown.went_back or not _is_or_follows(tip, grown.tip):
        return grown.went_back or f"it went back from {grown.tip!r}"
    has_ids = tip.n_tokens > 0  # a log may hold bytes only
    tokenizer = tokenizers.get(grown.conversation.epoch.tokenizer) if has_ids else None
    for node in _unchecked(tip, checked):
        fault = node.fault(node.parent)
        if not fault and tokenizer and node.epoch == tip.epoch and tokenizer.decode(node.ids) != node.sent:
            fault = "its ids are not those of its bytes"
        if fault:
            return f"event {node.index} ({node.event.kind}): {fault}"
        checked.add(id(node))
    return ""


def _unchecked(tip: Node, checked: set[int]) -> list[Node]:
    """Return the nodes up to `tip` that no fork of it has shown yet, oldest first."""
    nodes: list[Node] = []
    node: Node | None = tip
    while node is not None and id(node) not in checked:
        nodes.append(node)
        node = node.parent
    return nodes[::-1]


def _prompt_faults(asked: _Asked, openings: list[Node]) -> Iterator[str]:
    """Find prompts that do not extend the one before them under the same key, new epochs apart."""
    last: dict[str, tuple[int, Prompt]] = {}
    opened: set[tuple[str, int]] = set()  # a key, and an opening that its prompts began with before
    for index, prompt in enumerate(asked.engine.prompts):
        begun = {(prompt.conversation, id(node)) for node in openings if _is_opened(prompt, node)}
        is_opened, opened = bool(begun - opened), opened | begun
        number, before = last.get(prompt.conversation, (index, prompt))
        last[prompt.conversation] = index, prompt
        n_same = common_prefix(before.ids, prompt.ids)
        if index >= asked.n_before and n_same < len(before.ids) and not is_opened:
            yield (
                f"prompt {index + 1} of the scripted engine does not extend prompt {number + 1}: it leaves it at token "
                f"{n_same:,} of {len(before.ids):,}, so {len(before.ids) - n_same:,} tokens are read again"
            )


def _is_opened(prompt: Prompt, opening: Node) -> bool:
    return tuple(prompt.ids[: len(opening.ids)]) == opening.ids
