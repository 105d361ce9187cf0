"""A head that varies by machine or moment is caught, the variation and the field named; a steady one stays silent."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from oasis_harness.conversation import Epoch, Head
from oasis_harness.guard import Relation, Variation, perturb_head
from oasis_harness.guard.perturb import ALL, PerturbReport
from oasis_harness.guard.perturb.child import fields_of
from oasis_harness.guard.perturb.variations import VariationKind
from oasis_harness.registry import Group, Skills, Tool, Tools

_LEAKY = """
import contextlib, datetime, getpass, locale, os, platform, shutil, socket, tempfile, time, uuid
from pathlib import Path

HERE = Path(__file__).parent

def german(form):
    before = locale.setlocale(locale.LC_ALL)
    with contextlib.suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, "")
    try:
        return form()
    finally:
        locale.setlocale(locale.LC_ALL, before)

def mode():
    path = os.path.join(tempfile.mkdtemp(), "file")
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o666))
    return oct(os.stat(path).st_mode)

def names():
    folder = tempfile.mkdtemp()
    for name in ("a.md", "A.md", "b.md", "C.md", "zeta.md"):
        Path(folder, name).touch()
    return folder

def head(order=list):
    folder = names()
    return {
        "steady": "You are careful.",
        "nonce": str(uuid.uuid4()),
        "pid": str(os.getpid()),
        "set": " ".join({f"word{number}" for number in range(30)}),
        "listdir": " ".join(os.listdir(folder)),
        "scandir": " ".join(entry.name for entry in os.scandir(folder)),
        "iterdir": " ".join(path.name for path in Path(folder).iterdir()),
        "glob": " ".join(path.name for path in Path(folder).glob("*.md")),
        "walk": " ".join(next(os.walk(folder))[2]),
        "ties": " ".join(sorted(os.listdir(folder), key=str.lower)),
        "sorted": " ".join(sorted(os.listdir(folder))),
        "servers": " ".join(order(["git", "web", "sql"])),
        "tens of seconds": str(int(time.time()) // 10),
        "minute": datetime.datetime.now(datetime.UTC).strftime("%H:%M"),
        "day": datetime.date.today().isoformat(),
        "year": time.strftime("%Y"),
        "clock time": datetime.datetime.now().strftime("%H h"),
        "zone": str(time.localtime().tm_gmtoff),
        "number": german(lambda: locale.format_string("%d", 1234567, grouping=True)),
        "weekday": german(lambda: datetime.date(2025, 3, 4).strftime("%A")),
        "collation": german(lambda: " ".join(sorted(["b", "A", "a", "B"], key=locale.strxfrm))),
        "encoding": locale.getpreferredencoding(False).lower(),
        "cwd": os.getcwd(),
        "home": str(Path.home()),
        "temp": tempfile.gettempdir(),
        "user": getpass.getuser(),
        "host": platform.node(),
        "socket": socket.gethostname(),
        "width": str(shutil.get_terminal_size().columns),
        "mode": mode(),
        "bytes": (HERE / "prompt.md").read_bytes(),
        "text": open(HERE / "prompt.md", newline="").read(),
        "folded text": (HERE / "prompt.md").read_text(),
        "binary": (HERE / "picture.bin").read_bytes(),
    }
"""
_SEEDS = {"hash seed 1", "hash seed 2", "hash seed 3", "hash seed 4"}
_FOLDERS = {"folders reversed", "folders shuffled", "folders without case"}
_MOVES = {
    "steady": set(),
    "sorted": set(),
    "folded text": set(),
    "binary": set(),
    "nonce": {"again"},
    "pid": {"again"},
    "set": _SEEDS,
    "listdir": _FOLDERS,
    "scandir": _FOLDERS,
    "iterdir": _FOLDERS,
    "glob": _FOLDERS,
    "walk": _FOLDERS,
    "ties": {"folders reversed", "folders shuffled"},
    "servers": {"reconnect order"},
    "tens of seconds": {"17 seconds later", "across midnight", "another day"},
    "minute": {"across midnight"},
    "day": {"across midnight", "another day", "time zone"},
    "year": {"another day"},
    "clock time": {"across midnight", "time zone"},
    "zone": {"time zone"},
    "number": {"locale"},
    "weekday": {"locale"},
    "collation": {"locale"},
    "encoding": {"ASCII locale"},
    "cwd": {"working directory"},
    "home": {"home"},
    "temp": {"home"},
    "user": {"user"},
    "host": {"host"},
    "socket": {"host"},
    "width": {"terminal"},
    "mode": {"umask"},
    "bytes": {"CRLF checkout"},
    "text": {"CRLF checkout"},
}
"""For every field of the leaky head the variations that move it, and no others do."""

_CLEAN = '''
import datetime, logging, os
from pathlib import Path

def head(date=datetime.date(2025, 3, 4)):
    text = (Path(__file__).parent / "prompt.md").read_text(encoding="utf-8")
    logging.Formatter("%(asctime)s").format(logging.makeLogRecord({}))
    assert isinstance(datetime.datetime.now(), datetime.date) and datetime.datetime.now() > datetime.datetime.min
    return {"system": text + f"Date: {date}", "files": " ".join(sorted(os.listdir(Path(__file__).parent)))}

def plain_text():
    return "You are careful."

def what_we_ship():
    from oasis_harness.registry import Skills, Tools
    from oasis_harness.toolbox import workspace_tools
    tools = workspace_tools(Path(__file__).parent)

    @tools.add
    def remind(when: datetime.date, at: datetime.datetime | None = None) -> str:
        """Remind of something."""
        return ""

    return ["You are careful.", tools, Skills.shipped()]
'''
AGAIN = [one for one in ALL if one.name == "again"]
CWD = [one for one in ALL if one.name == "working directory"]


def place(folder: Path, source: str) -> str:
    """Write a sample of a project, with a prompt and a picture, and return its path."""
    (folder / "prompt.md").write_bytes(b"Read first.\nThen write.\n")
    (folder / "picture.bin").write_bytes(b"\0\n\n")
    (folder / "sample.py").write_text(source, encoding="utf-8")
    return str(folder / "sample.py")


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> PerturbReport:
    return perturb_head(place(tmp_path_factory.mktemp("leaky"), _LEAKY) + ":head")


@pytest.mark.slow
def test_the_leaky_head_renders_everywhere(leaky: PerturbReport) -> None:
    """No child failed, so what follows compares bytes."""
    assert [str(one) for one in leaky.outcomes if one.relation is Relation.FAILED] == []
    assert [one.variation for one in leaky.outcomes] == list(ALL)


@pytest.mark.slow
@pytest.mark.parametrize("field", _MOVES)
def test_a_leak_is_caught_and_its_field_named(leaky: PerturbReport, field: str) -> None:
    """By the variations it depends on, and by no other."""
    moved = {one.variation.name for one in leaky.outcomes if field in [moved.field for moved in one.moved]}
    assert moved == _MOVES[field]


@pytest.mark.slow
def test_every_variation_catches_something(leaky: PerturbReport) -> None:
    """Test of the test: none is there for show."""
    assert {one.variation.name for one in leaky.told()} == {one.name for one in ALL} == set().union(*_MOVES.values())


@pytest.mark.slow
def test_a_moved_field_shows_where_and_what(leaky: PerturbReport) -> None:
    """The first byte that differs, with the text around it on both sides, escaped."""
    (outcome,) = (one for one in leaky.outcomes if one.variation.name == "CRLF checkout")
    moved = outcome.moved[0]
    assert (moved.field, moved.at) == ("bytes", 11)
    assert (moved.before, moved.after) == (r"'Read first.\nThen write.\n'", r"'Read first.\r\nThen write.\r\n'")
    assert f"CRLF checkout (line ends): moved, {moved}" in str(leaky)


@pytest.mark.slow
@pytest.mark.parametrize("function", ["head", "plain_text", "what_we_ship"])
def test_a_steady_head_stays_silent(tmp_path: Path, function: str) -> None:
    """Under every variation; the last is what we ship, with a tool whose arguments are dates."""
    report = perturb_head(place(tmp_path, _CLEAN) + f":{function}")
    assert report.is_same, report
    assert len(report.outcomes) == len(ALL)


def test_an_imported_module_is_found_as_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The children search where the caller searches, wherever they run."""
    place(tmp_path, _CLEAN)
    monkeypatch.syspath_prepend(tmp_path)
    report = perturb_head("sample:plain_text", variations=CWD)
    assert report.is_same, report


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("def head(): raise RuntimeError('no prompt')", "RuntimeError: no prompt"),
        ("import sys\ndef head(): sys.exit(0)", "without an answer"),
        ("import os\ndef head(): os._exit(0)", "without an answer"),
        ("import os\ndef head(): os.abort()", "status -6"),
        ("def head(): return {}", "at least one"),
        ("def head(): return ['a', 'b']", "a name of its own"),
        ("def head(): return None", "NoneType"),
        ("def head(): return {'system': 3}", "A field is 3"),
        ("def head(needed): return ''", "needed"),
        ("head = 'text'", "function without arguments"),
        ("def body(): return ''", "no attribute 'head'"),
        ("def head(:", "SyntaxError"),
    ],
)
def test_a_child_without_an_answer_is_a_failure(tmp_path: Path, source: str, error: str) -> None:
    """Never a pass, whatever went wrong; the report says what."""
    report = perturb_head(place(tmp_path, source) + ":head", variations=AGAIN)
    assert [one.relation for one in report.outcomes] == [Relation.FAILED]
    assert error in report.outcomes[0].error
    assert not report.is_same


def test_a_child_that_fails_elsewhere_only_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt that is read relative to the working directory."""
    target = place(tmp_path, "def head(): return open('prompt.md').read()") + ":head"
    monkeypatch.chdir(tmp_path)
    again, elsewhere = perturb_head(target, variations=[*AGAIN, *CWD]).outcomes
    assert (again.relation, elsewhere.relation) == (Relation.SAME, Relation.FAILED)
    assert "FileNotFoundError" in str(elsewhere)


@pytest.mark.slow
def test_a_child_that_hangs_is_a_failure(tmp_path: Path) -> None:
    """It is ended, with what it started."""
    source = "import subprocess\ndef head(): subprocess.run(['sleep', '600'])"
    report = perturb_head(place(tmp_path, source) + ":head", variations=AGAIN, timeout_s=0.5)
    assert report.outcomes[0].error == "it took longer than 0.5 s"


def test_what_a_target_prints_is_no_part_of_it(tmp_path: Path) -> None:
    """Chatter on both streams does no harm."""
    source = "import sys\ndef head():\n    print(id(sys))\n    sys.stderr.write('x' * 100000)\n    return 'a'"
    assert perturb_head(place(tmp_path, source) + ":head", variations=AGAIN).is_same


@pytest.mark.parametrize(
    ("fields", "moved"),
    [
        ("{'a': '', 'b': ''}", ["order of fields"]),
        ("{'a': ''}", ["b"]),
        ("{'b': '', 'a': '', 'c': ''}", ["c"]),
        ("{'b': 'x', 'a': ''}", ["b"]),
    ],
)
def test_fields_that_come_go_or_change_places_are_named(tmp_path: Path, fields: str, moved: list[str]) -> None:
    """Order and presence are bytes of the prompt too."""
    source = f"import os\ndef head(): return {fields} if os.getenv('SWITCH') else {{'b': '', 'a': ''}}"
    variation = Variation("switched", VariationKind.ENVIRONMENT, (("SWITCH", "1"),))
    (outcome,) = perturb_head(place(tmp_path, source) + ":head", variations=[variation]).outcomes
    assert [one.field for one in outcome.moved] == moved


def test_a_field_that_never_stands_still_is_told_once(tmp_path: Path) -> None:
    """Under `again`; the other variations tell what they move besides."""
    source = "import os\ndef head(): return {'pid': str(os.getpid()), 'cwd': os.getcwd()}"
    again, elsewhere = perturb_head(place(tmp_path, source) + ":head", variations=[*AGAIN, *CWD]).outcomes
    assert [one.field for one in again.moved] == ["pid"]
    assert [one.field for one in elsewhere.moved] == ["cwd"]


@pytest.mark.parametrize("target", ["module", "module:", ":function", ""])
def test_a_target_without_a_function_is_refused(target: str) -> None:
    """The message shows the form."""
    with pytest.raises(ValueError, match="module:function"):
        perturb_head(target)


def test_no_variations_are_refused() -> None:
    """Comparing nothing must not look like a pass."""
    with pytest.raises(ValueError, match="nothing would be compared"):
        perturb_head("module:function", variations=[])


class _Unsorted(Tools):
    """A registry that shows its tools as they came."""

    def frozen(self) -> tuple[Tool, ...]:
        return tuple(self._tools.values())


def _filled(tools: Tools) -> Tools:
    for name in ("zulu", "alpha"):

        def act() -> str:
            """Act."""
            return ""

        tools.add(act, group=Group.OPTIONAL, name=name)
    return tools


def test_tools_come_in_the_order_of_their_registry() -> None:
    """Ours sorts, so connecting in another order moves nothing; one that does not is caught."""
    orders = [[name for name, _ in fields_of(_filled(Tools()), is_reversed=way)] for way in (False, True)]
    assert orders == [["tool[alpha]", "tool[zulu]"]] * 2
    orders = [[name for name, _ in fields_of(_filled(_Unsorted()), is_reversed=way)] for way in (False, True)]
    assert orders == [["tool[zulu]", "tool[alpha]"], ["tool[alpha]", "tool[zulu]"]]


def test_a_head_is_taken_apart_into_its_fields() -> None:
    """System text, tools and skills by name."""
    schema = json.dumps({"type": "function", "function": {"name": "act"}}).encode()
    head = Head(Epoch("t", "{}", "k"), b"Be careful.", (schema,), (b"fix: Repair.",))
    assert fields_of(head) == [("system", b"Be careful."), ("tool[act]", schema), ("skill[fix]", b"fix: Repair.")]


def test_skills_are_their_lines_and_their_bodies() -> None:
    """The body is read on demand, and has to be the same everywhere as well."""
    names = [name for name, _ in fields_of(Skills.shipped())]
    assert [name for name in names if "fix-failing-test" in name] == [
        "skill[fix-failing-test]",
        "skill[fix-failing-test].body",
    ]


def test_the_door_loads_the_standard_library_only() -> None:
    """A test run that guards another program's head pays for nothing of ours."""
    source = "import sys; from oasis_harness.guard import find_volatile, perturb_head; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert {"pydantic", "yaml", "jinja2", "numpy"}.isdisjoint(done.stdout.split())
    assert "oasis_harness.guard.volatile.patterns" in done.stdout.split()  # what this test can see at all


def test_a_body_and_tools_as_json_have_fields_of_their_own() -> None:
    """A message's words apart from the rest of it, a tool by its name, a setting by its own."""
    tool = {"type": "function", "function": {"name": "now"}}
    body = {"model": "m", "tools": [tool], "messages": [{"role": "user", "content": "hi"}, {"role": "tool"}]}
    assert fields_of(body) == [
        ("model", b"m"),
        ("tool[now]", b'{"type":"function","function":{"name":"now"}}'),
        ("messages[0]", b'{"role":"user"}'),
        ("messages[0].content", b"hi"),
        ("messages[1]", b'{"role":"tool"}'),
    ]
    assert fields_of(("S", [tool, {"name": "then", "input_schema": {}}]))[1:] == [
        ("tool[now]", b'{"type":"function","function":{"name":"now"}}'),
        ("tool[then]", b'{"name":"then","input_schema":{}}'),
    ]
