"""An engine that plays a script and models a prefix cache: the test double this package ships.

It counts what it "reads" as a real engine would, so a harness can be tested against it for reuse, not only for text.
Faults can be switched on between calls; each is what one kind of real cache does wrong.
"""

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from oasis_harness.errors import EngineClosed
from oasis_harness.sequences import common_prefix
from oasis_harness.tokens import byte_tokenizer

from .base import Completion, Finish, ModelInfo, Piece, Progress, Prompt, Sampling, Step

__all__ = ["Faults", "ScriptedEngine"]

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""The plainest chat template: it knows no tools, so calls and results travel as text."""


@dataclass(slots=True)
class Faults:
    """What goes wrong at the next call; each is switched off again once it has happened."""

    forget: bool = False
    """Drop everything that is held."""
    trim: int = 0
    """Drop this many tokens from the end."""
    diverge_at: int | None = None
    """Change the held token at this index."""
    untrimmable: bool = False
    """Stay unable to rewind, as recurrent and rotating caches are."""


Sampled: TypeAlias = bytes | tuple[int, ...]
"""A reply as its bytes, or as its ids."""


class ScriptedEngine:
    """Answers each call with the next reply of `replies`.

    `prompts` and `samplings` keep what it was asked. A reply ends with a stop token, unless `max_tokens` cuts it. In a
    text the marks that are tokens of their own are sampled as those; a reply given as ids is sampled as it is.
    """

    def __init__(self, replies: Sequence[str | Sampled], *, model_info: ModelInfo | None = None) -> None:
        self.model_info = model_info or scripted_model_info()
        self.faults = Faults()
        self.prompts: list[Prompt] = []
        self.samplings: list[Sampling] = []
        self._replies = [reply.encode() if isinstance(reply, str) else reply for reply in replies]
        self._held: dict[str, NDArray[np.uint32]] = {}
        self._cancelled = False
        self._is_closed = False

    def generate(self, prompt: Prompt, sampling: Sampling) -> Iterator[Step]:
        """Play the next reply.

        Raises:
            EngineClosed: The script has no reply left, or the engine was closed.
        """
        if self._is_closed:
            raise EngineClosed("the scripted engine is closed.", remedy="Make another one.")
        if len(self.prompts) >= len(self._replies):
            raise EngineClosed(f"the script has only {len(self._replies)} replies.", remedy="Give it more.")
        reply = self._replies[len(self.prompts)]
        self.prompts.append(prompt)
        self.samplings.append(sampling)
        self._cancelled = False
        return self._play(prompt, reply, sampling)

    def cancel(self, conversation: str | None = None) -> None:
        """End the running call before its next chunk or token; one call runs at a time."""
        self._cancelled = True

    def fork(self, source: str, target: str, n_tokens: int) -> bool:
        """Let `target` hold the first `n_tokens` of what `source` holds."""
        self._held[target] = self._held.get(source, _NOTHING)[:n_tokens]
        return len(self._held[target]) == n_tokens

    def forget(self, conversation: str) -> None:
        """Drop what is held for `conversation`."""
        self._held.pop(conversation, None)

    def close(self) -> None:
        """Drop everything; it answers no more."""
        self._held.clear()
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _play(self, prompt: Prompt, reply: Sampled, sampling: Sampling) -> Iterator[Step]:
        held = self._spoiled(self._held.pop(prompt.conversation, _NOTHING))
        matched = common_prefix(held, prompt.ids)
        kept = min(matched, len(prompt.ids) - 1)  # the last token is always read: its logits are needed
        if kept < len(held) and self.faults.untrimmable:
            kept = 0
        n_read, finish = kept, Finish.CANCELLED
        sampled: list[int] = []
        try:
            while n_read < len(prompt.ids) and not self._cancelled:
                n_read = min(n_read + _CHUNK, len(prompt.ids))
                yield Progress(n_read - kept, len(prompt.ids) - kept)
            if n_read == len(prompt.ids):
                finish = yield from self._sample(reply, sampled, sampling.max_tokens)
        finally:
            all_ids = np.concatenate([prompt.ids, np.array(sampled, dtype=np.uint32)])
            n_unread_reply = int(finish is not Finish.STOP and bool(sampled))
            n_held = n_read + len(sampled) - n_unread_reply
            self._held[prompt.conversation] = all_ids[:n_held]
        yield Completion(
            ids=tuple(sampled),
            finish=finish,
            n_presented=len(prompt.ids),
            n_prefilled=n_read - kept,
            n_held=len(held),
            n_matched=matched,
            n_pending=len(all_ids) - n_held,
        )

    def _sample(self, reply: Sampled, sampled: list[int], max_tokens: int) -> Generator[Step, None, Finish]:
        ids = self._sampled(reply)
        for token in ids[:max_tokens]:
            if self._cancelled:
                return Finish.CANCELLED
            sampled.append(token)
            yield Piece(token, self.model_info.tokenizer.pieces[token])
        return Finish.LENGTH if len(ids) > max_tokens else Finish.STOP

    def _sampled(self, reply: Sampled) -> tuple[int, ...]:
        """Return the ids of a reply as a model samples it: its marks are tokens, and none of them ends it."""
        if isinstance(reply, tuple):
            return reply
        info = self.model_info
        marks = [text.encode() for text, token in info.tokenizer.specials.items() if token not in info.stop_ids]
        pattern = re.compile(b"|".join(map(re.escape, sorted(marks, key=len, reverse=True))) or rb"(?!)")
        between, end = [], 0
        for match in pattern.finditer(reply):
            between.append((end, match.start()))
            end = match.end()
        authored = [(start, stop) for start, stop in [*between, (end, len(reply))] if start < stop]
        return info.tokenizer.encode(reply, authored)

    def _spoiled(self, held: NDArray[np.uint32]) -> NDArray[np.uint32]:
        faults, self.faults = self.faults, Faults(untrimmable=self.faults.untrimmable)
        if faults.forget:
            return _NOTHING
        held = held[: len(held) - faults.trim].copy()
        if faults.diverge_at is not None:
            held[faults.diverge_at] ^= 1
        return held


_CHUNK = 64
"""Tokens read between two looks for a cancel."""
_NOTHING: NDArray[np.uint32] = np.empty(0, dtype=np.uint32)


def scripted_model_info() -> ModelInfo:
    """Return the model info of a model that speaks ChatML in single bytes."""
    tokenizer = byte_tokenizer(["<|im_start|>", "<|im_end|>"])
    return ModelInfo(
        name="scripted",
        tokenizer=tokenizer,
        chat_template=CHATML,
        template_variables={"eos_token": "<|im_end|>"},
        stop_ids=frozenset({tokenizer.specials["<|im_end|>"]}),
        n_context=1_000_000,
    )
