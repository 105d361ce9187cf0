"""The writing side of a session: render what an event adds, encode it, append it. Nothing here asks an engine."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import replace

from oasis_harness.canonical import text_bytes
from oasis_harness.conversation import (
    Body,
    Conversation,
    Event,
    Head,
    Node,
    Note,
    ReasoningDropped,
    Reply,
    ToolResult,
    ToolResults,
    ToolsAdded,
    User,
    last_sent,
)
from oasis_harness.engine import Completion, ModelInfo, Sampling, ToolChoice
from oasis_harness.errors import OutOfOrder, PromptTooLong, RenderError
from oasis_harness.registry import Tool, Tools
from oasis_harness.render import Dialect, Renderer
from oasis_harness.replies import Parsed, ToolCall, unquoted, with_stand_ins
from oasis_harness.tokens import N_NEAR, Seam, SeamCount

from .marks import broken_forms, without_wrap
from .reasoning import ReasoningPolicy, without_reasoning

__all__ = ["Recorder"]


class Recorder:
    """Appends to `conversation` in `dialect`, for the model of `model_info`."""

    def __init__(
        self,
        conversation: Conversation,
        dialect: Dialect,
        model_info: ModelInfo,
        tools: dict[str, Tool],
        *,
        schemas: tuple[bytes, ...] | None = None,
        reasoning: ReasoningPolicy = ReasoningPolicy.RETAIN,
    ) -> None:
        self.conversation = conversation
        self.dialect = dialect
        self.tools = tools
        """What runs when a tool is called, by name."""
        self.schemas = schemas if schemas is not None else _shown_tools(conversation)
        """The schemas the model was shown, and may call."""
        self.reasoning = reasoning
        self._renderer = Renderer(dialect)
        self._model_info = model_info
        self._wraps_in_text = dialect.wraps_in_text(model_info.tokenizer.specials)
        self._counted: tuple[Node | None, SeamCount] = None, SeamCount()
        self._parsed: tuple[Node, tuple[bytes, ...], Parsed] | None = None

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last reply that have no results yet."""
        node = last_sent(self.conversation.tip)
        return self.parse(node).calls if isinstance(node.event, Reply) else ()

    @property
    def is_waiting(self) -> bool:
        """Whether something was sent that has no reply."""
        node = last_sent(self.conversation.tip)
        return bool(node.sent) and not isinstance(node.event, Reply | ReasoningDropped)

    @property
    def seams(self) -> SeamCount:
        """The seams of the conversation, replies included. O(events since it was asked last)."""
        counted, seams = self._counted
        node: Node | None = self.conversation.tip
        while node is not None and node is not counted:
            seams += self._model_info.tokenizer.count_seam(_last_ids(node.parent, node.epoch), node.ids)
            node = node.parent
        self._counted = self.conversation.tip, seams
        return seams

    def user(self, text: str) -> None:
        """Append a user turn.

        Raises:
            OutOfOrder: The last reply made calls that have no results yet.
            PromptTooLong: It does not fit the context window; nothing was recorded.
        """
        calls = self.open_calls
        if calls:
            raise OutOfOrder(
                f"{len(calls)} calls of the last reply have no results.",
                remedy="Give them with results(); a call you will not run has the result that says so.",
            )
        bodies: list[Body] = []
        tip = self.conversation.tip
        for prepare in (self._given_up, self._without_reasoning):
            body = prepare(tip)
            if body is not None:
                tip = Node.after(tip, body)
                bodies.append(body)
        self._append(*bodies, self._carried(tip, User(self._text(text))))

    def results(self, results: Mapping[str, str | ToolResult]) -> None:
        """Append the results of all calls of the last reply, by call id.

        Raises:
            OutOfOrder: A call has no result, or a result has no call.
            PromptTooLong: They do not fit the context window; nothing was recorded.
        """
        calls = self.open_calls
        if not calls:
            raise OutOfOrder("the last reply has no call that waits for a result.", remedy="Go on with send().")
        if {call.id for call in calls} != set(results):
            raise OutOfOrder(
                f"the last reply made the calls {[call.id for call in calls]}, there are results for {list(results)}.",
                remedy="Give one result for every call, all at once.",
            )
        event = ToolResults(tuple(self._result(call, results[call.id]) for call in calls))
        self._append(self._carried(self.conversation.tip, event))

    def note(self, text: str) -> None:
        """Append a word of the harness; the next turn carries it."""
        forms = [form.text for form in broken_forms(User(self._text(text))) if isinstance(form, User)]
        first = next(self.conversation.nodes())  # a note is tried as words of a first user: it rides inside some text
        for form in forms[:-1]:
            with contextlib.suppress(RenderError):
                self._renderer.extend(first, User(form))
                self.conversation.append(Note(form))
                return
        self.conversation.append(Note(forms[-1]))

    def add_tools(self, tools: Tools) -> None:
        """Append tools that arrived after the head was sent; those the model was shown before are not shown again."""
        shown = {_name(schema) for schema in self.schemas}
        new = tuple(tool.schema for tool in tools if tool.name not in shown)
        if new:
            self.conversation.append(ToolsAdded(new))
            self.schemas += new
        self.tools = {tool.name: tool for tool in tools} | self.tools

    def reply(self, completion: Completion, tool_choice: ToolChoice) -> Parsed:
        """Append what was sampled, and return its parts."""
        data = self._model_info.tokenizer.decode(completion.ids)
        reply = Reply(data, completion.finish, tool_choice, completion.n_pending)
        return self.parse(self.conversation.append(reply, data, completion.ids))

    def parse(self, node: Node) -> Parsed:
        """Return the parts of the reply `node`; the last one asked for is not parsed again."""
        if self._parsed is not None and self._parsed[0] is node and self._parsed[1] is self.schemas:
            return self._parsed[2]
        assert isinstance(node.event, Reply), "only replies are parsed"
        assert node.parent is not None, "a reply has a question"
        opener = self._renderer.opener(last_sent(node.parent))
        tokenizer = self._model_info.tokenizer
        marks = self.dialect.marks_among(tokenizer.specials)
        quoted = sorted(span for mark in marks for span in tokenizer.spelled(node.ids, mark))
        data = with_stand_ins(node.event.data, quoted)
        parsed = self.dialect.parse(data, node.index, self.schemas, opener=opener)
        parsed = unquoted(parsed, marks) if quoted else parsed
        self._parsed = node, self.schemas, parsed
        return parsed

    def spoken(self, sampling: Sampling) -> Sampling:
        """Return `sampling` with what may be called, how this dialect writes a call, and no more tokens than have room.

        Raises:
            PromptTooLong: What waits for an answer leaves no room for one in this model's window.
        """
        n_tokens, n_context = self.conversation.tip.n_tokens, self._model_info.n_context
        if n_tokens >= n_context:
            raise PromptTooLong(
                f"the prompt that waits for an answer has {n_tokens:,} tokens, the window has {n_context:,}.",
                remedy="Continue with Session.load(path, engine) on a model with a larger window.",
                n_tokens=n_tokens,
                n_context=n_context,
            )
        max_tokens = min(sampling.max_tokens, n_context - n_tokens)
        return replace(sampling, tools=self.schemas, syntax=self.dialect.syntax, max_tokens=max_tokens)

    def fork(self, at: Node | None) -> "Recorder":
        """Return a recorder of a fork of the conversation."""
        shown = self.schemas if at is None else None  # an older tip may have been shown fewer
        return Recorder(
            self.conversation.fork(at),
            self.dialect,
            self._model_info,
            self.tools,
            schemas=shown,
            reasoning=self.reasoning,
        )

    def _append(self, *bodies: Body) -> None:
        for body in bodies:
            self.conversation.append(body.event, body.sent, body.ids, seam=body.seam)

    def _carried(self, tip: Node, event: User | ToolResults) -> Body:
        """Return `event` in the first form that the template carries: what a file says must not end the run."""
        *forms, last = broken_forms(event)
        for form in forms:
            with contextlib.suppress(RenderError):
                return self._said(tip, form)
        return self._said(tip, last)

    def _said(self, tip: Node, event: Event) -> Body:
        """Return `event` with the bytes and ids that it adds after `tip`."""
        tokenizer = self._model_info.tokenizer
        delta = self._renderer.extend(tip, event)
        ids = tokenizer.encode(delta.data, delta.authored)
        n_tokens = tip.n_tokens + len(ids)
        if n_tokens >= self._model_info.n_context:
            raise PromptTooLong(
                f"this turn makes the prompt {n_tokens:,} tokens long, the window has {self._model_info.n_context:,}.",
                remedy="Start a new Session, or go on with Session.load(path, engine) on a model of a larger window.",
                n_tokens=n_tokens,
                n_context=self._model_info.n_context,
            )
        before = _last_ids(tip, tip.epoch, 1)
        return Body(event, delta.data, ids, tokenizer.seam(before[-1] if before else None, ids))

    def _given_up(self, tip: Node) -> Body | None:
        """Close a turn that was never answered with an empty reply, so that the next one finds its place."""
        if not self.is_waiting:
            return None
        return Body(Reply(b"", "cancelled", ToolChoice.NONE, tip.n_tokens - tip.n_expected), b"", (), "")

    def _without_reasoning(self, tip: Node) -> Body | None:
        """Open an epoch without what the model thought, if it shall be and was thought since the last was opened."""
        if self.reasoning is not ReasoningPolicy.EPOCH or not self.dialect.drops_reasoning:
            return None
        trimmed = without_reasoning(tip, self._renderer, self._model_info.tokenizer)
        if trimmed.n_dropped == 0:
            return None
        n_kept = min(trimmed.n_kept, tip.n_expected)
        event = ReasoningDropped(self.conversation.epoch, tip.digest, n_kept, trimmed.n_dropped)
        return Body(event, self._model_info.tokenizer.decode(trimmed.ids), tuple(trimmed.ids), Seam.START)

    def _result(self, call: ToolCall, result: str | ToolResult) -> ToolResult:
        if isinstance(result, str):
            return ToolResult(call.id, call.name, self._content(text_bytes(result)))
        return ToolResult(call.id, call.name, self._content(result.content), result.is_error)

    def _content(self, content: bytes) -> bytes:
        escaped = self._model_info.tokenizer.escape(content)
        return without_wrap(escaped) if self._wraps_in_text else escaped

    def _text(self, text: str) -> bytes:
        return self._model_info.tokenizer.escape(text_bytes(text))


def _shown_tools(conversation: Conversation) -> tuple[bytes, ...]:
    """Return the schemas of the head and of the tools added since. O(events)."""
    shown: list[bytes] = []
    for node in conversation.nodes():
        if isinstance(node.event, Head | ToolsAdded):
            shown += node.event.tools
    return tuple(shown)


def _last_ids(tip: Node | None, epoch: int, n_tokens: int = N_NEAR) -> tuple[int, ...]:
    """Return the ids that `epoch` ends with at `tip`: at least `n_tokens`, or all there are."""
    ids: tuple[int, ...] = ()
    while tip is not None and tip.epoch == epoch and len(ids) < n_tokens:
        ids = tip.ids[-n_tokens:] + ids
        tip = tip.parent
    return ids


def _name(schema: bytes) -> str:
    name: str = json.loads(schema)["function"]["name"]
    return name
