"""The house: which room may import which, through which door, and what only one room may do.

The rules are checked on the syntax tree, so imports inside functions and under TYPE_CHECKING count too. Every rule has
a test in which a small package breaks it.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import oasis_harness

PACKAGE = Path(oasis_harness.__file__).parent
NAME = "oasis_harness"

BASEMENT = frozenset({"errors", "canonical", "sequences", "chain", "whole_file", "doors", "children", "panics"})
"""What every room may import."""

ARROWS: dict[str, frozenset[str]] = {
    "chain": frozenset({"canonical"}),
    "conversation": frozenset(),
    "registry": frozenset(),
    "tokens": frozenset(),
    "replies": frozenset({"registry"}),
    "templates": frozenset(),
    "certify": frozenset({"templates", "replies"}),
    "render": frozenset({"certify", "templates", "replies", "conversation", "registry"}),
    "engine": frozenset({"tokens", "replies"}),
    "embedded": frozenset({"engine", "tokens", "replies"}),
    # What a moved prompt costs is measured on the engine that pays it: opened only inside functions, for that.
    "guard": frozenset(
        {"conversation", "registry", "replies", "templates", "certify", "render", "tokens", "engine", "embedded"}
    ),
    "agent": frozenset({"conversation", "registry", "replies", "certify", "render", "tokens", "engine"}),
    "toolbox": frozenset({"registry"}),
    "packs": frozenset({"registry"}),
}
"""The rooms and the doors they may use. A new arrow needs a reason in docs/decisions."""

WINGS: dict[str, frozenset[str]] = {
    "textdiff": frozenset(),
    "relation": frozenset(),
    "targets": frozenset(),
    "volatile": frozenset(),
    "cost": frozenset(),
    "requests": frozenset({"textdiff", "relation", "volatile"}),
    "snapshots": frozenset({"textdiff", "relation", "cost"}),
    "perturb": frozenset({"relation", "targets"}),
    "review": frozenset({"textdiff", "relation", "targets", "volatile", "requests", "snapshots", "cost", "perturb"}),
    "plugin": frozenset({"targets", "requests", "snapshots", "review"}),
}
"""The wings of the guard and whose doors they may use: a wing is a room, one floor up. Two are beneath all."""

ANY_DOOR = frozenset({"cli", "__init__", "__main__"})
ENTRY = ("__main__", ["cli", "main"])
"""The one window: the command has no door, `python -m` and the installed script both name the module that runs it."""

HEAVY = frozenset({"mlx", "mlx_lm", "transformers", "huggingface_hub"})
"""What only `embedded` may import."""
N_LINES = 350


@dataclass(frozen=True)
class Import:
    """One imported module, by its full name."""

    line: int
    module: str
    level: int = 0
    """Leading dots."""


def violations(package: Path) -> list[str]:
    """Return every broken rule of `package` as `file:line: what`."""
    found = []
    for path in sorted(package.rglob("*.py")):
        where = path.relative_to(package)
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        problems = [*_import_problems(package, where, tree), *_printing(where, tree), *_shape(where, source)]
        found += [f"{where.as_posix()}:{line}: {problem}" for line, problem in problems]
    return found


def _import_problems(package: Path, where: Path, tree: ast.AST) -> Iterator[tuple[int, str]]:
    room = where.parts[0].removesuffix(".py")
    for item in _imports(package, tree):
        top = item.module.split(".")[0]
        if room == "guard" and item.level == len(where.parts) - 1 == 2:
            if problem := _wing_problem(where.parts[1].removesuffix(".py"), item.module.split(".")):
                yield item.line, problem
        elif item.level > 1 or (item.level == 1 and len(where.parts) == 1):
            yield item.line, "a relative import leaves its room"
        elif room == "guard" and item.level == 1 and len(where.parts) == 2 and where.parts[1] != "__init__.py":
            yield item.line, f"guard/{where.parts[1].removesuffix('.py')} climbs to guard/{item.module.split('.')[0]}"
        elif item.level == 0 and top in HEAVY and room != "embedded":
            yield item.line, f"{top} is imported outside embedded"
        elif item.level == 0 and top == NAME and (problem := _arrow_problem(room, item.module.split(".")[1:])):
            yield item.line, problem


def _wing_problem(wing: str, target: list[str]) -> str:
    """Say what is wrong with importing `..target` from a wing of the guard."""
    if target[0] not in WINGS.get(wing, frozenset()):
        return f"guard/{wing} climbs to guard/{target[0]}"
    return f"guard/{target[0]} is entered by the window, import from its door" if len(target) > 1 else ""


def _arrow_problem(room: str, target: list[str]) -> str:
    """Say what is wrong with importing oasis_harness.`target` from `room`."""
    if not target:
        return "" if room in ANY_DOOR else f"{room} climbs to the front door"
    if room in ANY_DOOR and len(target) == 2 and target[0] == "guard" and target[1] in WINGS:
        return ""  # the door of a wing
    if len(target) > 1:
        return (
            ""
            if (room, target) == ENTRY
            else f"{NAME}.{'.'.join(target)} is entered by the window, import from {NAME}.{target[0]}"
        )
    if target[0] == room:
        return "a room imports from itself relatively"
    if room in ANY_DOOR or (target[0] in BASEMENT and room not in BASEMENT):
        return ""
    return "" if target[0] in ARROWS.get(room, frozenset()) else f"{room} climbs to {target[0]}"


def _imports(package: Path, tree: ast.AST) -> Iterator[Import]:
    """Find all imports, `import_module("...")` included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level and not module:
                yield from (Import(node.lineno, alias.name, node.level) for alias in node.names)
                continue
            yield from (
                Import(node.lineno, _full_name(package, module, alias.name), node.level) for alias in node.names
            )
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("import_module", "importlib.import_module"):
            name = node.args[0] if node.args else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield Import(node.lineno, name.value)


def _full_name(package: Path, module: str, name: str) -> str:
    """Return `module.name` where that is a module of ours, else `module`: a name behind a door is no module."""
    if module.split(".")[0] != NAME:
        return module
    place = package.joinpath(*module.split(".")[1:], name)
    return f"{module}.{name}" if place.is_dir() or place.with_suffix(".py").is_file() else module


def _printing(where: Path, tree: ast.AST) -> Iterator[tuple[int, str]]:
    if where.parts[0] == "cli":
        return
    for node in ast.walk(tree):
        is_print = (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "pprint")
        )
        is_stream = isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stdout", "sys.stderr")
        if isinstance(node, ast.expr) and (is_print or is_stream):
            yield node.lineno, "only cli prints"


def _shape(where: Path, source: str) -> Iterator[tuple[int, str]]:
    room = where.parts[0].removesuffix(".py")
    if room not in {*ARROWS, *ANY_DOOR, *BASEMENT}:
        yield 1, f"{room} is no room of the table"
    n_floors = 3 if room == "guard" else 2
    if room == "guard" and where.parts[1] != "__init__.py" and where.parts[1].removesuffix(".py") not in WINGS:
        yield 1, f"guard/{where.parts[1].removesuffix('.py')} is no wing of the table"
    if len(where.parts) > n_floors:
        yield 1, "the house is one floor deep"
    if (n_lines := len(source.splitlines())) > N_LINES:
        yield n_lines, f"{n_lines} lines, the most is {N_LINES}"


_WINDOW = "oasis_harness.guard.cost.rates is entered by the window, import from oasis_harness.guard"


def house(root: Path, files: dict[str, str]) -> Path:
    """Build a package of {"room/module.py": source}, with the doors it needs, and return its folder."""
    package = root / NAME
    for name, source in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
        if path.parent != package:
            (path.parent / "__init__.py").touch()
    return package


def test_the_package_keeps_every_rule() -> None:
    """No module climbs, enters by a window, prints, grows too long, or imports mlx where it must not."""
    assert violations(PACKAGE) == []


def test_the_arrows_point_one_way() -> None:
    """No room can be reached from itself: the table has no cycle."""
    for table in (ARROWS, WINGS):
        settled = set(BASEMENT - table.keys())
        while ready := [room for room, below in table.items() if room not in settled and below <= settled]:
            settled.update(ready)
        assert settled >= set(table)


def test_run_time_and_proof_never_meet() -> None:
    """The towers agent and guard share the basement, not each other."""
    assert "guard" not in ARROWS["agent"]
    assert "agent" not in ARROWS["guard"]


def test_a_house_in_order_has_no_violations(tmp_path: Path) -> None:
    """Doors below, relative imports inside a room, mlx in embedded and prints in cli are all allowed."""
    package = house(
        tmp_path,
        {
            "errors.py": "class E(Exception): ...\n",
            "tokens/seam.py": "from oasis_harness.errors import E\n",
            "tokens/tokenizer.py": "from .seam import E\n",
            "embedded/runtime.py": "import mlx.core as mx\nfrom oasis_harness.tokens import Tokenizer\n",
            "cli/main.py": "from oasis_harness.embedded import x\nimport oasis_harness\nprint(1)\n",
        },
    )
    assert violations(package) == []


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("render/delta.py", "from oasis_harness.agent import Session\n", "render climbs to agent"),
        ("tokens/seam.py", "from oasis_harness.engine import Engine\n", "tokens climbs to engine"),
        ("engine/base.py", "from oasis_harness.conversation import Node\n", "engine climbs to conversation"),
        ("agent/loop.py", "from oasis_harness.embedded import open_engine\n", "agent climbs to embedded"),
        ("agent/loop.py", "from oasis_harness import Session\n", "agent climbs to the front door"),
        ("agent/loop.py", "import oasis_harness\n", "agent climbs to the front door"),
        ("guard/snapshots/ledger.py", "from oasis_harness.agent import Session\n", "guard climbs to agent"),
        ("errors.py", "from oasis_harness.canonical import digest\n", "errors climbs to canonical"),
        ("canonical.py", "from oasis_harness.chain import link\n", "canonical climbs to chain"),
        ("canonical.py", "import oasis_harness.registry\n", "canonical climbs to registry"),
    ],
)
def test_a_climb_is_found(tmp_path: Path, module: str, source: str, complaint: str) -> None:
    """An import of a room that is not below."""
    package = house(tmp_path, {module: source})
    assert violations(package) == [f"{module}:1: {complaint}"]


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    from oasis_harness.agent import Session\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING: from oasis_harness.agent import Session\n",
        "import importlib\nimportlib.import_module('oasis_harness.agent')\n",
        "\nfrom oasis_harness import agent\n",
    ],
    ids=["in a function", "for type checkers", "by name", "as an attribute"],
)
def test_a_hidden_climb_is_found(tmp_path: Path, source: str) -> None:
    """An import counts wherever it stands and however it is spelled."""
    package = house(tmp_path, {"render/delta.py": source, "agent/session.py": ""})
    assert violations(package) == ["render/delta.py:2: render climbs to agent"]


@pytest.mark.parametrize(
    "source",
    [
        "from oasis_harness.tokens.seam import Seam\n",
        "import oasis_harness.tokens.seam\n",
        "from oasis_harness.tokens import seam\n",
    ],
)
def test_a_window_entry_is_found(tmp_path: Path, source: str) -> None:
    """An import of another room's module, past its door; cli is held to it too."""
    complaint = "oasis_harness.tokens.seam is entered by the window, import from oasis_harness.tokens"
    package = house(tmp_path, {"tokens/seam.py": "", "engine/base.py": source, "cli/main.py": source})
    assert violations(package) == [f"cli/main.py:1: {complaint}", f"engine/base.py:1: {complaint}"]


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("guard/cost/rates.py", "from ..review import Review\n", "guard/cost climbs to guard/review"),
        ("guard/textdiff.py", "from .cost import Cost\n", "guard/textdiff climbs to guard/cost"),
        ("guard/review/parts.py", "from .. import plugin\n", "guard/review climbs to guard/plugin"),
        (
            "guard/review/parts.py",
            "from ..cost.rates import Cost\n",
            "guard/cost is entered by the window, import from its door",
        ),
        ("guard/cost/rates.py", "from ...agent import Session\n", "a relative import leaves its room"),
        ("guard/attic/box.py", "", "guard/attic is no wing of the table"),
        ("cli/prefix.py", "import oasis_harness.guard.cost.rates\n", _WINDOW),
    ],
)
def test_a_wing_is_held_to_arrows_as_a_room_is(tmp_path: Path, module: str, source: str, complaint: str) -> None:
    """A climb between wings, a window, a leap out of the house, a wing without a row."""
    package = house(tmp_path, {"guard/cost/rates.py": "", "guard/plugin/x.py": "", module: source})
    (package / "guard" / "__init__.py").touch()
    assert f"{module}:1: {complaint}" in violations(package)


def test_wings_in_order_have_no_violations(tmp_path: Path) -> None:
    """A wing's door from a wing above, from its own door, from the guard's door and from a command."""
    files = {
        "guard/textdiff.py": "",
        "guard/cost/rates.py": "from .meter import x\n",
        "guard/review/parts.py": "from ..cost import Cost\nfrom ..textdiff import why\n",
        "guard/__init__.py": "from .cost import Cost\n",
        "cli/prefix.py": "from oasis_harness.guard.review import Review\n",
    }
    assert violations(house(tmp_path, files)) == []


def test_main_enters_by_one_window_only(tmp_path: Path) -> None:
    """`python -m` runs the command's own module, and no other."""
    source = "from oasis_harness.cli.main import main\nfrom oasis_harness.cli.run import run\n"
    package = house(tmp_path, {"cli/main.py": "", "cli/run.py": "", "__main__.py": source})
    assert violations(package) == [
        "__main__.py:2: oasis_harness.cli.run is entered by the window, import from oasis_harness.cli"
    ]


@pytest.mark.parametrize("source", ["import mlx.core\n", "from mlx_lm import load\n", "import transformers\n"])
def test_a_heavy_import_outside_embedded_is_found(tmp_path: Path, source: str) -> None:
    """Only embedded imports mlx, transformers or the model hub; not even cli may."""
    library = source.split()[1].split(".")[0]
    package = house(tmp_path, {"cli/main.py": source, "embedded/runtime.py": source})
    assert violations(package) == [f"cli/main.py:1: {library} is imported outside embedded"]


@pytest.mark.parametrize("source", ["print('x')\n", "import sys; sys.stderr.write('x')\n"])
def test_a_print_outside_cli_is_found(tmp_path: Path, source: str) -> None:
    """A library that prints breaks the output of whoever uses it."""
    package = house(tmp_path, {"agent/loop.py": source})
    assert violations(package) == ["agent/loop.py:1: only cli prints"]


def test_a_relative_import_that_leaves_its_room_is_found(tmp_path: Path) -> None:
    """`from ..` hides which door is used."""
    package = house(tmp_path, {"agent/loop.py": "from ..errors import E\nfrom .. import errors\n"})
    complaint = "a relative import leaves its room"
    assert violations(package) == [f"agent/loop.py:1: {complaint}", f"agent/loop.py:2: {complaint}"]


def test_an_absolute_import_inside_a_room_is_found(tmp_path: Path) -> None:
    """Inside a room imports are relative, so that a room can be moved whole."""
    package = house(tmp_path, {"agent/loop.py": "from oasis_harness.agent import Session\n"})
    assert violations(package) == ["agent/loop.py:1: a room imports from itself relatively"]


def test_a_long_module_is_found(tmp_path: Path) -> None:
    """At 350 lines a module is whole, with one more it has to be split."""
    package = house(tmp_path, {"agent/loop.py": "x = 1\n" * 350, "agent/session.py": "x = 1\n" * 351})
    assert violations(package) == ["agent/session.py:351: 351 lines, the most is 350"]


def test_an_unknown_room_and_a_second_floor_are_found(tmp_path: Path) -> None:
    """A new room needs a row in the table, and no room has rooms of its own."""
    package = house(tmp_path, {"attic/box.py": "", "agent/deep/loop.py": ""})
    assert violations(package) == [
        "agent/deep/__init__.py:1: the house is one floor deep",
        "agent/deep/loop.py:1: the house is one floor deep",
        "attic/__init__.py:1: attic is no room of the table",
        "attic/box.py:1: attic is no room of the table",
    ]
