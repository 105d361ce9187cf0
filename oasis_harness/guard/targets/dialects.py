"""Dialects by name: a template in the project's own fixtures, a template file, or a model on this machine.

    fixtures/dialects/qwen3.jinja                    the template; its bytes are the project's
    fixtures/dialects/qwen3.tokenizer.json           optional: without it, tokens are not counted
    fixtures/dialects/qwen3.tokenizer_config.json    optional: the special tokens that the template prints

Nothing is fetched. A template whose call syntax only mlx-lm knows is refused where that is not installed: its prompt
would have other bytes here than on the machine it was recorded on.
"""

import datetime
import importlib.util
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from oasis_harness.canonical import canonical_json
from oasis_harness.engine import ModelInfo, ScriptedEngine
from oasis_harness.errors import BadDialect
from oasis_harness.render import Dialect
from oasis_harness.replies import CallSyntax
from oasis_harness.templates import USUAL_VARIABLES
from oasis_harness.tokens import Tokenizer, load_tokenizer

__all__ = ["CHATML", "DATE", "Dialects", "Given", "Spoken"]

Given: TypeAlias = str | Path | Dialect | Iterable[str | Path | Dialect] | Mapping[str, Dialect]
"""One dialect or several, by name, by file, or composed; a composed one gets its name from a mapping."""

CHATML = "chatml"
"""The plainest template, that of the scripted engine; it is always there."""
DATE = datetime.date(2000, 1, 1)
"""What a template that asks for the date is told: a snapshot holds on every day."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """A dialect, what its snapshots are called, and who counts its tokens."""

    name: str
    dialect: Dialect
    tokenizer: Tokenizer | None
    needs_syntax: bool = False
    """Its tools cannot be rendered here as a session would: the syntax of its calls is not known without mlx-lm."""

    def require_tools(self) -> None:
        """Refuse to render tools in a dialect whose call syntax is not known here.

        Raises:
            BadDialect: It is not.
        """
        if self.needs_syntax:
            raise BadDialect(
                f"how {self.name} writes calls is known to mlx-lm only, and its tools are rendered accordingly.",
                remedy="Install `oasis-harness[mlx]` where this test runs.",
                dialect=self.name,
            )


@dataclass(frozen=True, slots=True)
class _Source:
    """A template before it is composed."""

    text: str
    variables: Mapping[str, str]
    tokenizer: Tokenizer | None
    stops: tuple[str, ...]
    syntax: CallSyntax | None = None


class Dialects:
    """Finds dialects and composes each once.

    `folder` is where the project keeps its templates; relative paths count from `root`.
    """

    def __init__(self, folder: Path, root: Path) -> None:
        self._folder = folder
        self._root = root
        self._sources: dict[str, _Source] = {}
        self._composed: dict[tuple[str, bytes], Spoken] = {}

    def find(self, given: Given, arguments: Mapping[str, object] | None = None) -> list[Spoken]:
        """Return the dialects that are `given`, under the template switches `arguments`.

        Raises:
            BadDialect: There is no such dialect, it cannot be used, or two of them have one name.
        """
        if isinstance(given, Mapping):
            found = [Spoken(_file_name(name), dialect, None) for name, dialect in given.items()]
        else:
            several = (given,) if isinstance(given, str | Path | Dialect) else given
            found = [self._one(one, arguments or {}) for one in several]
        names = [spoken.name for spoken in found]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice or not names:
            raise BadDialect(
                f"two dialects are called {twice[0]!r}." if twice else "no dialect is named.",
                remedy="Name each, as in dialects={'mine': dialect}.",
                names=names,
            )
        return found

    def _one(self, given: str | Path | Dialect, arguments: Mapping[str, object]) -> Spoken:
        if isinstance(given, Dialect):
            return Spoken("dialect", given, None)
        name = str(given)
        key = name, canonical_json(dict(arguments))
        if key not in self._composed:
            if name not in self._sources:
                self._sources[name] = self._source(given, name)
            self._composed[key] = _compose(_file_name(name), self._sources[name], arguments)
        return self._composed[key]

    def _source(self, given: str | Path, name: str) -> _Source:
        is_path = isinstance(given, Path) or name.endswith(".jinja")
        path = self._root / Path(name).expanduser() if is_path else self._folder / f"{name}.jinja"
        if path.is_file():
            return _of_file(path)
        if name == CHATML:
            info = ScriptedEngine([]).model_info
            return _Source(info.chat_template, info.template_variables, None, info.stops)
        info = self._model_info(given, name)
        return _Source(
            info.chat_template,
            info.template_variables,
            info.tokenizer,
            info.stops,
            info.call_syntax,
        )

    def _model_info(self, given: str | Path, name: str) -> ModelInfo:
        from oasis_harness.embedded import find_model, read_model_info

        folder = find_model(given)
        if folder is None:
            raise BadDialect(
                f"there is no dialect {name!r}: no file {self._folder.name}/{name}.jinja, no template of that path, "
                "and no model of that name on this machine.",
                remedy=f"Put the model's chat template into {self._folder.name}/{name}.jinja of the fixtures.",
                dialect=name,
            )
        return read_model_info(folder, name)


def _of_file(path: Path) -> _Source:
    beside = path.with_suffix(".tokenizer.json")
    tokenizer = load_tokenizer(beside) if beside.is_file() else None
    variables = _variables(path.with_suffix(".tokenizer_config.json"))
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadDialect(f"{path.name} is not UTF-8: {error}.", remedy="Copy the template again.") from None
    return _Source(text, variables, tokenizer, (variables.get("eos_token", ""),))


def _variables(path: Path) -> Mapping[str, str]:
    if not path.is_file():
        return USUAL_VARIABLES
    try:
        settings = dict(json.loads(path.read_bytes()))
    except (ValueError, TypeError) as error:
        raise BadDialect(f"{path.name} is not a JSON object: {error}.", remedy="Copy it again.") from None
    from oasis_harness.embedded import settings_variables

    return settings_variables(settings)


def _compose(name: str, source: _Source, arguments: Mapping[str, object]) -> Spoken:
    """Compose without mlx-lm's table of call syntaxes where that is not needed: loading it takes seconds."""

    def composed(syntax: CallSyntax | None) -> Dialect:
        return Dialect.compose(
            source.text,
            variables=source.variables,
            arguments=arguments,
            date=DATE,
            syntax=syntax,
            stops=[stop for stop in source.stops if stop],
        )

    dialect = composed(source.syntax)
    if source.syntax is not None or not _is_degraded(dialect):
        return Spoken(name, dialect, source.tokenizer)
    if importlib.util.find_spec("mlx_lm") is None:
        return Spoken(name, dialect, source.tokenizer, needs_syntax=True)
    from oasis_harness.embedded import call_syntax

    known = call_syntax(source.text, source.tokenizer.specials if source.tokenizer else None)
    return Spoken(name, composed(known) if known else dialect, source.tokenizer)


def _is_degraded(dialect: Dialect) -> bool:
    """Say whether tools are listed in the system text although the template prints them, or calls had to be learned."""
    certificate = dialect.certificate
    return certificate.has_tools and (certificate.calls is None or certificate.layout is not None)


def _file_name(name: str) -> str:
    """Return what snapshots in the dialect `name` are called: the last part of a path or hub id, without odd marks."""
    last = Path(name).name.removesuffix(".jinja")
    return re.sub(r"[^\w.-]+", "-", last).strip("-.") or "dialect"
