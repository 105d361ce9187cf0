r"""Skills: instructions the model reads on demand, one line each in the prompt head.

A skill is a folder with a SKILL.md, in the form of the Agent Skills specification (agentskills.io):

    ---
    name: fix-failing-test
    description: Find out why a test fails and repair it.
    ---
    Instructions in Markdown.

A byte order mark is dropped and line ends become LF, so that two checkouts of one skill give the same bytes. Nothing
here watches the folders: what was loaded stays as it is.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from oasis_harness.errors import BadSkill, DuplicateTool

from .tools import Effect, Group, Tool, Tools

__all__ = ["Skill", "Skills", "frozen_tools"]

_FRONT_MATTER = re.compile(r"---[ \t]*\n(?P<fields>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Skill:
    """Instructions for one kind of task."""

    name: str
    description: str
    """One line: when to use it."""
    body: str
    """Markdown with LF line ends, no blank lines around it."""
    source: str
    """Path of its SKILL.md, for provenance; it differs by machine and never enters the prompt."""


class Skills:
    """An immutable collection of skills, sorted by name."""

    def __init__(self, skills: Iterable[Skill] = ()) -> None:
        by_name: dict[str, Skill] = {}
        for skill in skills:
            if (taken := by_name.get(skill.name)) is not None:
                message = f"Two skills are called {skill.name}: {taken.source} and {skill.source}."
                raise DuplicateTool(message, remedy="Rename or remove one.", name=skill.name)
            by_name[skill.name] = skill
        self._by_name = dict(sorted(by_name.items()))

    @classmethod
    def load(cls, *folders: str | Path) -> "Skills":
        """Read every `<folder>/<name>/SKILL.md`; hidden folders and loose files are passed over.

        Raises:
            BadSkill: A folder does not exist, or a skill in it lacks something.
            DuplicateTool: Two skills share one name.
        """
        return cls(_read(place) for folder in folders for place in _places(Path(folder)))

    @classmethod
    def shipped(cls) -> "Skills":
        """Load the skills that come with the package.

        Raises:
            BadSkill: The installation has lost them.
        """
        package = Path(__file__).resolve().parents[1]
        folder = package / "skills"
        if not folder.is_dir() and (package.parent / "pyproject.toml").is_file():
            folder = package.parent / "skills"  # a source checkout, where they stand beside the package
        return cls.load(folder)

    def get(self, name: str) -> Skill | None:
        return self._by_name.get(name)

    def lines(self) -> tuple[bytes, ...]:
        """Return the lines of the prompt head, `name: description`, without line ends."""
        return tuple(f"{skill.name}: {skill.description}".encode() for skill in self)

    def register(self, tools: Tools) -> None:
        """Add the tool `load_skill` to `tools`, last in the prompt; nothing where there are no skills."""
        if not self._by_name:
            return

        @tools.add(effect=Effect.READ, group=Group.OPTIONAL)
        def load_skill(name: str) -> str:
            """Read the instructions of a skill before doing the task it describes."""
            skill = self.get(name)
            return f"There is no skill {name!r}. Skills: {', '.join(self._by_name)}." if skill is None else skill.body

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Skill]:
        return iter(self._by_name.values())

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __repr__(self) -> str:
        return f"Skills({', '.join(self._by_name)})"


def frozen_tools(tools: Tools | None, skills: Skills | None) -> tuple[Tool, ...]:
    """Return what a head shows, in prompt order: the tools, and `load_skill` last where there are skills."""
    every = tools.copy() if tools is not None else Tools()
    if skills is not None:
        skills.register(every)
    return every.frozen()


def _places(folder: Path) -> list[Path]:
    """List the skill folders of `folder`; sorted, since the order of a directory differs by machine."""
    if not folder.is_dir():
        raise BadSkill(f"The skills folder {folder} does not exist.", remedy="Create it or name another.", path=folder)
    return sorted(
        place for place in folder.iterdir() if place.is_dir() and place.name[0] != "." and place.name != "__pycache__"
    )


def _read(place: Path) -> Skill:
    path = place / "SKILL.md"
    match = _FRONT_MATTER.match(text := _text(path))
    if match is None:
        raise _fault(path, "has no front matter.", "Begin it with ---, name:, description:, --- on lines of their own.")
    try:
        fields = yaml.safe_load(match["fields"])
    except (yaml.YAMLError, ValueError) as error:  # a date that does not exist is a ValueError
        reason = " ".join(str(error).split())
        raise _fault(
            path, f"has front matter that is not YAML: {reason}.", "Put values with a colon in quotes."
        ) from error
    name, description = (_field(path, fields, key) for key in ("name", "description"))
    if not _NAME.fullmatch(name) or name != place.name:
        remedy = "Give both the same name, of ASCII letters, digits and hyphens."
        raise _fault(path, f"says name: {name!r} in a folder called {place.name!r}.", remedy)
    body = text[match.end() :].strip("\n")
    if not body.strip():
        raise _fault(path, "has no instructions.", "Write them below the front matter.")
    return Skill(name, description, body, str(path))


def _text(path: Path) -> str:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise _fault(path, f"cannot be read: {error.strerror}.", "A skill is a folder with a SKILL.md.") from error
    except UnicodeDecodeError as error:
        raise _fault(path, f"is not UTF-8 at byte {error.start}.", "Save it as UTF-8.") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _field(path: Path, fields: object, key: str) -> str:
    value = fields.get(key) if isinstance(fields, dict) else None
    if not isinstance(value, str) or not value.strip():
        found = "lacks" if value is None else f"has {value!r} for"
        raise _fault(path, f"{found} the field {key}.", f"Write {key}: and one line of text into the front matter.")
    if len(value.strip().splitlines()) > 1:
        raise _fault(path, f"has a {key} of several lines.", "Write it as one line: it is one line of the prompt.")
    return value.strip()


def _fault(path: Path, fault: str, remedy: str) -> BadSkill:
    return BadSkill(f"The skill file {path} {fault}", remedy=remedy, path=path)
