"""Every exception of the package, in one tree.

    OasisError
    ├── ConversationError
    │   ├── OutOfOrder             an event that cannot follow the tip
    │   ├── BrokenChain            a stored line whose digest does not match
    │   ├── ConversationLocked     a second writer on one file
    │   ├── NotRecorded            an event that could not be written to its file
    │   └── EpochMismatch          another template or tokenizer than the conversation was sent with
    ├── RegistryError
    │   ├── BadToolName            not an identifier
    │   ├── DuplicateTool          two tools (or skills) of one name
    │   ├── BadToolSchema          a signature no JSON schema can be made of
    │   ├── BadArguments           a call whose arguments do not fit the schema
    │   └── BadSkill               a SKILL.md without name, description or front matter
    ├── RenderError
    │   ├── TemplateFailed         the chat template raised or does not compile
    │   ├── TemplateRunaway        the chat template was stopped: too many steps, too much text
    │   └── UnsupportedTemplate    the certificate says it cannot be driven append-only
    ├── TokenError
    │   ├── BadTokenizer           a tokenizer file that cannot be used
    │   └── NotEncodable           bytes that do not survive encode and decode
    ├── EngineError
    │   ├── PromptTooLong          more tokens than the context window
    │   ├── UnknownToken           an id that the model has no row for
    │   ├── ReuseDeficit           less was reused than the conversation expected
    │   ├── ReuseExcess            more was reused than the conversation ever sent
    │   ├── ToolChoiceUnsupported  a tool choice this call syntax has no grammar for
    │   └── EngineClosed           a call after close, or a worker that died
    ├── ModelError
    │   ├── ModelNotFound          no folder, no hub id, or no way to fetch it
    │   ├── BadModel               a folder that lacks weights, tokenizer or chat template
    │   └── MissingExtra           an optional part of the package is not installed
    └── GuardError
        ├── BadDialect             no such dialect, or none that can be rendered here
        ├── BadSnapshotName        a snapshot no file can be named after
        ├── BadSnapshot            a recorded prompt that does not fit its manifest
        ├── NotSignedOff           a prompt that moved, without an entry that says why
        ├── BrokenLedger           a line of the ledger that is not what was appended there
        ├── NoBase                 a commit to compare with that is not in this clone
        └── CannotMeasure          an engine that gives no time to measure

Errors carry their values in `values`, and every message ends with what to do about it.
What the *model* should read (a tool that failed, a call that does not parse) is a tool result, never an exception.
"""

from pathlib import Path

__all__ = [
    "BadArguments",
    "BadDialect",
    "BadModel",
    "BadSkill",
    "BadSnapshot",
    "BadSnapshotName",
    "BadTokenizer",
    "BadToolName",
    "BadToolSchema",
    "BrokenChain",
    "BrokenLedger",
    "CannotMeasure",
    "ConversationError",
    "ConversationLocked",
    "DuplicateTool",
    "EngineClosed",
    "EngineError",
    "EpochMismatch",
    "GuardError",
    "MissingExtra",
    "ModelError",
    "ModelNotFound",
    "NoBase",
    "NotEncodable",
    "NotRecorded",
    "NotSignedOff",
    "OasisError",
    "OutOfOrder",
    "PromptTooLong",
    "RegistryError",
    "RenderError",
    "ReuseDeficit",
    "ReuseExcess",
    "ReuseWarning",
    "TemplateFailed",
    "TemplateRunaway",
    "TokenError",
    "ToolChoiceUnsupported",
    "UnknownToken",
    "UnsupportedTemplate",
]


class OasisError(Exception):
    """Base of everything this package raises on purpose."""

    def __init__(self, message: str, *, remedy: str = "", **values: object) -> None:
        super().__init__(f"{message} {remedy}".strip())
        self.remedy = remedy
        """What the reader can do about it; the last sentence of the message."""
        self.values = values
        """The values the message speaks of, by name."""


class ConversationError(OasisError):
    """Base of what the append-only log refuses."""


class OutOfOrder(ConversationError):
    """An event was appended where it cannot stand."""


class BrokenChain(ConversationError):
    """A stored line does not match its digest or the line before it, or the file changed under its writer."""


class ConversationLocked(ConversationError):
    """The conversation file is open for writing elsewhere."""


class NotRecorded(ConversationError):
    """An event could not be written to the conversation's file; all of it is in another one."""

    def __init__(self, message: str, *, path: Path, rescued: Path | None, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy, path=path, rescued=rescued)
        self.path = path
        """The file that failed."""
        self.rescued = rescued
        """The file that holds the conversation and the event; None where none could be written."""


class EpochMismatch(ConversationError):
    """The conversation was sent with another template, template arguments or tokenizer."""


class RegistryError(OasisError):
    """Base of what the registry refuses."""


class BadToolName(RegistryError):
    """A tool name is not an identifier."""


class DuplicateTool(RegistryError):
    """Two tools, or two skills, share one name."""


class BadToolSchema(RegistryError):
    """A signature cannot be described by a JSON schema."""


class BadArguments(RegistryError):
    """The arguments of a call do not fit the tool's schema."""


class BadSkill(RegistryError):
    """A skill folder lacks its SKILL.md, or its front matter lacks a field."""


class RenderError(OasisError):
    """Base of what rendering refuses."""

    def __init__(self, message: str, *, reason: str = "", remedy: str = "") -> None:
        super().__init__(message, remedy=remedy, reason=reason)
        self.reason = reason
        """What the template said itself, which bound it met, or what it does that no delta can follow."""


class TemplateFailed(RenderError):
    """The chat template raised, or does not compile."""


class TemplateRunaway(RenderError):
    """The chat template takes more steps, or writes more, than its conversation explains."""


class UnsupportedTemplate(RenderError):
    """The template cannot be driven append-only."""


class TokenError(OasisError):
    """Base of what the tokenizer refuses."""


class BadTokenizer(TokenError):
    """A tokenizer file cannot be used."""


class NotEncodable(TokenError):
    """Bytes changed on their way through encode and decode."""


class EngineError(OasisError):
    """Base of what an engine refuses or fails to hold."""


class PromptTooLong(EngineError):
    """The prompt does not fit the context window."""

    def __init__(self, message: str, *, n_tokens: int, n_context: int, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy, n_tokens=n_tokens, n_context=n_context)
        self.n_tokens = n_tokens
        """Tokens of the prompt that was to be sent."""
        self.n_context = n_context
        """Tokens of the window."""


class UnknownToken(EngineError):
    """A prompt holds an id that is outside the model's vocabulary."""


class ReuseDeficit(EngineError):
    """The engine read tokens again that it was expected to hold."""


class ReuseExcess(EngineError):
    """The engine claims to reuse tokens the conversation never sent."""


class ToolChoiceUnsupported(EngineError):
    """The tool choice needs a grammar the model's call syntax does not have."""


class EngineClosed(EngineError):
    """The engine is closed, or its worker died."""


class ModelError(OasisError):
    """Base of what stands between a name and a loaded model."""


class ModelNotFound(ModelError):
    """No such folder or hub id, or no way to fetch it."""


class BadModel(ModelError):
    """A model folder lacks something the engine needs."""


class MissingExtra(ModelError):
    """An optional part of the package is not installed."""


class GuardError(OasisError):
    """Base of what the proof in CI refuses."""


class BadDialect(GuardError):
    """There is no such dialect, or it cannot be rendered as its model would be spoken to."""


class BadSnapshotName(GuardError):
    """A snapshot cannot be called so: no file could be."""


class BadSnapshot(GuardError):
    """A recorded prompt was edited by hand, damaged, or rewritten by the checkout."""


class NotSignedOff(GuardError):
    """A recorded prompt moved, and no entry of the ledger says why."""


class BrokenLedger(GuardError):
    """A line of the ledger was changed, removed, inserted or put elsewhere."""


class NoBase(GuardError):
    """The commit that recorded prompts are to be compared with cannot be read here."""


class CannotMeasure(GuardError):
    """The engine gives no time to measure."""


class ReuseWarning(UserWarning):
    """A reuse deficit under the policy `warn`."""
