"""Tools: one frozen order, schemas that depend on nothing but the function, calls that fail helpfully."""

import functools
import json
import keyword
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from oasis_harness.errors import BadArguments, BadToolName, BadToolSchema, DuplicateTool, RegistryError
from oasis_harness.registry import Effect, Group, Tool, Tools

identifiers: st.SearchStrategy[str] = st.text("abz_", min_size=1, max_size=4)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


def read_file(path: str, limit: int = 200) -> str:
    """Read a text file of the workspace.

    Args:
        path: Relative to the workspace.
        limit: Most lines
            to read.

    Returns:
        The text.
    """
    return f"{path} {limit}"


def only(function: Callable[..., object], **options: Any) -> Tool:
    tools = Tools()
    tools.add(function, **options)
    return tools.frozen()[0]


def parameters(function: Callable[..., object]) -> dict[str, Any]:
    found = json.loads(only(function).schema)["function"]["parameters"]
    assert isinstance(found, dict)
    return found


def registered(names: Sequence[tuple[str, Group]]) -> Tools:
    tools = Tools()
    for name, group in names:
        tools.add(read_file, name=name, group=group)
    return tools


def prompt_bytes(tools: Tools) -> bytes:
    return b"\n".join(tool.schema for tool in tools.frozen())


@st.composite
def named_tools(draw: st.DrawFn) -> list[tuple[str, Group]]:
    names = draw(st.lists(identifiers, unique=True, max_size=6))
    return [(name, draw(st.sampled_from(Group))) for name in names]


# Order


@pytest.mark.slow
@given(named_tools(), st.randoms(use_true_random=False))
def test_any_registration_order_gives_the_same_bytes(names: list[tuple[str, Group]], random: Any) -> None:
    shuffled = random.sample(names, len(names))
    assert prompt_bytes(registered(shuffled)) == prompt_bytes(registered(names))


@pytest.mark.slow
@given(named_tools(), st.randoms(use_true_random=False))
def test_optional_tools_move_no_byte_before_them(names: list[tuple[str, Group]], random: Any) -> None:
    """Present, absent or shuffled in among the others."""
    shuffled = random.sample(names, len(names))
    without = [(name, group) for name, group in names if group is not Group.OPTIONAL]
    assert prompt_bytes(registered(shuffled)).startswith(prompt_bytes(registered(without)))


def test_an_order_by_name_alone_would_move_bytes() -> None:
    """The property above must be able to fail: without groups an optional `a` stands before a built-in `b`."""
    one, both = registered([("b", Group.BUILTIN)]), registered([("a", Group.BUILTIN), ("b", Group.BUILTIN)])
    assert not prompt_bytes(both).startswith(prompt_bytes(one))


def test_iteration_is_in_prompt_order() -> None:
    groups = {"z": Group.OPTIONAL, "c": Group.PACK, "y": Group.BUILTIN, "b": Group.BUILTIN}
    tools = registered(list(groups.items()))
    assert [tool.name for tool in tools] == ["b", "y", "c", "z"]
    assert len(tools) == 4 and "c" in tools and "d" not in tools
    assert tools.get("c") is tools.frozen()[2] and tools.get("d") is None


# Registration


def test_add_works_as_decorator_with_and_without_options() -> None:
    tools = Tools()

    @tools.add
    def first() -> None:
        """Do one thing."""

    @tools.add(effect=Effect.WRITE, group=Group.PACK, name="other")
    def second() -> None:
        """Do another thing."""

    assert [(tool.name, tool.effect, tool.group) for tool in tools] == [
        ("first", Effect.READ, Group.BUILTIN),
        ("other", Effect.WRITE, Group.PACK),
    ]
    assert first.__name__ == "first" and second.__name__ == "second"


def test_a_second_tool_of_one_name_is_refused_and_both_places_named() -> None:
    tools = registered([("a", Group.BUILTIN)])
    with pytest.raises(DuplicateTool, match=r"test_tools\.py:\d+ is already registered, by .*test_tools\.py:\d+"):
        tools.add(read_file, name="a")
    assert len(tools) == 1


@given(st.text(max_size=5) | st.sampled_from(["class", "None", "größe", "a-b", "1a", "", "a b", "a.b", "ａ"]))
def test_only_ascii_identifiers_are_names(name: str) -> None:
    if name.isascii() and name.isidentifier() and not keyword.iskeyword(name):
        assert only(read_file, name=name).name == name
    else:
        with pytest.raises(BadToolName):
            only(read_file, name=name)


class Service:
    unit = "m"

    def measure(self, place: str) -> str:
        """Measure at a place."""
        return f"{place} in {self.unit}"


def test_bound_methods_closures_and_wrapped_functions_are_tools() -> None:
    def traced(function: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(function)
        def wrapper(*arguments: object, **keywords: object) -> str:
            return "traced " + function(*arguments, **keywords)

        return wrapper

    assert only(Service().measure).call({"place": "top"}) == "top in m"
    assert only(traced(read_file)).call({"path": "x"}) == "traced x 200"


async def coroutine(path: str) -> None:
    """Wait."""


async def stream() -> AsyncIterator[str]:
    """Stream."""
    yield ""


def generator() -> Iterator[str]:
    """Yield."""
    yield ""


def silent(path: str) -> None: ...


def faulty_section(path: str) -> None:
    """Take a path.

    Args:
        path
    """


def starred(*paths: str) -> None:
    """Take many."""


def double_starred(**options: str) -> None:
    """Take options."""


def positional(path: str, /) -> None:
    """Take by position."""


def bare(path) -> None:  # type: ignore[no-untyped-def]  # the missing annotation is what is tested
    """Take anything."""


def misspelt(path: "Pth") -> None:  # type: ignore[name-defined]  # noqa: F821 -- the unknown name is what is tested
    """Take a path."""


def foreign(stream: Callable[[], str]) -> None:
    """Take a function."""


def odd_default(path: Path = Path()) -> None:
    """Have a default that is no JSON."""


def set_default(names: frozenset[str] = frozenset({"a", "b"})) -> None:
    """Have a default whose order depends on the hash seed."""


def nan_default(limit: float = float("nan")) -> None:
    """Have a default that JSON cannot express."""


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (coroutine, "async"),
        (stream, "async"),
        (generator, "generator"),
        (silent, "docstring"),
        (faulty_section, "faulty docstring"),
        (starred, r"\*paths"),
        (double_starred, r"\*\*options"),
        (positional, "by name"),
        (bare, "no annotation for path"),
        (misspelt, "Pth"),
        (foreign, "no JSON schema"),
        (odd_default, "default for path"),
        (set_default, "default for names"),
        (nan_default, "default for limit"),
        (lambda: 1, "lambda"),
        (len, "neither a function"),
        (functools.partial(read_file, "x"), "neither a function"),
    ],
)
def test_what_a_model_could_not_use_is_refused_with_the_reason(function: Callable[..., object], reason: str) -> None:
    with pytest.raises(BadToolSchema, match=reason):
        only(function)


# Schema


def test_the_schema_is_these_bytes() -> None:
    assert only(read_file).schema == (
        b'{"type":"function","function":{"name":"read_file","description":"Read a text file of the workspace.",'
        b'"parameters":{"type":"object","properties":{'
        b'"path":{"type":"string","description":"Relative to the workspace."},'
        b'"limit":{"type":"integer","description":"Most lines to read.","default":200}},"required":["path"]}}}'
    )


@given(st.lists(identifiers, unique=True, max_size=6))
def test_parameters_keep_their_declaration_order_whatever_they_are_called(names: list[str]) -> None:
    scope: dict[str, Any] = {}
    exec(f"def tool({', '.join(f'{name}: str' for name in names)}):\n    'Do it.'\n    return locals()", scope)
    tool = only(scope["tool"])
    assert list(parameters(scope["tool"])["properties"]) == names
    assert json.loads(tool.call({name: name for name in reversed(names)})) == {name: name for name in names}


def test_names_that_pydantic_uses_itself_are_good_parameters() -> None:
    def tool(schema: str, copy: str, model_config: str, json: str, _hidden: str, title: str) -> str:
        """Take names that a pydantic model has."""
        return schema + copy + model_config + json + _hidden + title

    names = ["schema", "copy", "model_config", "json", "_hidden", "title"]
    assert list(parameters(tool)["properties"]) == names
    assert only(tool).call(dict(zip(names, "abcdef", strict=True))) == "abcdef"


class Unit(StrEnum):
    METRE = "m"
    FOOT = "ft"


class Point(BaseModel):
    title: str
    x: int = 0


def test_types_become_the_plain_forms_that_templates_read() -> None:
    def tool(
        a: int | None = None,
        b: Literal["x", "y"] = "x",
        c: list[str] | None = None,
        d: Unit = Unit.METRE,
        e: Annotated[int, Field(ge=1, description="One or more.")] = 1,
        f: dict[str, int] = {"title": 1},  # noqa: B006 -- pydantic and the tool leave it alone
    ) -> None:
        """Take all kinds."""

    assert parameters(tool)["properties"] == {
        "a": {"type": "integer"},
        "b": {"type": "string", "enum": ["x", "y"], "default": "x"},
        "c": {"type": "array", "items": {"type": "string"}},
        "d": {"$ref": "#/$defs/Unit", "default": "m"},
        "e": {"type": "integer", "description": "One or more.", "default": 1, "minimum": 1},
        "f": {"type": "object", "default": {"title": 1}, "additionalProperties": {"type": "integer"}},
    }
    assert only(tool).signature == (
        'tool(a: integer = null, b: "x" | "y" = "x", c: array of string = null, d: Unit = "m", e: integer = 1, '
        'f: object = {"title": 1})'
    )


def test_a_model_as_parameter_keeps_its_field_called_title() -> None:
    def tool(point: Point) -> str:
        """Take a point."""
        return f"{point.title} {point.x}"

    assert list(parameters(tool)["$defs"]["Point"]["properties"]) == ["title", "x"]
    assert only(tool).call({"point": {"title": "a", "x": "3"}}) == "a 3"


def test_rewrapping_a_docstring_moves_no_byte() -> None:
    def long() -> None:
        """Read a file, as it was found.

        Some more about it.
        - One.
        """

    def wrapped() -> None:
        """Read a file,
        as it was found.

        Some more
        about it.
        - One.
        """

    assert only(long).description == "Read a file, as it was found.\n\nSome more about it.\n- One."
    assert only(wrapped, name="long").schema == only(long).schema


def documented(text: str, name: str = "tool") -> Tool:
    """Make a tool of `path` and `limit` that has this docstring."""

    def tool(path: str, limit: int = 200) -> str:
        return f"{path} {limit}"

    tool.__doc__ = text
    return only(tool, name=name)


GOOGLE = """Read a text file: all of it,
    or its first lines.

    Parameters in the text stay there, and so does `:param path:`.

    Args:
        path (str): Relative to the workspace.
        limit: Most lines
            to read: 0 reads none.

    Returns:
        The text.

    Raises:
        OSError: It is not there.
    """
NUMPY = """Read a text file: all of it,
    or its first lines.

    Parameters in the text stay there, and so does `:param path:`.

    Parameters
    ----------
    path : str
        Relative to the workspace.
    limit : int, optional
        Most lines
        to read: 0 reads none.

    Returns
    -------
    str
        The text.

    Raises
    ------
    OSError
        It is not there.
    """
SPHINX = """Read a text file: all of it,
    or its first lines.

    Parameters in the text stay there, and so does `:param path:`.

    :param str path: Relative to the workspace.
    :param limit: Most lines
        to read: 0 reads none.
    :type limit: int
    :returns: The text.
    :rtype: str
    :raises OSError: It is not there.
    """


@pytest.mark.parametrize("text", [NUMPY, SPHINX], ids=["numpy", "sphinx"])
def test_a_docstring_says_the_same_in_every_style(text: str) -> None:
    assert "path" in GOOGLE and documented(text).schema == documented(GOOGLE).schema
    assert json.loads(documented(text).schema)["function"]["parameters"]["properties"] == {
        "path": {"type": "string", "description": "Relative to the workspace."},
        "limit": {"type": "integer", "description": "Most lines to read: 0 reads none.", "default": 200},
    }


def test_every_spelling_of_a_parameter_is_read() -> None:
    told = {"path": {"type": "string", "description": "One."}, "limit": {"type": "integer", "description": "One."}}
    for text in (
        "Do it.\n\nParameters\n----------\npath, limit\n    One.\n\nNotes\n-----\nlimit\n    Two.",
        "Do it.\n\nParameters\n----------\npath\n    One.\n\nOther Parameters\n----------------\nlimit\n    One.",
        "Do it.\n:arg path: One.\n:keyword limit: One.",
        "Do it.\n\n:parameter path:\n    One.\n\n:argument int limit: One.",
        "Do it.\n\n:type path: str\n:param path: One.\n:param gone: Two.\n:param int limit: One.\n:meta private:",
    ):
        tool = documented(text)
        found = json.loads(tool.schema)["function"]["parameters"]["properties"]
        assert tool.description == "Do it."
        assert {name: {**schema, "default": None} for name, schema in found.items()} == {
            name: {**schema, "default": None} for name, schema in told.items()
        }


def test_what_comes_back_alone_is_a_section_too() -> None:
    for text in (
        "Do it.\n\nReturns\n-------\nstr\n    One.",
        "Do it.\n\n:returns: One.",
        "Do it.\n\nReturns:\n    One.",
    ):
        assert documented(text).description == "Do it."


def test_a_paragraph_after_sphinx_fields_is_text_again() -> None:
    """As Sphinx shows it; in the other styles all that follows a section belongs to one."""
    tool = documented("Do it.\n\n:param path: One,\n    or two.\n\nMore of it:\n- one\n\n:returns: Two.\n\nThe end.")
    assert tool.description == "Do it.\n\nMore of it:\n- one\n\nThe end."
    assert b'"description":"One, or two."' in tool.schema


@pytest.mark.parametrize(
    "text",
    [
        "Do it.",
        "Do it: at once.\n\nNote this: path is relative.",
        "Do it.\n\nParameters\n\nThere are two.",
        "Do it.\n\nParameters are read first.\n---------- is a line.",
        "Do it.\n\n- Parameters: path.\n- limit : int",
        "Do it.\n\nUsage\n-----\npath : str",
        "Do it.\n\n`:param path:` is how others write it; ``:returns:`` too.",
        "Do it, as in:\n\n    :param path: an example of Sphinx\n\nor otherwise.",
        "Do it.\n\n:class:`str` is what comes back.",
        "Do it as others do who write\n:returns: in the text.",
        "Do it as others do who write\n:param other: in the text.",
    ],
)
def test_a_text_without_sections_stays_whole(text: str) -> None:
    """It is what it was before other styles were read; line breaks inside a paragraph are folded."""
    tool = documented(text)
    assert tool.description.split() == text.split()
    assert b'"path":{"type":"string"}' in tool.schema


def test_parameters_in_google_style_win_over_what_looks_like_another() -> None:
    mixed = "Do it.\n\n:param path: Two.\n\nArgs:\n    path: One."
    assert documented(mixed).description == "Do it.\n\n:param path: Two."
    assert b'"path":{"type":"string","description":"One."}' in documented(mixed).schema


def test_sections_alone_are_no_docstring() -> None:
    for text in (":param path: One.", "Parameters\n----------\npath\n    One."):
        with pytest.raises(BadToolSchema, match="no docstring"):
            documented(text)


def test_the_source_is_kept_and_stays_out_of_the_prompt() -> None:
    tool = only(read_file)
    path, _, line = tool.source.rpartition(":")
    assert path == __file__
    assert Path(path).read_text(encoding="utf-8").split("\n")[int(line) - 1].startswith("def read_file")
    assert b"test_tools" not in tool.schema


@pytest.mark.slow
def test_the_bytes_are_the_same_under_another_hash_seed_and_locale(tmp_path: Path) -> None:
    code = (
        "from oasis_harness.registry import Skills\nfrom oasis_harness.toolbox import workspace_tools\n"
        "tools = workspace_tools('.')\nSkills.shipped().register(tools)\nimport sys\n"
        "sys.stdout.buffer.write(b'|'.join([t.schema for t in tools] + list(Skills.shipped().lines())))"
    )
    root = str(Path(__file__).parents[2])
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": seed, "LC_ALL": locale},
            capture_output=True,
            check=True,
        ).stdout
        for seed, locale in [("1", "C"), ("2", "C.UTF-8")]
    }
    assert len(outputs) == 1 and len(outputs.pop()) > 1000


# Calls


@given(json_values)
def test_a_result_is_text_as_it_is_and_json_otherwise(value: Any) -> None:
    def tool() -> object:
        """Return a value."""
        return value

    text = only(tool).call({})
    if value is None:
        assert text == ""
    elif isinstance(value, str):
        assert text == value
    else:
        assert json.loads(text) == value


@given(json_values.filter(lambda value: not (isinstance(value, dict) and "path" in value)))
def test_bad_arguments_never_reach_the_function_and_always_name_the_call(arguments: Any) -> None:
    with pytest.raises(BadArguments) as caught:
        only(read_file).call(arguments)
    assert str(caught.value).endswith("Call it as read_file(path: string, limit: integer = 200).")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({}, "read_file: missing argument path. Call"),
        ({"path": "x", "limit": "ten"}, 'argument limit: Input should be a valid integer.*, got "ten"'),
        ({"path": "x", "line": 3}, "unknown argument line"),
        ({"path": None, "line": 3}, "argument path: .* got null; unknown argument line"),
        ({"path": "\ud800"}, "not JSON.*surrogates not allowed"),
        ({"path": "x", "limit": float("nan")}, "not JSON"),
        ({"path": 7 * "x", "limit": "y" * 1000}, "y…"),
        (["x"], "must be a JSON object, got"),
    ],
)
def test_a_refused_call_says_which_argument_and_what_it_got(arguments: Any, fault: str) -> None:
    with pytest.raises(BadArguments, match=fault) as caught:
        only(read_file).call(arguments)
    assert len(str(caught.value)) < 400
    str(caught.value).encode("utf-8")


def test_numbers_in_quotes_are_taken_as_numbers() -> None:
    assert only(read_file).call({"path": "x", "limit": "5"}) == "x 5"


def test_what_the_function_raises_passes_through() -> None:
    fault = ValueError("own fault")

    def tool() -> None:
        """Fail."""
        raise fault

    with pytest.raises(ValueError, match="own fault") as caught:
        only(tool).call({})
    assert caught.value is fault


def test_a_validation_error_of_the_function_itself_is_not_taken_for_bad_arguments() -> None:
    def tool() -> None:
        """Fail inside."""
        Point.model_validate({})

    with pytest.raises(ValueError, match="Point") as caught:
        only(tool).call({})
    assert not isinstance(caught.value, BadArguments)


def test_a_result_that_json_cannot_express_is_refused() -> None:
    def tool() -> object:
        """Return a set."""
        return {1}

    with pytest.raises(RegistryError, match="returned a set"):
        only(tool).call({})


def test_a_lone_surrogate_in_a_result_is_escaped_visibly() -> None:
    def tool() -> str:
        """Return a file name that is not UTF-8."""
        return "a\udcff"

    assert only(tool).call({}) == "a\\udcff"
