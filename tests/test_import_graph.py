"""No file of the package imports itself, directly or through others: a reader can start at the bottom.

Imports in functions and under TYPE_CHECKING count too. What stands behind a lazy door is the door's, not the file's.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import oasis_harness

PACKAGE = Path(oasis_harness.__file__).parent


def graph(package: Path) -> dict[str, set[str]]:
    """Return which files of `package` each of its files imports, by dotted names from the package on.

    A name imported from a door counts as the module that holds it, where the door says which one does.
    """
    files = {_name(package, path): path for path in sorted(package.rglob("*.py"))}
    return {name: set(_imported(package, name, path, files)) - {name} for name, path in files.items()}


def circles(arrows: dict[str, set[str]]) -> list[str]:
    """Return the files that can be reached from themselves."""
    settled: set[str] = set()
    while ready := [name for name, below in arrows.items() if name not in settled and below <= settled]:
        settled.update(ready)
    left = {name: below - settled for name, below in arrows.items() if name not in settled}
    return sorted(name for name in left if name in _reached(left, name))


def _reached(arrows: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    pending = [*arrows[start]]
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += arrows.get(name, ())
    return seen


def _name(package: Path, path: Path) -> str:
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "oasis_harness"


def _imported(package: Path, name: str, path: Path, files: dict[str, Path]) -> Iterator[str]:
    room = name.split(".") if path.name == "__init__.py" and path.parent != package else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            base = room[: len(room) - node.level + 1]
        elif (node.module or "").split(".")[0] == "oasis_harness":
            base = []
        else:
            continue
        module = (node.module or "").removeprefix("oasis_harness").strip(".")
        target = ".".join([*base, *([module] if module else [])])
        for alias in node.names:
            yield from _home(target, alias.name, files)


def _home(target: str, name: str, files: dict[str, Path]) -> Iterator[str]:
    """Yield the module of `name`: a submodule, the module a door takes it from, or `target` itself."""
    inner = f"{target}.{name}".strip(".")
    if inner in files:
        yield inner
        return
    path = files.get(target)
    if path is None:
        return
    if path.name == "__init__.py":
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == 1 and any(one.name == name for one in node.names):
                yield from _home(f"{target}.{node.module}".strip("."), name, files)
                return
    yield target


def test_no_file_imports_itself_through_others() -> None:
    """The whole package, doors included."""
    assert circles(graph(PACKAGE)) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    """Two files through a function, one of them entered by its door, and what only leads into the circle is none."""
    for name, source in {
        "tokens/__init__.py": "from .loading import load\n",
        "tokens/loading.py": "from .tokenizer import Tokenizer\n",
        "tokens/tokenizer.py": "def f():\n    from oasis_harness.tokens import load\n",
        "engine/base.py": "from oasis_harness.tokens import load\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source, encoding="utf-8")
    assert circles(graph(tmp_path)) == ["tokens.loading", "tokens.tokenizer"]


def test_files_in_order_have_no_circle(tmp_path: Path) -> None:
    """A door over two files, and a file that uses the one that does not use it."""
    (tmp_path / "room").mkdir()
    for name, source in {
        "__init__.py": "from .b import y\nfrom .a import x\n",
        "a.py": "x = 1\n",
        "b.py": "from .a import x\n",
    }.items():
        (tmp_path / "room" / name).write_text(source, encoding="utf-8")
    assert circles(graph(tmp_path)) == []
    assert graph(tmp_path)["room.b"] == {"room.a"}
