"""Tools: functions the model may call, and the registry that keeps them in one order.

The order is the prompt's: built-in tools, then packs, then optional ones, by name within each. So an optional tool,
present or absent and registered early or late, moves no byte of what stands before it.
"""

import inspect
import json
import keyword
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TypeVar, overload

from pydantic import ValidationError

from oasis_harness.canonical import canonical_json
from oasis_harness.errors import BadArguments, BadToolName, DuplicateTool, RegistryError

from .schema import Description, complaints, describe, signature_text

__all__ = ["Effect", "Group", "Tool", "ToolRefused", "Tools"]

_Function = TypeVar("_Function", bound=Callable[..., object])


class Effect(StrEnum):
    """What a call does to the world; the loop asks before it writes or executes."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"


class Group(IntEnum):
    """Where a tool stands in the prompt: what is switched on and off stands last."""

    BUILTIN = 0
    PACK = 1
    OPTIONAL = 2


class ToolRefused(Exception):
    """Raise it in a tool: a call that was understood and not carried out. The model reads the message as it is."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One function the model may call.

    Its `schema` is all the model sees of it:

        {"type":"function","function":{"name":"…","description":"…","parameters":{"type":"object","properties":{…}}}}
    """

    name: str
    description: str
    schema: bytes
    """Canonical JSON, parameters in declaration order."""
    effect: Effect
    group: Group
    source: str
    """`file:line` of the function, for provenance; it differs by machine and never enters the prompt."""
    _function: Callable[..., object] = field(repr=False, compare=False)
    _described: Description = field(repr=False, compare=False)

    @classmethod
    def from_function(
        cls, function: Callable[..., object], *, effect: Effect, group: Group, name: str | None = None
    ) -> "Tool":
        """Make a tool of `function`, called `name` or as the function is.

        Raises:
            BadToolSchema: The function cannot be described to a model (see `schema.describe`).
            BadToolName: The name is not an ASCII identifier.
        """
        description = describe(function)
        name = function.__name__ if name is None else name
        if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name):
            remedy = "Use ASCII letters, digits and underscores: @tools.add(name=...)."
            raise BadToolName(f"A tool cannot be called {name!r}.", remedy=remedy, name=name)
        spoken = {"name": name, "description": description.text, "parameters": description.parameters}
        schema = canonical_json({"type": "function", "function": spoken})
        code = inspect.unwrap(function).__code__
        source = f"{code.co_filename}:{code.co_firstlineno}"
        return cls(name, description.text, schema, effect, group, source, function, description)

    @property
    def signature(self) -> str:
        """The call shape: `read_file(path: string, limit: integer = 200)`."""
        return signature_text(self.name, json.loads(self.schema)["function"]["parameters"])

    def call(self, arguments: Mapping[str, object]) -> str:
        """Run the function and return its result as text: a string as it is, None as "", all else as canonical JSON.

        What a string holds that UTF-8 cannot (a lone surrogate) is escaped visibly. An exception of the function
        passes through.

        Raises:
            BadArguments: The arguments do not fit; the message tells the model what to send instead.
            RegistryError: The function returned what JSON cannot express.
        """
        given = dict(arguments) if isinstance(arguments, Mapping) else arguments
        try:
            canonical_json(given)
        except (TypeError, ValueError) as error:  # a NaN or a lone surrogate, which lenient JSON parsers let through
            raise self._refusal(given, f"the arguments are not JSON, {error}") from None
        try:
            keywords = self._described.keywords(given)
        except ValidationError as error:
            raise self._refusal(given, *complaints(error)) from None
        return _as_text(self.name, self._function(**keywords))

    def _refusal(self, arguments: object, *faults: str) -> BadArguments:
        remedy = f"Call it as {self.signature}."
        return BadArguments(f"{self.name}: {'; '.join(faults)}.", remedy=remedy, tool=self.name, arguments=arguments)


class Tools:
    """A registry of tools: add in any order, read in the prompt's."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}

    @overload
    def add(
        self, function: _Function, *, effect: Effect = ..., group: Group = ..., name: str | None = ...
    ) -> _Function: ...
    @overload
    def add(
        self, function: None = None, *, effect: Effect = ..., group: Group = ..., name: str | None = ...
    ) -> Callable[[_Function], _Function]: ...
    def add(
        self,
        function: _Function | None = None,
        *,
        effect: Effect = Effect.READ,
        group: Group = Group.BUILTIN,
        name: str | None = None,
    ) -> _Function | Callable[[_Function], _Function]:
        """Register a function and return it: `@tools.add`, `@tools.add(effect=...)` or `tools.add(function)`.

        Args:
            function: A synchronous function or method whose parameters are annotated. The model reads its docstring, in
                Google, NumPy or Sphinx style: the text before the sections, and what they say of each parameter.
            effect: What a call does to the world. An agent with `approve` asks before a tool that writes or executes.
            group: Where it stands in the prompt: a tool that is switched on and off moves the fewest bytes in the last.
            name: What the model calls it; without it, the function's own name.

        Returns:
            The function as it was; without one, a decorator that returns the function it is given.

        Raises:
            BadToolName: The name is not an ASCII identifier, or a keyword of Python.
            BadToolSchema: The function cannot be described to a model: the message says what is missing.
            DuplicateTool: The name is taken.
        """

        def register(function: _Function) -> _Function:
            tool = Tool.from_function(function, effect=effect, group=group, name=name)
            if (taken := self._tools.get(tool.name)) is not None:
                message = f"The tool {tool.name} of {tool.source} is already registered, by {taken.source}."
                raise DuplicateTool(message, remedy="Rename one: @tools.add(name=...).", name=tool.name)
            self._tools[tool.name] = tool
            return function

        return register if function is None else register(function)

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def frozen(self) -> tuple[Tool, ...]:
        """Return the tools in prompt order: by group, then by name."""
        return tuple(sorted(self._tools.values(), key=lambda tool: (tool.group, tool.name)))

    def copy(self) -> "Tools":
        """Return a second registry of the same tools; what is added to one is not in the other."""
        other = Tools()
        other._tools = dict(self._tools)
        return other

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.frozen())

    def __contains__(self, name: object) -> bool:
        return name in self._tools


def _as_text(name: str, result: object) -> str:
    if result is None:
        return ""
    if isinstance(result, str):
        return result.encode("utf-8", "backslashreplace").decode("utf-8")
    try:
        return canonical_json(result).decode("utf-8")
    except (TypeError, ValueError) as error:
        message = f"The tool {name} returned a {type(result).__name__} that JSON cannot express: {error}."
        raise RegistryError(message, remedy="Return text, None or plain JSON values.", tool=name) from error
