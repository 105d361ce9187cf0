"""`oasis template check`: what a chat template does to a prefix, as a person wants to read it, or as JSON."""

import datetime
import json
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oasis_harness.canonical import canonical_json, text_bytes
from oasis_harness.certify import Boundary, Certificate, Kept, ReasoningForm, Verdict, certify_template
from oasis_harness.conversation import Conversation, Head, Reply, ToolResult, ToolResults, User
from oasis_harness.embedded import DEFAULT_MODEL, call_syntax, find_model, read_model_info, settings_template
from oasis_harness.errors import (
    ModelNotFound,
    NotEncodable,
    OasisError,
    RenderError,
    TemplateFailed,
    TemplateRunaway,
    TokenError,
    UnsupportedTemplate,
)
from oasis_harness.render import Dialect, Renderer
from oasis_harness.replies import CallSyntax
from oasis_harness.templates import USUAL_VARIABLES, Template
from oasis_harness.tokens import Tokenizer

from .terminal import say, say_json

__all__ = ["check"]

_EXTENDS, _REWRITES, _REFUSED, _NOT_EVALUATED = 0, 1, 3, 4
_CLASSES = {
    "A": "a full re-render keeps every prefix",
    "B": "a full re-render loses the prefix at a user turn",
    "C": "a full re-render loses the prefix at a tool result",
    "D": "a full re-render moves the tools or the system text: nearly everything is read again",
    "E": "a full re-render changes only the bytes that close a reply",
}


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is checked."""

    template: Template
    syntax: CallSyntax | None
    stops: tuple[str, ...]
    name: str
    tokenizer: Tokenizer | None = None
    """The model's, where it is a model that is checked."""


def check(where: str, *, as_json: bool, settings: Mapping[str, str], date: datetime.date) -> int:
    """Certify the template of `where`, a file, a folder or a model on this machine; print it; return the exit code.

    `settings` are variables and switches of the template, as `name` and a JSON value or a plain text.
    """
    try:
        subject = _subject(where, settings, date)
        certificate = certify_template(subject.template, subject.syntax, stops=subject.stops)
    except UnsupportedTemplate as error:
        return _unusable(where, "refused", error, _REFUSED, as_json=as_json)
    except (TemplateFailed, TemplateRunaway, TokenError) as error:
        return _unusable(where, "not evaluated", error, _NOT_EVALUATED, as_json=as_json)
    if as_json:
        say_json({"template": subject.name, **certificate.to_json()})
    else:
        say("\n".join(_report(subject, certificate)))
    return _EXTENDS if certificate.verdict is Verdict.EXTENDS else _REWRITES


def _subject(where: str, settings: Mapping[str, str], date: datetime.date) -> _Subject:
    path = Path(where).expanduser()
    given = {name: _value(text) for name, text in settings.items()}
    texts = {name: str(value) for name, value in given.items() if name.endswith("_token")}
    switches = {name: value for name, value in given.items() if name not in texts}
    if path.is_file() and where != DEFAULT_MODEL:  # a file of that name here is not the model
        source, syntax = _of_file(path)
        variables: Mapping[str, str] = USUAL_VARIABLES
        tokenizer = None
        stops: tuple[str, ...] = (texts.get("eos_token", USUAL_VARIABLES["eos_token"]),)
    else:
        source, variables, stops, syntax, tokenizer = _of_model(where)
    template = Template(source, variables={**variables, **texts}, arguments=switches, date=date)
    return _Subject(template, syntax, stops, _named(where), tokenizer)


def _named(where: str) -> str:
    path = Path(where).expanduser()
    return path.name if path.is_file() else where


def _of_file(path: Path) -> tuple[str, CallSyntax | None]:
    try:
        source = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise OasisError(f"{path} is not UTF-8: {error}.", remedy="Name a chat template.", path=path) from None
    if path.suffix == ".json":
        source = _of_settings(source, path)
    return source, call_syntax(source)


def _of_settings(text: str, path: Path) -> str:
    try:
        settings = json.loads(text)
    except (ValueError, RecursionError):
        settings = None
    template = settings_template(settings) if isinstance(settings, dict) else None
    if template is None:
        raise OasisError(
            f"{path} has no chat_template.", remedy="Name a .jinja file or a tokenizer_config.json.", path=path
        )
    return template


def _of_model(name: str) -> tuple[str, Mapping[str, str], tuple[str, ...], Any, Tokenizer]:
    folder = find_model(name)
    if folder is None:
        raise ModelNotFound(
            f"{name} is neither a file nor a model on this machine.",
            remedy=f"Name a template file, or fetch the model with `oasis models pull {name}`.",
            name=name,
        )
    info = read_model_info(folder, name)
    return (
        info.chat_template,
        info.template_variables,
        info.stops,
        info.call_syntax,
        info.tokenizer,
    )


def _value(text: str) -> object:
    """Return the JSON value that `text` is, if it is one that can be recorded; else the text itself."""
    try:
        value = json.loads(text)
        canonical_json(value)
    except (ValueError, RecursionError):  # also NaN, and half a surrogate pair
        return text_bytes(text).decode("utf-8", errors="backslashreplace")
    return value


def _unusable(where: str, verdict: str, error: OasisError, code: int, *, as_json: bool) -> int:
    if as_json:
        reason = str(error)
        if isinstance(error, RenderError):
            reason = error.reason or reason
        say_json({"template": _named(where), "verdict": verdict, "reason": reason})
    else:
        say(f"{where}: {verdict}\n{textwrap.fill(str(error), 110)}")
    return code


def _seams(subject: _Subject) -> Iterator[str]:
    """Yield a line for each place where ids that were made apart meet, and what is proved of it."""
    if subject.tokenizer is None:
        return
    yield ""
    yield "How its tokens meet"
    for place, left, right in _places(subject):
        yield f"  {place:<38}{_meeting(subject.tokenizer, left, right)}"


def _meeting(tokenizer: Tokenizer, left: bytes, right: bytes) -> str:
    """Say what is known of a seam between `left` and `right` whatever is said beyond them."""
    try:
        before, after = tokenizer.encode(left), tokenizer.encode(right)
    except NotEncodable:
        return "not known: this vocabulary does not carry the template's own words"
    marks = frozenset(tokenizer.specials.values())
    is_special = (before and before[-1] in marks) or (after and after[0] in marks)
    return "canonical (a special token stands on one side)" if is_special else "kept as sent, and counted"


def _places(subject: _Subject) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield (place, fixed bytes before it, fixed bytes after it)."""
    template = subject.template
    dialect = Dialect.compose(
        template.source,
        variables=template.variables,
        arguments=template.arguments,
        date=template.date,
        syntax=subject.syntax,
        stops=subject.stops,
    )
    renderer, log = Renderer(dialect), Conversation(Head(dialect.epoch(""), b""))
    log.append(User(b"Hi"), b"Hi")
    log.append(Reply(b"Hello", "stop", "auto", 0), b"Hello")
    yield "prompt, then reply", dialect.certificate.generation_prompt.encode(), b""
    for place, event in (
        ("reply, then the next user's words", User(b"oasisNEXT")),
        ("reply, then a result", ToolResults((ToolResult("oasis0000", "probe", b"oasisNEXT"),))),
    ):
        yield place, b"", renderer.extend(log.tip, event).data.partition(b"oasisNEXT")[0]


def _report(subject: _Subject, certificate: Certificate) -> Iterator[str]:
    yield f"{subject.name}: class {certificate.letter}, {_CLASSES[certificate.letter]}"
    if len(set(certificate.letters.values())) > 1:
        yield "; ".join(f"class {letter} {mode}" for mode, letter in certificate.letters.items())
    yield f"template {certificate.digest[:15]}, {len(subject.template.source):,} characters"
    yield ""
    yield "If the whole conversation is rendered again"
    for boundary in certificate.boundaries:
        yield from _boundary(boundary)
    yield ""
    yield "What is done here instead"
    yield from (f"  {line}" for text in _deeds(certificate) for line in textwrap.wrap(text, 106))
    yield ""
    yield "How it writes"
    yield from (f"  {name:<38}{value}" for name, value in _facts(certificate))
    yield from _seams(subject)


def _boundary(boundary: Boundary) -> Iterator[str]:
    if not boundary.is_evaluated:
        yield f"  {boundary.name:<22}not evaluated: {boundary.reason}"
    elif boundary.broken is None:
        yield f"  {boundary.name:<22}holds"
    else:
        broken = boundary.broken
        n_lost = broken.n_sent - broken.n_bytes
        yield (
            f"  {boundary.name:<22}breaks at byte {broken.n_bytes:,} of {broken.n_sent:,} ({broken.what}), "
            f"{broken.offset.anchor}{_further(broken.offset.n_bytes)}, {broken.mode}: {n_lost:,} bytes are read again"
        )
        yield f"  {'':<22}  sent      {_shown(broken.sent)}"
        yield f"  {'':<22}  rendered  {_shown(broken.rendered)}"


def _further(n_bytes: int) -> str:
    return f" + {n_bytes}" if n_bytes else ""


def _shown(text: str) -> str:
    return json.dumps(text[:60], ensure_ascii=False) + ("…" if len(text) > 60 else "")


def _deeds(certificate: Certificate) -> Iterator[str]:
    yield "What was sent and sampled stays as it is; a new message is appended as the bytes the template writes for it."
    if certificate.verdict is Verdict.EXTENDS:
        yield "That is the template's own render of the whole conversation; it costs the new message."
    else:
        yield "It costs the new message, where a re-render costs what is said above, in every such turn."
    if certificate.reasoning_form is not None:
        yield from _on_reasoning(certificate.reasoning_form)
    yield from certificate.remarks


def _on_reasoning(reasoning_form: ReasoningForm) -> Iterator[str]:
    if reasoning_form.switch is not None:
        yield (
            f"{reasoning_form.switch.name}={json.dumps(reasoning_form.switch.value)} is set: "
            "the template then keeps what the model thought, and its own render extends."
        )
    elif reasoning_form.kept is not Kept.ALWAYS:
        yield (
            "What the model thought stays in the prompt (retain). The template would drop it, and most such models "
            "were not trained to see it: the policy `epoch` drops it at a user turn, and says what that costs."
        )


def _facts(certificate: Certificate) -> Iterator[tuple[str, str]]:
    native, reasoning_form = certificate.native, certificate.reasoning_form
    yield "opens a reply with", _shown(certificate.generation_prompt)
    yield "closes an answer with", _shown(certificate.closer) if certificate.closer else "nothing"
    if native is not None and native.has_role:
        yield "closes a call with", _shown(native.closer) if native.closer else "nothing"
        yield (
            "results need before them",
            {"free": "any answer", "none": "the shape of all that came before"}.get(
                native.delta_base, f"a base of kind {native.delta_base}"
            ),
        )
        yield "several results", "wrapped together: appended at once" if certificate.is_batched else "one by one"
        yield "arguments as an object", str(certificate.object_arguments or "not printed")
        yield "arguments as text", str(certificate.text_arguments or "not printed")
        yield "booleans", "as Python prints them" if certificate.prints_python else "as JSON"
    yield "system text", "printed" if certificate.has_system else "not printed: put before the first user's words"
    beside = " beside a system message only: an empty one is given" if certificate.tools_need_system else ""
    yield "tools", f"printed{beside}" if certificate.has_tools else "not printed: listed in the system text"
    for role, handling in certificate.roles.items():
        yield f"{role} in mid-conversation", str(handling)
    yield "trims the text of", ", ".join(certificate.trims) or "nobody"
    yield "content None", str(certificate.none_content)
    yield "date", "asks for it; frozen for a conversation" if certificate.uses_date else "does not ask"
    if reasoning_form is not None:
        yield "reasoning", f"read from {reasoning_form.field}, kept {reasoning_form.kept}"
