"""The wheel holds what is listed, and nothing that happens to lie beside it."""

import importlib.util
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILD = "import sys, hatchling.build; print(hatchling.build.build_{kind}(sys.argv[1]))"
JUNK = (
    *(
        "oasis_harness/.env",
        "oasis_harness/notes.txt",
        "oasis_harness/agent/key.pem",
        "oasis_harness/model.safetensors",
    ),
    *("oasis_harness/agent/__pycache__/x.cpython-311.pyc", "oasis_harness/agent/loop.py.orig", "oasis_harness/x.so"),
    *("oasis_harness/skills/evil/SKILL.md", "skills/.git/config", "skills/notes.txt", "skills/review/key.pem"),
    *("scratch.py", "secrets.json", "tests/data.bin"),
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("hatchling") is None, reason="hatchling, which builds it, is missing"),
]


def shipped() -> set[Path]:
    """The files of the package and its skills, relative to the project: what version control knows of."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--", "oasis_harness", "skills"], cwd=ROOT, capture_output=True, check=False
    )
    listed = {Path(name) for name in done.stdout.decode().split("\0") if name}
    found = {path.relative_to(ROOT) for path in ROOT.glob("oasis_harness/**/*.py")}
    found |= {path.relative_to(ROOT) for path in ROOT.glob("skills/*/SKILL.md")} | {Path("oasis_harness/py.typed")}
    return {path for path in listed or found if (ROOT / path).is_file()}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what is built from, with other things lying about."""
    folder = tmp_path / "project"
    for path in shipped() | {Path(name) for name in ("pyproject.toml", "README.md", "LICENSE")}:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    for name in JUNK:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("junk")
    return folder


def built(project: Path, kind: str) -> Path:
    place = project.parent / kind
    place.mkdir()
    command = [sys.executable, "-c", BUILD.format(kind=kind), str(place)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return place / done.stdout.split()[-1]


def test_a_wheel_holds_the_package_and_its_skills_only(project: Path) -> None:
    """By name, against what version control lists."""
    with zipfile.ZipFile(built(project, "wheel")) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    at_home = {"oasis_harness" / path if path.parts[0] == "skills" else path for path in shipped()}
    assert names == {path.as_posix() for path in at_home}


def test_a_wheel_says_what_it_is(project: Path) -> None:
    """Metadata, the commands, the plugin, and the licence."""
    with zipfile.ZipFile(built(project, "wheel")) as wheel:
        about = {name.partition("/")[2] for name in wheel.namelist() if ".dist-info/" in name}
    assert about == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}


def test_a_source_archive_holds_no_more_than_is_built_from(project: Path) -> None:
    """It is what a wheel is built of elsewhere."""
    with tarfile.open(built(project, "sdist")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    beside = {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO"}
    assert names == {path.as_posix() for path in shipped()} | beside
