"""A request as blocks, in the order chat templates print them: settings, tools, system text, messages.

Each block keeps its own JSON text. A body given as bytes keeps the very characters it had; a mapping is serialised once
a message, compactly and in its own key order. Equal blocks are one object, so histories are compared by identity. The
order tools, system, messages is that of the caching levels providers document; settings go first since a change of the
model moves everything.
"""

import json
import marshal
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from oasis_harness.canonical import text_bytes

__all__ = ["SAMPLING_ONLY", "Block", "Body", "Read", "Reader", "Request", "dump", "members"]

Body: TypeAlias = Mapping[str, Any] | bytes | str
"""A chat body, its JSON, or a raw prompt."""

SAMPLING_ONLY = frozenset(
    {
        *("temperature", "top_p", "top_k", "min_p", "typical_p", "seed", "n", "best_of", "stop", "logit_bias"),
        *("max_tokens", "max_completion_tokens", "max_output_tokens", "logprobs", "top_logprobs"),
        *("presence_penalty", "frequency_penalty", "repetition_penalty", "tool_choice", "parallel_tool_calls"),
        *("stream", "stream_options", "user", "metadata", "store", "service_tier", "safety_identifier", "timeout"),
        *("request_id", "priority", "n_predict", "keep_alive"),
    }
)
"""Fields of a body that never reach the prompt; every other one counts."""

_LISTS = ("tools", "messages")
_PLACED = frozenset({*_LISTS, "system", "prompt"})
_HEAD_ROLES = frozenset({"system", "developer"})
_N_GUESSES = 4
_N_TELLING = 3
"""This message tells a history from others, mostly: the first thing the model said, after system text and task."""
_CHUNKS = (64, 512, 8192)
"""A raw prompt is cut at line ends this many bytes apart: near the start, later on, and where "later on" begins."""

_DECODER = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"[ \t\r\n]*")
_CACHE_MARK = re.compile(r',\s*"cache_control"\s*:\s*\{[^{}]*\}|(?<=\{)\s*"cache_control"\s*:\s*\{[^{}]*\}\s*,?')
"""Tells a provider where to cut its cache; it is no part of the prompt, and wanders along by design."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request and whatever else is known of it."""

    body: Body
    prompt: bytes | None = None
    """The rendered prompt."""
    ids: Sequence[int] | None = None
    """Its tokens."""
    n_reused: int | None = None
    """How many of them the engine had read before."""
    template: str | None = None
    """Digest or name of the chat template and its engine."""
    arguments: Mapping[str, Any] | None = None
    """Switches the template was given."""

    @property
    def is_bare(self) -> bool:
        """Whether nothing but the body is known."""
        return all(value is None for value in (self.prompt, self.ids, self.n_reused, self.template, self.arguments))


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One setting, tool or message, or a stretch of a raw prompt. Compared by identity."""

    section: str
    text: str
    role: str = ""

    def data(self) -> bytes:
        """Return the bytes it stands for."""
        return self.text.encode("latin-1") if self.section == "prompt" else text_bytes(self.text)


@dataclass(frozen=True, slots=True)
class Read:
    """A request in blocks."""

    request: Request
    blocks: tuple[Block, ...]
    n_head: int
    """Blocks before the first message that is no system text."""
    prompt: bytes = b""
    """The whole raw prompt; empty for a chat body."""
    rest: bytes = b""
    """The end of a raw prompt that fills no block yet."""

    def section(self, name: str) -> list[Block]:
        """Return the blocks of one section."""
        return [block for block in self.blocks if block.section == name]

    def settings(self) -> dict[str, str]:
        """Return the JSON of each setting."""
        return {block.section: block.text for block in self.blocks if block.section not in _PLACED}

    @property
    def has_reply(self) -> bool:
        """Whether the history holds anything a model said."""
        return any(block.role == "assistant" for block in self.blocks)


class Reader:
    """Reads requests into blocks, which are comparable with each other by identity."""

    def __init__(self, *, ignore: Collection[str] = (), is_exact: bool = True) -> None:
        self._ignored = SAMPLING_ONLY | frozenset(ignore)
        self._is_exact = is_exact  # False where mappings and bytes are compared with each other
        self._blocks: dict[tuple[str, str], Block] = {}
        self._of_value: dict[str, dict[bytes, Block]] = {section: {} for section in _LISTS}
        self._lists: dict[tuple[str, bytes], tuple[bytes, list[Block]]] = {}
        self._arrays: dict[tuple[str, Block], tuple[str, list[Block]]] = {}
        self._followers: dict[tuple[str, Block | None], list[tuple[str, Block]]] = {}

    def read(self, request: Request) -> Read:
        """Return `request` in blocks.

        Raises:
            ValueError: A mapping with neither `messages` nor `prompt`.
            TypeError: Something that JSON has no form for.
        """
        fields = self._fields(request.body)
        if fields is None:
            body = request.body
            return self._of_prompt(request, [], body if isinstance(body, bytes) else text_bytes(str(body)))
        counted = sorted(name for name in fields if name not in _PLACED and name not in self._ignored)
        blocks = [self._block(name, str(fields[name])) for name in counted]
        for name in ("tools", "system", "messages"):
            value = fields.get(name, [])
            blocks += value if isinstance(value, list) else [self._block(name, value)]
        if "messages" not in fields:
            return self._of_prompt(request, blocks, text_bytes(json.loads(str(fields["prompt"]))))
        return Read(request, tuple(blocks), _n_head(blocks))

    def _fields(self, body: Body) -> dict[str, str | list[Block]] | None:
        """Return the JSON text of each field of a body, lists as blocks; None for a raw prompt."""
        if isinstance(body, Mapping):
            return self._of_mapping(body)
        text = (body.decode("utf-8", "surrogateescape") if isinstance(body, bytes) else body).removeprefix("\ufeff")
        if text.lstrip()[:1] != "{":
            return None
        try:
            fields = self._of_text(text)
        except (ValueError, IndexError, RecursionError):
            return None
        if not isinstance(fields.get("messages"), list) and not str(fields.get("prompt", "")).startswith('"'):
            return None
        return fields if self._is_exact else self._of_mapping(json.loads(text))

    def _of_mapping(self, body: Mapping[str, Any]) -> dict[str, str | list[Block]]:
        if "messages" not in body and not isinstance(body.get("prompt"), str):
            raise ValueError(f"a chat body has messages or a prompt; this one has {sorted(body)}.")
        fields: dict[str, str | list[Block]] = {}
        for name, value in body.items():
            if name in _LISTS and isinstance(value, list | tuple) and value:
                fields[name] = self._of_list(name, value)
            elif name not in self._ignored:
                fields[name] = dump(value)
        return fields

    def _of_list(self, section: str, items: Sequence[Any]) -> list[Block]:
        """Return the blocks of tools or messages.

        Histories are compared as marshal writes them: like JSON it tells order, types and doubles apart, at several
        times the speed. A list that begins with the very bytes of a known one holds the blocks of that one.
        """
        data, blocks = _marshalled(items), list[Block]()
        telling = data and _marshalled(items[_N_TELLING - 1 : _N_TELLING])
        if telling:
            seen, held = self._lists.get((section, telling), (b"?", blocks))
            blocks = list(held) if data.startswith(seen) else blocks
        blocks += [self._of_item(section, item) for item in items[len(blocks) :]]
        if telling:
            self._lists[section, telling] = (data, blocks)
        return blocks

    def _of_item(self, section: str, item: object) -> Block:
        key = _marshalled([item])
        block = self._of_value[section].get(key) if key else None
        if block is None:
            block = self._of_value[section][key] = self._block(section, dump(item))
        return block

    def _of_text(self, text: str) -> dict[str, str | list[Block]]:
        fields: dict[str, str | list[Block]] = {}
        at = _skip(text, _skip(text, 0) + 1)
        while text[at] != "}":
            name, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _expect(text, _skip(text, at), ":"))
            if name in _LISTS and text[at] == "[" and text[_skip(text, at + 1)] != "]":
                fields[name], at = self._of_array(name, text, at)
            else:
                start, (_, at) = at, _DECODER.raw_decode(text, at)
                fields[name] = text[start:at]
            at = _next(text, at, "}")
        if _skip(text, at + 1) != len(text):
            raise ValueError("something follows the body")
        return fields

    def _of_array(self, section: str, text: str, at: int) -> tuple[list[Block], int]:
        """Return the blocks of the array at `at` and where it ends.

        A JSON object that starts with the very characters of a known one *is* that one, and need not be decoded again.
        So what followed the same block before is tried first, and once a few blocks say which history it is, all of
        what that history held before.
        """
        start, blocks = at, list[Block]()
        at = _skip(text, at + 1)
        while text[at] != "]":
            block, end = self._of_text_item(section, text, at, blocks[-1] if blocks else None)
            blocks.append(block)
            known = self._arrays.get((section, block)) if len(blocks) == _N_TELLING else None
            if known and text.startswith(known[0], start):
                blocks, end = list(known[1]), start + len(known[0])
            at = _next(text, end, "]")
        if len(blocks) >= _N_TELLING and text[end - 1] == "}":
            self._arrays[section, blocks[_N_TELLING - 1]] = (text[start:end], blocks)
        return blocks, at + 1

    def _of_text_item(self, section: str, text: str, at: int, last: Block | None) -> tuple[Block, int]:
        followers = self._followers.setdefault((section, last), [])
        for known, block in followers[-_N_GUESSES:]:
            if text.startswith(known, at):
                return block, at + len(known)
        end = _DECODER.raw_decode(text, at)[1]
        block = self._block(section, text[at:end])
        if text[at] == "{":
            followers.append((text[at:end], block))
        return block, end

    def _of_prompt(self, request: Request, head: list[Block], prompt: bytes) -> Read:
        blocks, at = list(head), 0
        small, large, far = _CHUNKS
        while (end := prompt.find(b"\n", at + (small if at < far else large)) + 1) > 0:
            blocks.append(self._block("prompt", prompt[at:end].decode("latin-1")))
            at = end
        return Read(request, tuple(blocks), len(head), prompt, prompt[at:])

    def _block(self, section: str, text: str) -> Block:
        if section != "prompt" and '"cache_control"' in text:
            text = _CACHE_MARK.sub("", text)
        block = self._blocks.get((section, text))
        if block is None:
            block = Block(section, text, _role(text) if section == "messages" else "")
            self._blocks[section, text] = block
        return block


def members(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """Yield each member of the JSON object or array at `at`: its step of a path, and where its value lies."""
    is_object, index = text[at] == "{", 0
    at = _skip(text, at + 1)
    while text[at] not in "]}":
        step = f"[{index}]"
        if is_object:
            name, at = _DECODER.raw_decode(text, at)
            step, at = f".{name}", _skip(text, _expect(text, _skip(text, at), ":"))
        end = _DECODER.raw_decode(text, at)[1]
        yield step, at, end
        at, index = _next(text, end, "]}"), index + 1


def _n_head(blocks: Sequence[Block]) -> int:
    for index, block in enumerate(blocks):
        if block.section == "messages" and block.role not in _HEAD_ROLES:
            return index
    return len(blocks)


def _role(text: str) -> str:
    message = json.loads(text, strict=False)
    return str(message.get("role", "")) if isinstance(message, dict) else ""


def _marshalled(items: Sequence[Any]) -> bytes:
    """Return the items of a list as marshal writes them, so that a longer list begins with a shorter one."""
    try:
        return marshal.dumps(list(items), 0)[5:]  # past the mark of a list and its length
    except ValueError:  # something that is no JSON, and that our own encoder may know
        return b""


def dump(value: object) -> str:
    """Return compact JSON, keys in their own order.

    Raises:
        TypeError: Something that JSON has no form for.
    """
    return _ENCODER.encode(value)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r} has no JSON form; give the body as it was sent, as a mapping or as JSON bytes.")


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _expect(text: str, at: int, mark: str) -> int:
    if text[at] != mark:
        raise ValueError(f"{mark!r} expected at {at}")
    return at + 1


def _next(text: str, at: int, closers: str) -> int:
    """Return where the next member begins after the one that ends at `at`, or where its container closes."""
    at = _skip(text, at)
    if text[at] in closers:
        return at
    return _skip(text, _expect(text, at, ","))
