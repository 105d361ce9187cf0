"""The public surface: a name that comes or goes is a decision, written down here too."""

import ast
import inspect
from importlib import import_module
from pathlib import Path

import pytest

import oasis_harness

PUBLIC = [
    "ALLOW_ALL",
    "Agent",
    "Conversation",
    "Effect",
    "Engine",
    "Finish",
    "Group",
    "OasisError",
    "Policy",
    "Reuse",
    "Sampling",
    "ScriptedEngine",
    "Session",
    "Skills",
    "ToolCall",
    "ToolChoice",
    "ToolResult",
    "Tools",
    "Turn",
    "Usage",
    "open_engine",
    "required_then_none",
    "workspace_tools",
]

PACKAGE = Path(oasis_harness.__file__).parent
ROOMS = sorted(".".join(path.parent.relative_to(PACKAGE).parts) for path in PACKAGE.glob("*/**/__init__.py"))
DOORS = [room for room in ROOMS if room not in ("cli", "guard.plugin")]
"""The rooms and wings one imports from; cli is a command, and pytest enters the plugin by one module of it."""


def source(room: str) -> str:
    """Return the source of the door of `room`."""
    return (PACKAGE.joinpath(*room.split(".")) / "__init__.py").read_text(encoding="utf-8")


LAZY = [room for room in DOORS if "lazy_door(\n" in source(room)]
"""Doors that say twice where a name lives: to type checkers, and to the import system."""


def test_the_public_names_are_these() -> None:
    """Adding or removing one changes this list on purpose."""
    assert oasis_harness.__all__ == PUBLIC


def test_the_lazy_table_names_what_all_names() -> None:
    """No name is announced that cannot be loaded, none can be loaded that is not announced."""
    assert sorted(oasis_harness._ROOMS) == sorted(oasis_harness.__all__)


def test_type_checkers_see_what_is_loaded_at_run_time() -> None:
    """The imports under TYPE_CHECKING name the same rooms as the lazy table."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.name: str(node.module).split(".")[1] for node in imports for alias in node.names}
    assert seen == oasis_harness._ROOMS


@pytest.mark.parametrize("room", LAZY)
def test_a_lazy_door_tells_type_checkers_what_it_loads(room: str) -> None:
    """A name that only one of the two knows is a typo that nobody would see before it is used."""
    tree = ast.parse(source(room))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    told = {alias.name: "." + str(node.module) for node in imports for alias in node.names}
    homes = next(ast.literal_eval(node) for node in ast.walk(block) if isinstance(node, ast.Dict))
    assert homes == told


def test_wings_and_tokens_have_lazy_doors() -> None:
    """So the test above has something to compare."""
    assert {"tokens", "guard", "guard.requests", "guard.review"} <= set(LAZY)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_resolves_and_says_what_it_is(name: str) -> None:
    """`help(oasis_harness.<name>)` says something of our own."""
    value = getattr(oasis_harness, name)
    assert inspect.isclass(value) or inspect.isfunction(value)
    assert value.__module__.startswith("oasis_harness.")
    text = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
    assert text and not text.startswith(f"{name}(")  # a dataclass without a docstring gets its signature


def test_an_unknown_name_is_an_attribute_error() -> None:
    """The lazy door refuses as a module does."""
    with pytest.raises(AttributeError, match="no attribute 'Agents'"):
        getattr(oasis_harness, "Agents")  # noqa: B009 - mypy knows that it is not there


def test_dir_lists_what_is_not_loaded_yet() -> None:
    """Completion in a shell offers all public names."""
    assert set(PUBLIC) <= set(dir(oasis_harness))


@pytest.mark.parametrize("room", ROOMS)
def test_every_door_has_a_sign(room: str) -> None:
    """The docstring says in one breath what the room is for."""
    assert import_module(f"oasis_harness.{room}").__doc__


@pytest.mark.parametrize("room", DOORS)
def test_every_name_of_a_door_resolves(room: str) -> None:
    """`__all__` is sorted as ruff sorts it (constants, classes, functions), without doubles, and true."""
    door = import_module(f"oasis_harness.{room}")
    names: list[str] = door.__all__
    assert len(set(names)) == len(names)
    assert names == sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    assert all(getattr(door, name) is not None for name in names)
