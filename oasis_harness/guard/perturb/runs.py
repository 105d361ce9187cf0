"""Renders a prompt head again in other surroundings, each in a fresh process, and names the field that moved.

A head is whatever a function without arguments returns, so any program can be put to the test, not only ours. What
cannot be reached from Python alone is not varied: what child processes and C code ask the system, the state of git
and of the network, the processor. A process that fails, hangs or says nothing is a failure, never a pass.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from oasis_harness.children import python_child
from oasis_harness.sequences import first_difference

from ..relation import Relation
from .variations import ALL, PLAIN, Variation

__all__ = ["Moved", "PerturbReport", "VariedHead", "perturb_head"]

_N_AT_ONCE = 2
_AROUND = 24
"""Bytes shown on each side of the first that differs."""
_TOLD_LINES = 12
"""Lines of a traceback that are kept, the last ones."""
_ORDER = "order of fields"


@dataclass(frozen=True, slots=True)
class Moved:
    """A field whose bytes are others."""

    field: str
    """Its name; `order of fields` where only their order differs."""
    at: int
    """Offset in bytes of the first that differs."""
    before: str
    """The text around it in the plain rendering, escaped; "(absent)" without the field."""
    after: str

    def __str__(self) -> str:
        return f"{self.field} at byte {self.at}: {self.before} became {self.after}"


@dataclass(frozen=True, slots=True)
class VariedHead:
    """What one variation did."""

    variation: Variation
    relation: Relation
    moved: tuple[Moved, ...] = ()
    """In prompt order, without the fields that already move when nothing is changed; these stand under `again`."""
    error: str = ""
    """How the process ended that failed: the end of its traceback."""

    def __str__(self) -> str:
        told = self.error.rpartition("\n")[2] or "; ".join(map(str, self.moved))
        return f"{self.variation.name} ({self.variation.kind}): {self.relation}{told and ', '}{told}"


@dataclass(frozen=True, slots=True)
class PerturbReport:
    """What all variations did to one target; only the plain rendering where already that failed."""

    target: str
    outcomes: tuple[VariedHead, ...]

    @property
    def is_same(self) -> bool:
        return all(outcome.relation is Relation.SAME for outcome in self.outcomes)

    def told(self) -> tuple[VariedHead, ...]:
        """Return the outcomes that are not `same`."""
        return tuple(outcome for outcome in self.outcomes if outcome.relation is not Relation.SAME)

    def __str__(self) -> str:
        lines = [f"{self.target}: {len(self.told())} of {len(self.outcomes)} variations do not give the same bytes"]
        return "\n".join([*lines, *(f"  {outcome}" for outcome in self.told())])


def perturb_head(target: str, *, variations: Sequence[Variation] = ALL, timeout_s: float = 60) -> PerturbReport:
    """Render `target` plainly and under each variation, and compare.

    `target` is `module:function` or `path/to/file.py:function`. The function returns bytes or text, a mapping of field
    name to bytes or text, a `Head`, `Tools` or `Skills`, or a list of such. It is called without arguments, but for
    `order` if it takes that: a function that gives the items of a list in the order in which they connect, `list` when
    nothing is varied, so `def head(order=list)` and `for server in order(servers)`. `timeout_s` is for one process.

    Raises:
        ValueError: `target` has no colon, or there is nothing to vary.
    """
    place, colon, name = target.rpartition(":")
    if not (place and colon and name):
        raise ValueError(f"The target is {target!r}. Write module:function or path/to/file.py:function.")
    if not variations:
        raise ValueError("There are no variations, so nothing would be compared. Leave them out for all.")
    with tempfile.TemporaryDirectory(prefix="oasis-perturb-") as folder:
        stage = _Stage(_absolute(place) + colon + name, _project(place), Path(folder), timeout_s)
        plain = stage.render(PLAIN)
        if plain.error:
            return PerturbReport(target, (VariedHead(PLAIN, Relation.FAILED, error=plain.error),))
        with ThreadPoolExecutor(_N_AT_ONCE) as pool:
            answers = list(pool.map(stage.render, variations))
    outcomes = [_outcome(one, plain, answer) for one, answer in zip(variations, answers, strict=True)]
    return PerturbReport(target, tuple(_told_once(outcomes)))


def _absolute(place: str) -> str:
    return str(Path(place).resolve()) if place.endswith(".py") else place


def _project(place: str) -> Path:
    """Return the folder whose text files a checkout would rewrite: the nearest with .git or pyproject.toml."""
    start = Path(place).resolve().parent if place.endswith(".py") else Path.cwd()
    marked = (
        folder for folder in (start, *start.parents) if any((folder / n).exists() for n in (".git", "pyproject.toml"))
    )
    return next(marked, start)


@dataclass(frozen=True, slots=True)
class _Answer:
    """The fields a process gave, in order, or why it gave none."""

    fields: Mapping[str, bytes]
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Stage:
    """Where the processes of one target run."""

    target: str
    project: Path
    folder: Path
    timeout_s: float

    def render(self, variation: Variation) -> _Answer:
        """Run one process and read its answer."""
        own = Path(tempfile.mkdtemp(dir=self.folder))
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        place = elsewhere if variation.is_elsewhere else Path.cwd()
        child = python_child(
            *self._words(own / "answer", variation),
            folder=place,
            search=sys.path,  # so that the target, which is the user's code, is found as here: by name, not by place
            environment=_environment(variation, place, elsewhere),
        )
        with (own / "errors").open("wb") as errors:
            process = subprocess.Popen(
                child.words,
                cwd=child.folder,
                env=child.environment,
                umask=variation.umask,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
            ending = _wait(process, self.timeout_s)
        told = (own / "errors").read_bytes().decode("utf-8", "replace").strip().splitlines()[-_TOLD_LINES:]
        if not ending and (own / "answer").exists():
            return _Answer(_read(own / "answer"))
        return _Answer({}, "\n".join([*told, ending] if ending and not told else told) or "it ended without an answer")

    def _words(self, answer: Path, variation: Variation) -> list[str]:
        changes = {
            "clock_s": variation.clock_s,
            "listing": variation.listing,
            "is_foreign": variation.is_foreign,
            "host": variation.host,
            "has_crlf": variation.has_crlf,
            "is_reversed": variation.is_reversed,
        }
        module = "oasis_harness.guard.perturb.child"
        return ["-m", module, self.target, str(answer), str(self.project), json.dumps(changes)]


def _environment(variation: Variation, place: Path, elsewhere: Path) -> dict[str, str]:
    """Return the plain surroundings, and those of `variation` over them."""
    own = {"PYTHONDONTWRITEBYTECODE": "1", "PWD": str(place)}
    varied = {name: value.format(elsewhere=elsewhere) for name, value in variation.environment}
    return {**own, **dict(PLAIN.environment), **varied}


def _wait(process: "subprocess.Popen[bytes]", timeout_s: float) -> str:
    """Wait for the end of `process` and say what was wrong with it; all that it started ends with it when it hangs."""
    try:
        status = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return f"it took longer than {timeout_s:g} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return f"it ended with status {status}" if status else ""


def _read(path: Path) -> dict[str, bytes]:
    return {
        bytes.fromhex(name).decode("utf-8", "surrogateescape"): bytes.fromhex(data)
        for name, data in json.loads(path.read_text("ascii"))
    }


def _outcome(variation: Variation, plain: _Answer, answer: _Answer) -> VariedHead:
    if answer.error:
        return VariedHead(variation, Relation.FAILED, error=answer.error)
    moved = tuple(_compare(plain.fields, answer.fields))
    return VariedHead(variation, Relation.MOVED if moved else Relation.SAME, moved)


def _compare(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterable[Moved]:
    for name in [*before, *(name for name in after if name not in before)]:
        if before.get(name) != after.get(name):
            yield _moved(name, before.get(name), after.get(name))
    orders = [[name for name in one if name in other] for one, other in ((before, after), (after, before))]
    if orders[0] != orders[1]:
        yield _moved(_ORDER, *("\n".join(order).encode("utf-8", "surrogateescape") for order in orders))


def _moved(name: str, before: bytes | None, after: bytes | None) -> Moved:
    at = first_difference(before or b"", after or b"")
    return Moved(name, at, _shown(before, at), _shown(after, at))


def _shown(data: bytes | None, at: int) -> str:
    if data is None:
        return "(absent)"
    return repr(data[max(0, at - _AROUND) : at + _AROUND].decode("utf-8", "backslashreplace"))


def _told_once(outcomes: Iterable[VariedHead]) -> list[VariedHead]:
    """Leave out of every outcome the fields that move when nothing is changed, but for the one that says so."""
    outcomes = list(outcomes)
    unsteady = {moved.field for one in outcomes if _is_again(one.variation) for moved in one.moved}
    return [one if _is_again(one.variation) else _without(one, unsteady) for one in outcomes]


def _is_again(variation: Variation) -> bool:
    return replace(variation, name=PLAIN.name, environment=PLAIN.environment) == PLAIN and not variation.environment


def _without(outcome: VariedHead, fields: set[str]) -> VariedHead:
    moved = tuple(one for one in outcome.moved if one.field not in fields)
    relation = Relation.SAME if outcome.relation is Relation.MOVED and not moved else outcome.relation
    return replace(outcome, moved=moved, relation=relation)
