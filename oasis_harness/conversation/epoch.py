"""What the bytes of an epoch depend on besides its events.

An epoch is the stretch between two compactions. Its bytes were rendered by one template with one set of arguments and
its ids come from one tokenizer; under any other the stored ids would be nonsense, so the three are part of the log.
"""

import datetime
import json
from dataclasses import dataclass

from oasis_harness.errors import EpochMismatch

__all__ = ["Epoch"]


@dataclass(frozen=True, slots=True)
class Epoch:
    """The binding of an epoch to what rendered and tokenised it."""

    template: str
    """Digest of the chat template's source."""
    arguments: str
    """Canonical JSON of the template's arguments (thinking switch, frozen date ...)."""
    tokenizer: str
    """Digest of the tokenizer."""

    def switches(self) -> dict[str, object]:
        """Return the template's arguments without the date."""
        arguments: dict[str, object] = json.loads(self.arguments)
        arguments.pop("date", None)
        return arguments

    def date(self) -> datetime.date | None:
        """Return the date the template was told, if it asked."""
        date = json.loads(self.arguments).get("date")
        return datetime.date.fromisoformat(date) if date else None

    def require(self, other: "Epoch") -> None:
        """Refuse to continue under `other`.

        Raises:
            EpochMismatch: Any of the three differs; the message names the first that does.
        """
        for field in ("template", "arguments", "tokenizer"):
            mine, theirs = getattr(self, field), getattr(other, field)
            if mine != theirs:
                raise EpochMismatch(
                    f"the conversation was sent with {field} {mine:.80}, the engine has {theirs:.80}.",
                    remedy="Continue it with the model it was started with, or start a new conversation.",
                    field=field,
                    conversation=mine,
                    engine=theirs,
                )
