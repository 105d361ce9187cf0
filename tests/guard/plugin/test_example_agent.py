"""The acceptance of the guard: an edit of the example agent that moves one byte of its prompt cannot land unnoticed.

Each edit is made in a copy of examples/ci, whose own tests run as their author would run them: in a process each where
they are recorded, unedited and on the real model, and in this one for each edit.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from oasis_harness.guard import Ledger, SnapshotFolder
from tests.guard.desk import desk_environment, leave_ci
from tests.tokens.training import gpt2

if TYPE_CHECKING:
    from _pytest.pytester import Pytester

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[3] / "examples" / "ci"
TALK = """
from agent import SYSTEM, tools
from oasis_harness import ScriptedEngine, Session

CALL = '<tool_call>{"name": "read_file", "arguments": {"path": "calc.py"}}</tool_call>'


def test_talk(oasis_snapshot):
    session = Session(ScriptedEngine([CALL, "It subtracts."]), system=SYSTEM, tools=tools)
    turn = session.send("What does calc.py do?")
    session.results({turn.calls[0].id: session.tools["read_file"].call(turn.calls[0].arguments)})
    oasis_snapshot(session, name="talk")
"""
INI = "[pytest]\noasis_engine = none\noasis_dialects = thinking\n"
THINKING = """\
{% if tools %}
<|im_start|>system
{% if messages[0].role == 'system' %}
{{ messages[0].content + '\\n' }}
{% endif %}
{% for tool in tools %}
{{ tool | tojson }}
{% endfor %}
To call: <tool_call>{"name": …, "arguments": …}</tool_call><|im_end|>
{% endif %}
{% for message in messages %}
{% if message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- elif message.role != 'system' or not (tools and loop.first) %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.reasoning_content %}{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}{% endif %}
{{- message.content }}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) }}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endif %}
{% endfor %}
{% if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
"""Prints what was thought, of every turn, and arguments as they were given."""
NOT_MEASURED = "not measured: oasis_engine is none"


@dataclass(frozen=True)
class Edit:
    """One change of agent.py, and what has to be said of it."""

    name: str
    old: str
    new: str
    told: Sequence[str]

    def __repr__(self) -> str:
        return self.name


TOOL = '@tools.add\ndef find_file(name: str) -> str:\n    """Find a file."""\n    return name\n\n\n'
HEAD_EDITS = [
    Edit("one word of a description", "Read a text file", "Read one text file", ("head/tool[read_file].description",)),
    Edit(
        "order of schema keys",
        "path: str, limit: int = 200",
        "limit: int = 200, path: str = ''",
        ("head/tool[read_file].parameters",),
    ),
    Edit("timestamp", 'engineer."', 'engineer. It is 2025-03-09 14:02:11."', ("head/system", "14:02:11")),
    Edit("tool before another", "@tools.add\ndef read_file", f"{TOOL}@tools.add\ndef read_file", ("tool[find_file]",)),
    Edit("trailing space", 'engineer."', 'engineer. "', ("trailing space", "[[␠]]")),
]
ASK = "        reply = ask("
OLD = f"        for old in messages[2:-2]:\n            {{}}\n{ASK}"
REQUEST_EDITS = [
    Edit(
        "reasoning dropped",
        ASK,
        OLD.format('old.pop("reasoning_content", None)'),
        ("retroactive: reasoning removed, at messages[2].reasoning_content, byte 34",),
    ),
    Edit(
        "arguments re-serialised",
        ASK,
        OLD.format(
            'for call in old.get("tool_calls", []):\n'
            '                given = json.loads(call["function"]["arguments"])\n'
            '                call["function"]["arguments"] = json.dumps(given, separators=(",", ":"))'
        ),
        ("serialisation: ", "at messages[2].tool_calls[0].function.arguments, byte "),
    ),
    Edit(
        "old result cleared",
        ASK,
        OLD.format('old.update({"content": "[cleared]"} if old["role"] == "tool" else {})'),
        ("retroactive: content cut or replaced, at messages[3].content, byte "),
    ),
]


AUTHOR = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org"}
PLAIN = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")


class Run(Protocol):
    """Runs the tests in a folder; returns the exit code and all that was said."""

    def __call__(self, folder: Path, *words: str, **environment: str) -> tuple[int, str]: ...


def run_process(folder: Path, *words: str, **environment: str) -> tuple[int, str]:
    """Run them in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", *PLAIN, *words],
        cwd=folder,
        env=desk_environment() | AUTHOR | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@dataclass(frozen=True)
class Project:
    """A copy of the example."""

    folder: Path
    start: Run = run_process

    def run(self, *words: str, **environment: str) -> tuple[int, str]:
        """Run its tests; return the exit code and all that was said."""
        return self.start(self.folder, *words, **environment)

    def edit(self, edit: Edit) -> None:
        path = self.folder / "agent.py"
        source = path.read_text(encoding="utf-8")
        assert source.count(edit.old) == 1
        path.write_text(source.replace(edit.old, edit.new), encoding="utf-8")

    def verify(self) -> None:
        """Raise unless the ledger is whole and signs what is recorded."""
        fixtures = self.folder / "fixtures"
        Ledger(fixtures / "ledger.jsonl").verify(SnapshotFolder(fixtures / "prompts").signed())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with its head and a conversation recorded, in a dialect that prints thoughts and counts tokens."""
    folder = tmp_path_factory.mktemp("recorded") / "ci"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "fixtures"))
    (folder / "pytest.ini").write_text(INI, encoding="utf-8")
    (folder / "test_talk.py").write_text(TALK, encoding="utf-8")
    dialects = folder / "fixtures" / "dialects"
    dialects.mkdir(parents=True)
    dialects.joinpath("thinking.jinja").write_text(THINKING, "utf-8")
    dialects.joinpath("thinking.tokenizer.json").write_bytes(gpt2().to_str().encode())
    code, text = Project(folder).run("--oasis-record")
    assert code == 0 and "2 recorded" in text, text
    return folder


@pytest.fixture
def project(recorded: Path, tmp_path: Path) -> Project:
    """A copy whose tests run in a process of their own."""
    return Project(shutil.copytree(recorded, tmp_path / "ci"))


@pytest.fixture
def edited(project: Project, everything_loaded: None, pytester: "Pytester", monkeypatch: pytest.MonkeyPatch) -> Project:
    """A copy whose tests run in this process."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a file of the same second and size would pass for the old
    monkeypatch.delitem(sys.modules, "agent", raising=False)  # another test's, in a process that ran one
    leave_ci(monkeypatch)
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        monkeypatch.delenv(name)

    def run(folder: Path, *words: str, **environment: str) -> tuple[int, str]:
        with monkeypatch.context() as patch:
            patch.chdir(folder)
            for name, value in (AUTHOR | environment).items():
                patch.setenv(name, value)
            result = pytester.runpytest_inprocess(*PLAIN, *words)
        return int(result.ret), "\n".join([*result.outlines, *result.errlines])

    return Project(project.folder, run)


def test_unedited_it_passes(project: Project) -> None:
    """Also in CI, where nothing may be written, and where there is no mlx."""
    project.folder.joinpath("conftest.py").write_text(
        "import sys\nsys.modules.update(mlx=None, mlx_lm=None)\n", "utf-8"
    )
    code, text = project.run(CI="true")
    assert code == 0 and "oasis: 2 same" in text, text


@pytest.mark.parametrize("edit", HEAD_EDITS, ids=repr)
def test_an_edit_of_the_head_is_named_priced_and_signed(edit: Edit, edited: Project) -> None:
    """The field, the byte, the token, how many are read again; a signature lets it pass, and the ledger holds."""
    edited.edit(edit)
    code, text = edited.run(CI="true")
    assert code == 1 and "oasis: 2 moved" in text, text
    assert [told for told in edit.told if told not in text] == [], text
    for name in ("test_head", "talk"):
        assert re.search(
            rf"{name}\.thinking: byte [\d,]+ moved, token [\d,]+ of [\d,]+: [1-9][\d,]* are read again", text
        )
    assert f"cost    {NOT_MEASURED}" in text

    code, text = edited.run("--oasis-sign", edit.name)
    assert code == 0 and "oasis: 2 signed" in text, text
    edited.verify()
    entries = Ledger(edited.folder / "fixtures" / "ledger.jsonl").entries()[2:]  # behind those of what was recorded
    assert [(entry.reason, entry.cost_reason) for entry in entries] == [(edit.name, "oasis_engine is none")] * 2
    assert all(entry.n_tokens_lost for entry in entries)
    code, text = edited.run(CI="true")
    assert code == 0 and "oasis: 2 same" in text, text


@pytest.mark.parametrize("edit", REQUEST_EDITS, ids=repr)
def test_an_edit_of_the_past_is_named_priced_and_declared(edit: Edit, edited: Project) -> None:
    """The kind, the field, the byte, the tokens lost. No signature stands for it: each request says why it rewrites."""
    edited.edit(edit)
    code, text = edited.run(CI="true")
    assert code == 1 and "oasis: 2 same, 1 broken" in text, text
    assert [told for told in edit.told if told not in text] == [], text
    lost = r"thinking: byte [\d,]+ of the prompt moved, token [\d,]+ of [\d,]+: [1-9][\d,]* are lost\."
    assert re.search(rf"{lost}\n *cost    {NOT_MEASURED}", text), text

    test = edited.folder / "test_prompt.py"
    test.write_text(
        test.read_text(encoding="utf-8").replace(
            "append(body)", f"append(body, declared={edit.name!r} if len(oasis_requests) == 2 else '')"
        ),
        "utf-8",
    )
    code, text = edited.run("--oasis-sign", edit.name)
    assert code == 0 and "oasis: 2 same" in text, text
    edited.verify()
    assert edited.run(CI="true")[0] == 0


@pytest.mark.model
def test_what_is_lost_is_told_in_seconds_of_the_real_model(project: Project, default_model: Path) -> None:
    """In the default model's own dialect and tokens, at the speed it reads here and now; the ledger keeps it."""
    words = ("--oasis-engine=", "-o", "oasis_dialects=smollm2-135m-instruct")
    code, text = project.run("--oasis-record", *words)
    assert code == 0 and "2 recorded" in text, text
    project.edit(HEAD_EDITS[0])
    code, text = project.run(*words, CI="true")
    assert code == 1 and "head/tool[read_file].description" in text, text
    cost = r"cost    [\d,]+ tokens: [\d.,]+ s a conversation, [\d,]+ s a thousand, at [\d,.]+ tokens/s \(smollm2"
    assert len(re.findall(cost, text)) >= 2, text
    code, text = project.run("--oasis-sign", "clearer", *words)
    assert code == 0 and "2 signed" in text, text
    project.verify()
    for entry in Ledger(project.folder / "fixtures" / "ledger.jsonl").entries()[4:]:
        assert entry.cost is not None and entry.cost["n_tokens"] == entry.n_tokens_lost
        assert float(str(entry.cost["s_per_conversation"])) > 0
    code, text = project.run(*words, CI="true")
    assert code == 1 and "oasis: 2 same, 2 unused" in text, (
        text
    )  # those of the other dialect: nobody compares them here
    assert project.run(*words)[0] == 0
