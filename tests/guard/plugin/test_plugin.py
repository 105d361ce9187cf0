"""The pytest plugin, run as its users run it: real suites, with files in a folder.

A suite runs in this process, and in one of its own where that is the point: the first of all, workers, an engine, and
what is or is not imported.
"""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

from oasis_harness.guard import Ledger, NotMeasured
from oasis_harness.guard.cost.meter import Meter
from oasis_harness.guard.review.ci import CI_VARIABLES
from tests.embedded.tiny import write_tiny_model
from tests.guard.desk import leave_ci
from tests.guard.repository import Repository
from tests.tokens.training import gpt2

if TYPE_CHECKING:
    from _pytest.pytester import Pytester, RunResult

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

RunSuite: TypeAlias = "Callable[..., RunResult]"

SETUP = """
import os
import pytest
from oasis_harness import Agent, Conversation, ScriptedEngine, Session, Skills, Tools
from oasis_harness.errors import ReuseExcess

tools = Tools()

@tools.add
def read_file(path: str) -> str:
    '''Read a text file.'''
    return ""

SYSTEM = os.environ.get("SYSTEM", "You are a careful engineer.")
"""
HEAD = SETUP + "def test_head(oasis_snapshot):\n    oasis_snapshot.head(system=SYSTEM, tools=tools)\n"
PLAIN = (
    "{% for message in messages %}[{{ message.role }}] {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)
"""A chat template without special tokens."""
INI = "[pytest]\naddopts = --strict-markers --strict-config\noasis_engine = none\n"


@pytest.fixture
def run_process(pytester: "Pytester", monkeypatch: pytest.MonkeyPatch) -> RunSuite:
    """Run the suite in the current folder in a process of its own, with environment variables as keywords."""
    return _runner(pytester, monkeypatch, pytester.runpytest_subprocess)


@pytest.fixture
def run_suite(everything_loaded: None, pytester: "Pytester", monkeypatch: pytest.MonkeyPatch) -> RunSuite:
    """Run the suite in the current folder in this process, with environment variables as keywords."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a file of the same second and size would pass for the old
    return _runner(pytester, monkeypatch, pytester.runpytest_inprocess)


def _runner(pytester: "Pytester", monkeypatch: pytest.MonkeyPatch, start: RunSuite) -> RunSuite:
    pytester.makeini(INI)
    leave_ci(monkeypatch)
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "SYSTEM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Ada")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "ada@example.org")

    def run(*words: str, **environment: str) -> "RunResult":
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            return start("-p", "no:cacheprovider", "-p", "no:hypothesispytest", *words)

    return run


def text(result: "RunResult") -> str:
    return "\n".join([*result.outlines, *result.errlines])


def recorded(pytester: "Pytester") -> list[str]:
    return sorted(path.name for path in pytester.path.glob("fixtures/prompts/*.prompt"))


# --- what it costs to have --------------------------------------------------------------------------------------------

_IMPORT = """
import json, sys, time, pytest
before, started = set(sys.modules), time.perf_counter()
import oasis_harness.guard.plugin.pytest_plugin
print(json.dumps([time.perf_counter() - started, sorted(set(sys.modules) - before)]))
"""


def test_the_plugin_loads_pytest_and_the_standard_library_only() -> None:
    """Whoever has it installed pays at most 20 ms a run for it, the best of five processes."""
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", _IMPORT], capture_output=True, check=True).stdout)
        for _ in range(5)
    ]
    loaded = {name.partition(".")[0] for name in runs[0][1]}
    assert "oasis_harness" in loaded  # what this test can see at all
    assert loaded - {"oasis_harness"} <= sys.stdlib_module_names
    assert min(seconds for seconds, _ in runs) <= 0.020


def test_a_suite_that_does_not_use_it_runs_as_without(pytester: "Pytester", run_process: RunSuite) -> None:
    """The same words on the screen and the same files in the folder."""
    pytester.makepyfile(
        "import sys\ndef test_a(): assert 'oasis_harness.guard.review.checker' not in sys.modules\n"
        "def test_b(): assert 0"
    )
    pytester.makeini("[pytest]")
    pytester.mkdir("fixtures").joinpath("prompts").mkdir()
    pytester.path.joinpath("fixtures", "prompts", "other.chatml.txt").write_text("of another tool", encoding="utf-8")
    with_it = run_process("-v", "-p", "no:xdist")
    files = sorted(pytester.path.rglob("*.*"))
    without = run_process("-v", "-p", "no:xdist", "-p", "no:oasis")
    assert _timeless(with_it) == _timeless(without)
    assert with_it.ret == without.ret == pytest.ExitCode.TESTS_FAILED
    assert sorted(pytester.path.rglob("*.*")) == files


def _timeless(result: "RunResult") -> list[str]:
    """Return the lines without the time that was taken and the list of plugins."""
    lines = [line for line in result.outlines if not line.startswith("plugins:")]
    return [line.partition(" in ")[0].strip("= ") if " in " in line and line[:1] == "=" else line for line in lines]


# --- snapshots --------------------------------------------------------------------------------------------------------


def test_a_missing_snapshot_fails_until_it_is_recorded(pytester: "Pytester", run_process: RunSuite) -> None:
    """Nothing is written without being asked; recording passes and says what it wrote; then the same bytes pass."""
    pytester.makepyfile(HEAD)
    missing = run_process()
    missing.assert_outcomes(failed=1)
    assert "Run `pytest --oasis-record`" in text(missing)
    assert recorded(pytester) == []

    written = run_process("--oasis-record")
    written.assert_outcomes(passed=1)
    written.stdout.fnmatch_lines(["oasis: 1 recorded", "  recorded: test_head.chatml, * bytes"])
    assert recorded(pytester) == ["test_head.chatml.prompt"]
    assert (
        b"You are a careful engineer."
        in pytester.path.joinpath("fixtures/prompts/test_head.chatml.prompt").read_bytes()
    )

    again = run_process()
    again.assert_outcomes(passed=1)
    again.stdout.fnmatch_lines(["oasis: 1 same"])


def test_a_moved_byte_fails_with_its_owner_and_line(pytester: "Pytester", run_suite: RunSuite) -> None:
    """Byte, token, both texts, the field and where the tool stands; recording does not accept it."""
    pytester.makepyfile(HEAD)
    dialect_with_tokenizer(pytester, "mine")
    run_suite("--oasis-record", "-o", "oasis_dialects=mine").assert_outcomes(passed=1)
    pytester.makepyfile(HEAD.replace("Read a text file.", "Read one text file."))
    line = 1 + HEAD.strip().splitlines().index("@tools.add")
    moved = run_suite("--oasis-record", "-o", "oasis_dialects=mine")
    moved.assert_outcomes(failed=1)
    moved.stdout.fnmatch_lines(
        [
            "test_head.mine: byte * moved, token * of *: * are read again.",
            f"  where   head/tool[[]read_file].description (test_a_moved_*.py:{line})",
            "  before  *[[][[]a]]*",
            "  after   *[[][[]one]]*",
            "  cost    not measured: oasis_engine is none",
            "oasis: 1 moved",
            "  moved: test_head.mine: byte *head/tool[[]read_file].description",
        ]
    )


def dialect_with_tokenizer(pytester: "Pytester", name: str) -> None:
    """Write a template and its tokenizer into the fixtures."""
    folder = pytester.path / "fixtures" / "dialects"
    folder.mkdir(parents=True, exist_ok=True)
    template = (
        "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    (folder / f"{name}.jinja").write_bytes(template.encode())
    (folder / f"{name}.tokenizer.json").write_bytes(gpt2().to_str().encode())


def test_signing_accepts_a_move_and_tells_the_ledger(pytester: "Pytester", run_suite: RunSuite) -> None:
    """The entry has the reason, who gave it, and why no cost was measured; what is not asked for stays."""
    pytester.makepyfile(HEAD + "def test_other(oasis_snapshot):\n    oasis_snapshot.head(system='x')\n")
    run_suite("--oasis-record", "-k", "head").assert_outcomes(passed=1, deselected=1)
    signed = run_suite("--oasis-sign", "shorter is better", SYSTEM="Be brief.")
    signed.assert_outcomes(passed=1, failed=1)
    signed.stdout.fnmatch_lines(["oasis: 1 missing, 1 signed", "  signed: test_head.chatml: byte *[[]entry 2]"])
    first, entry = Ledger(pytester.path / "fixtures" / "ledger.jsonl").entries()
    assert (first.reason, first.sha256_new) == ("recorded", entry.sha256_old)
    assert (entry.reason, entry.who, entry.dialect) == ("shorter is better", "Ada <ada@example.org>", "chatml")
    assert entry.cost is None and entry.cost_reason.startswith("tokens are not counted")
    run_suite("-k", "head", SYSTEM="Be brief.").assert_outcomes(passed=1, deselected=1)
    run_suite("-k", "head").assert_outcomes(failed=1, deselected=1)


def test_half_a_sign_off_is_found(pytester: "Pytester", run_suite: RunSuite) -> None:
    """An entry without its prompt fails, and signing does not call that the same; signing the move anew mends it."""
    pytester.makepyfile(HEAD)
    run_suite("--oasis-record")
    files = {path: path.read_bytes() for path in pytester.path.glob("fixtures/prompts/*")}
    run_suite("--oasis-sign", "why", SYSTEM="Be brief.").assert_outcomes(passed=1)
    for path, data in files.items():
        path.write_bytes(data)  # as if the process had ended in between
    for words in ([], ["--oasis-sign", "why"]):
        half = run_suite(*words)
        half.assert_outcomes(failed=1)
        assert "Bring snapshots and ledger back from version control together" in text(half)
    run_suite("--oasis-sign", "why", SYSTEM="Be brief.").assert_outcomes(passed=1)
    run_suite(SYSTEM="Be brief.").assert_outcomes(passed=1)


def test_what_was_signed_cannot_be_recorded_anew(pytester: "Pytester", run_suite: RunSuite) -> None:
    """Deleting the file is no way around the ledger, and neither is editing the ledger."""
    pytester.makepyfile(HEAD)
    run_suite("--oasis-record")
    run_suite("--oasis-sign", "why", SYSTEM="Be brief.")
    for path in pytester.path.glob("fixtures/prompts/*"):
        path.unlink()
    again = run_suite("--oasis-record")
    again.assert_outcomes(failed=1)
    assert "it was signed before, and its file is gone" in text(again)
    run_suite("--oasis-record", "--oasis-sign", "back").assert_outcomes(passed=1)
    ledger = pytester.path / "fixtures" / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"why"', b'"yes"'))
    edited = run_suite()
    edited.assert_outcomes(failed=1)
    assert "ledger.jsonl, line 2" in text(edited)


@pytest.mark.parametrize("words", [("--oasis-record",), ("--oasis-sign", "why")])
@pytest.mark.parametrize("value", ["true", "1"])
def test_ci_writes_nothing(pytester: "Pytester", run_suite: RunSuite, words: tuple[str, ...], value: str) -> None:
    """A usage error before any test runs."""
    pytester.makepyfile(HEAD)
    refused = run_suite(*words, CI=value)
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert f"{words[0]} is refused where CI is set" in text(refused)
    assert recorded(pytester) == []


@pytest.mark.parametrize("name", CI_VARIABLES)
def test_every_service_is_ci(pytester: "Pytester", run_suite: RunSuite, name: str) -> None:
    """Also where it does not set CI."""
    pytester.makepyfile(HEAD)
    assert run_suite("--oasis-record", **{name: "yes"}).ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize("value", ["", "0", "false"])
def test_a_variable_ci_that_says_no_is_none(pytester: "Pytester", run_suite: RunSuite, value: str) -> None:
    """Some shells set it to nothing."""
    pytester.makepyfile(HEAD)
    run_suite("--oasis-record", CI=value).assert_outcomes(passed=1)


def test_a_blank_reason_is_a_usage_error(pytester: "Pytester", run_suite: RunSuite) -> None:
    """Nothing runs."""
    pytester.makepyfile(HEAD)
    blank = run_suite("--oasis-sign", "  ")
    assert blank.ret == pytest.ExitCode.USAGE_ERROR
    assert "--oasis-sign has no reason" in text(blank)


def test_a_prompt_that_was_appended_to_fails_too(pytester: "Pytester", run_suite: RunSuite) -> None:
    """It says that nothing cached is lost; signing it is an entry as every other."""
    source = SETUP + (
        "def test_talk(oasis_snapshot):\n"
        "    session = Session(ScriptedEngine(['hello', 'again']), system=SYSTEM)\n"
        "    session.send('a')\n"
        "    {more}\n"
        "    oasis_snapshot(session)\n"
    )
    pytester.makepyfile(source.format(more="pass"))
    run_suite("--oasis-record").assert_outcomes(passed=1)
    pytester.makepyfile(source.format(more="session.send('b')"))
    extended = run_suite()
    extended.assert_outcomes(failed=1)
    extended.stdout.fnmatch_lines(["*nothing that was cached is lost*", "oasis: 1 extended"])
    run_suite("--oasis-sign", "one turn more").assert_outcomes(passed=1)
    run_suite().assert_outcomes(passed=1)
    first, grown = Ledger(pytester.path / "fixtures" / "ledger.jsonl").entries()
    assert (grown.reason, grown.sha256_old, grown.n_tokens_lost) == ("one turn more", first.sha256_new, 0)


def test_what_cannot_be_evaluated_is_no_pass(pytester: "Pytester", run_suite: RunSuite) -> None:
    """A template that raises or does not compile, no such dialect, a damaged snapshot; whatever may be written."""
    pytester.makepyfile(
        SETUP + "@pytest.mark.parametrize('dialect', ['chatml', 'raises', 'broken', 'nowhere'])\n"
        "def test_head(oasis_snapshot, dialect):\n"
        "    oasis_snapshot.head(system=SYSTEM, name='head', dialects=dialect)\n"
    )
    dialects = pytester.path / "fixtures" / "dialects"
    dialects.mkdir(parents=True)
    dialects.joinpath("raises.jinja").write_text("{{ raise_exception('not today') }}", encoding="utf-8")
    dialects.joinpath("broken.jinja").write_text("{% if %}", encoding="utf-8")
    run_suite("--oasis-record", "-k", "chatml").assert_outcomes(passed=1, deselected=3)
    snapshot = pytester.path / "fixtures" / "prompts" / "head.chatml.prompt"
    snapshot.write_bytes(snapshot.read_bytes() + b" ")
    for words in ([], ["--oasis-record"], ["--oasis-sign", "why"]):
        result = run_suite(*words)
        result.assert_outcomes(failed=4)
        result.stdout.fnmatch_lines(["oasis: 4 not evaluated"])
    assert "not today" in text(result) and "there is no dialect 'nowhere'" in text(result)


def test_every_way_to_give_a_head_is_one_prompt(pytester: "Pytester", run_suite: RunSuite) -> None:
    """A session, an agent, a conversation and a head that sent nothing, and the parts they are made of."""
    pytester.makepyfile(
        SETUP + "def test_head(oasis_snapshot):\n"
        "    session = Session(ScriptedEngine([]), system=SYSTEM, tools=tools)\n"
        "    agent, log = Agent(session.engine, session=session), session.conversation\n"
        "    for one in (session, agent, log, log.head):\n"
        "        oasis_snapshot(one, name='head')\n"
        "    oasis_snapshot.head(system=SYSTEM, tools=tools, name='head')\n"
        "def test_nothing(oasis_snapshot):\n"
        "    with pytest.raises(TypeError, match='session, agent, conversation or head'):\n"
        "        oasis_snapshot('text')\n"
    )
    result = run_suite("--oasis-record")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["oasis: 4 same, 1 recorded"])


OWN = """
import json

TOOLS = [{"type": "function", "function": {"name": "now", "description": "Tell the time."}}]
BODY = {"model": "m", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        "tools": TOOLS}

def test_head(oasis_snapshot): oasis_snapshot.head(system="Be brief.", tools=TOOLS)

def test_body(oasis_snapshot): oasis_snapshot(BODY)

def test_wrong(oasis_snapshot): oasis_snapshot.head(tools=[print])
"""


def test_an_agent_of_another_make_has_snapshots_too(pytester: "Pytester", run_suite: RunSuite) -> None:
    """The list of tools that goes to an API, and the whole body; what is neither is named."""
    pytester.makepyfile(OWN)
    first = run_suite("--oasis-record")
    first.assert_outcomes(passed=2, failed=1)
    assert "tools[0] is <built-in function print>" in text(first) and "a tool is a JSON object" in text(first)
    pytester.makepyfile(OWN.replace("Tell the time.", "Tell a time."))
    moved = run_suite()
    moved.assert_outcomes(failed=3)
    moved.stdout.fnmatch_lines(["  where   head/tool[[]now].description"])


def test_a_session_is_rendered_in_every_dialect(pytester: "Pytester", run_suite: RunSuite) -> None:
    """By name, by path and composed; what was sent in one dialect is rendered event by event in the others."""
    pytester.makepyfile(
        SETUP + "from pathlib import Path\nfrom oasis_harness.render import Dialect\n"
        "SOURCE = Path('plain.jinja').read_text()\n"
        "@pytest.mark.parametrize('dialects', [['chatml', 'plain.jinja'], {'composed': Dialect.compose(SOURCE)}])\n"
        "def test_talk(oasis_snapshot, dialects):\n"
        "    session = Session(ScriptedEngine(['hello']), system=SYSTEM)\n"
        "    session.send('hi')\n"
        "    oasis_snapshot(session, name='talk', dialects=dialects)\n"
    )
    pytester.path.joinpath("plain.jinja").write_text(PLAIN, encoding="utf-8")
    run_suite("--oasis-record").assert_outcomes(passed=2)
    prompts = {name: pytester.path.joinpath("fixtures/prompts", name).read_bytes() for name in recorded(pytester)}
    assert prompts["talk.plain.prompt"] == prompts["talk.composed.prompt"]
    assert prompts["talk.plain.prompt"] == b"[system] You are a careful engineer.\n[user] hi\n[assistant] hello"
    assert prompts["talk.chatml.prompt"].endswith(b"<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nhello")


def test_tools_are_refused_where_the_call_syntax_is_unknown(pytester: "Pytester", run_process: RunSuite) -> None:
    """Only mlx-lm knows how some models write calls; without it their tools would be rendered otherwise."""
    pytester.makeconftest("import sys\nsys.modules['mlx_lm'] = None\n")
    pytester.makepyfile(
        SETUP + "def test_tools(oasis_snapshot):\n    oasis_snapshot.head(system=SYSTEM, tools=tools, dialects='odd')\n"
        "def test_no_tools(oasis_snapshot):\n    oasis_snapshot.head(system=SYSTEM, dialects='odd')\n"
    )
    dialects = pytester.path / "fixtures" / "dialects"
    dialects.mkdir(parents=True)
    odd = "{% if tools %}{% for tool in tools %}{{ tool | tojson }}{% endfor %}\n{% endif %}" + PLAIN
    dialects.joinpath("odd.jinja").write_text(odd, encoding="utf-8")
    result = run_process("--oasis-record")
    result.assert_outcomes(passed=1, failed=1)
    assert "Install `oasis-harness[mlx]` where this test runs." in text(result)


HIDDEN = {
    "expected to fail": "@pytest.mark.xfail\ndef test_head(oasis_snapshot):\n    oasis_snapshot.head(system=SYSTEM)\n",
    "caught": "def test_head(oasis_snapshot):\n"
    "    with pytest.raises(pytest.fail.Exception):\n        oasis_snapshot.head(system=SYSTEM)\n",
    "requests": "@pytest.mark.xfail\ndef test_head(oasis_requests):\n    for text in ('one two', 'one more'):\n"
    "        oasis_requests.append({'messages': [{'role': 'user', 'content': text}, {'role': 'assistant'}]})\n",
}


@pytest.mark.parametrize("how", HIDDEN)
def test_a_failure_that_a_test_hides_fails_the_run(pytester: "Pytester", run_suite: RunSuite, how: str) -> None:
    """No test can let a prompt pass that did not: the run says so."""
    assert_fails_with_nothing_failed(pytester, run_suite, how)


def test_workers_hide_no_failure_either(pytester: "Pytester", run_process: RunSuite) -> None:
    """The run that adds them up says so."""
    pytest.importorskip("xdist")
    assert_fails_with_nothing_failed(pytester, run_process, "caught", "-n1")


def assert_fails_with_nothing_failed(pytester: "Pytester", run: RunSuite, how: str, *words: str) -> None:
    pytester.makepyfile(SETUP + HIDDEN[how])
    hidden = run(*words)
    assert hidden.ret == pytest.ExitCode.TESTS_FAILED
    assert hidden.parseoutcomes().get("failed", 0) == 0
    assert "the run fails: a test caught what did not pass, or was expected to fail" in text(hidden)


def test_two_prompts_cannot_share_a_default_name(pytester: "Pytester", run_suite: RunSuite) -> None:
    """Neither two of one test nor those of two tests that are called the same."""
    body = "def test_head(oasis_snapshot):\n    oasis_snapshot.head(system='x')\n"
    pytester.makepyfile(
        test_a=body, test_b=body, test_c=body.replace("head(", "one(", 1) + "    oasis_snapshot.head(system='x')\n"
    )
    result = run_suite("--oasis-record", "-p", "no:xdist")
    result.assert_outcomes(passed=1, failed=2)
    assert "test_a.py::test_head calls its prompt 'test_head' too" in text(result)
    assert "this test compares two prompts without a name" in text(result)


def test_the_folder_can_be_elsewhere(pytester: "Pytester", run_suite: RunSuite) -> None:
    """By option or in the ini file; the option wins."""
    pytester.makepyfile(HEAD)
    run_suite("--oasis-record", "--oasis-fixtures", "data", "-o", "oasis_fixtures=other").assert_outcomes(passed=1)
    assert pytester.path.joinpath("data/prompts/test_head.chatml.prompt").exists()
    run_suite("-o", "oasis_fixtures=data").assert_outcomes(passed=1)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder. Made before pytester, which unloads what is imported while it is there; mlx loads only once."""
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny", "llama")


def test_cost_is_measured_on_a_real_engine(tiny_model: Path, pytester: "Pytester", run_process: RunSuite) -> None:
    """A model folder is a dialect, counts tokens with its own tokenizer, and is what the speed is measured on."""
    pytester.makepyfile(HEAD)
    words = ("-o", f"oasis_dialects={tiny_model}", f"--oasis-engine={tiny_model}")
    run_process("--oasis-record", *words).assert_outcomes(passed=1)
    moved = run_process(*words, SYSTEM="Be brief.")
    moved.assert_outcomes(failed=1)
    moved.stdout.fnmatch_lines(["  cost    * tokens: * s a conversation, * at * tokens/s (tiny, *; * runs of *"])
    run_process("--oasis-sign", "why", *words, SYSTEM="Be brief.").assert_outcomes(passed=1)
    first, entry = Ledger(pytester.path / "fixtures" / "ledger.jsonl").entries()
    assert (first.reason, first.sha256_new) == ("recorded", entry.sha256_old)
    assert entry.cost is not None and entry.cost["n_tokens"] == entry.n_tokens_lost


def test_a_model_that_is_not_here_is_not_fetched(pytester: "Pytester", run_suite: RunSuite) -> None:
    """The cost is not measured, and the report says why."""
    pytester.makepyfile(HEAD)
    dialect_with_tokenizer(pytester, "mine")
    words = ("-o", "oasis_dialects=mine", "--oasis-engine", "nobody/nothing")
    run_suite("--oasis-record", *words).assert_outcomes(passed=1)
    moved = run_suite(*words, SYSTEM="Be brief.")
    assert "cost    not measured: the model nobody/nothing is not on this machine" in text(moved)


def test_a_reason_names_no_folder_of_this_machine(tmp_path: Path) -> None:
    """It goes into the ledger."""
    pytest.importorskip("mlx_lm")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{", encoding="utf-8")
    for folder in (tmp_path / "missing", broken):
        cost = Meter(str(folder)).cost(7)
        assert isinstance(cost, NotMeasured)
        assert folder.name in cost.reason and str(tmp_path) not in cost.reason


# --- what is recorded is no code --------------------------------------------------------------------------------------

DOCTEST = "You are careful.\n>>> __import__('pathlib').Path('sprung').write_text('x')\n1"


@pytest.mark.parametrize("words", [[], ["--doctest-modules"], ["fixtures", "."], ["--doctest-glob=test*.txt"]], ids=str)
@pytest.mark.parametrize("ending", [".prompt", ".txt"])
def test_a_recorded_prompt_is_not_run(pytester: "Pytester", run_suite: RunSuite, words: list[str], ending: str) -> None:
    """In the layout of the README pytest would take `test_head.chatml.txt` for doctests, without being asked."""
    pytester.makepyfile(HEAD)
    run_suite("--oasis-record", SYSTEM=DOCTEST).assert_outcomes(passed=1)
    written = pytester.path / "fixtures/prompts/test_head.chatml.prompt"
    written.rename(written.with_suffix(ending))
    run_suite(*words, SYSTEM=DOCTEST).assert_outcomes(passed=1)
    assert not pytester.path.joinpath("sprung").exists()


@pytest.mark.parametrize("words", [["--oasis-record"], ["--oasis-sign", "why"]])
@pytest.mark.parametrize("system", ["You are a careful engineer.", "Be brief."])
def test_a_text_of_the_old_ending_is_read_and_renamed(
    pytester: "Pytester", run_suite: RunSuite, words: list[str], system: str
) -> None:
    """Comparing renames nothing; recording and signing do, also where no byte moved."""
    pytester.makepyfile(HEAD)
    run_suite("--oasis-record")
    written = pytester.path / "fixtures/prompts/test_head.chatml.prompt"
    old, data = written.with_suffix(".txt"), written.read_bytes()
    written.rename(old)
    run_suite().assert_outcomes(passed=1)
    assert old.read_bytes() == data and not written.exists()
    run_suite(*words, SYSTEM=system)
    is_refused = system == "Be brief." and words == ["--oasis-record"]
    assert old.exists() == is_refused and written.exists() != is_refused
    old.write_bytes(data)
    if not is_refused:
        assert "test_head.chatml.txt stands beside test_head.chatml.prompt" in text(run_suite(SYSTEM=system))


@pytest.mark.parametrize(
    ("folder", "place", "line"),
    [
        ("fixtures", ".gitattributes", "fixtures/** -text"),
        ("my/data", ".gitattributes", "my/data/** -text"),
        ("with space", "with space/.gitattributes", "** -text"),
    ],
)
def test_recording_keeps_line_ends_from_git(
    pytester: "Pytester", run_suite: RunSuite, folder: str, place: str, line: str
) -> None:
    """Once, behind what is there; git checks the bytes out as they were, whatever its settings."""
    repository = Repository.at(pytester.path)
    pytester.makepyfile(HEAD + "def test_other(oasis_snapshot):\n    oasis_snapshot.head(system='a\\nb')\n")
    pytester.path.joinpath(".gitattributes").write_text("*.png binary", encoding="utf-8")
    run_suite("--oasis-record", f"--oasis-fixtures={folder}").assert_outcomes(passed=2)
    lines = pytester.path.joinpath(place).read_text(encoding="utf-8").splitlines()
    assert lines == (["*.png binary", line] if place == ".gitattributes" else [line])
    repository.commit()
    shutil.rmtree(pytester.path / folder)
    repository.git("-c", "core.autocrlf=true", "checkout", "-q", "--", ".")
    run_suite(f"--oasis-fixtures={folder}").assert_outcomes(passed=2)


# --- what nobody asks for ---------------------------------------------------------------------------------------------

TWO = SETUP + (
    "def test_one(oasis_snapshot):\n    oasis_snapshot.head(system='1')\n"
    "def test_two(oasis_snapshot):\n    oasis_snapshot.head(system='2')\n"
)
ONE = TWO[: TWO.index("def test_two")]


def test_an_unused_snapshot_is_reported(pytester: "Pytester", run_suite: RunSuite) -> None:
    """As a warning, as an error, or not at all."""
    pytester.makepyfile(TWO)
    run_suite("--oasis-record").assert_outcomes(passed=2)
    pytester.makepyfile(ONE)
    warned = run_suite()
    assert warned.ret == pytest.ExitCode.OK
    warned.stdout.fnmatch_lines(["oasis: 1 same, 1 unused", "  unused: test_two.chatml*"])
    failed = run_suite("-o", "oasis_unused=error")
    assert failed.ret == pytest.ExitCode.TESTS_FAILED
    assert "1 unused" not in text(run_suite("-o", "oasis_unused=ignore"))
    assert run_suite("-o", "oasis_unused=never").ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize("how", ["warn", "ignore"])
def test_in_ci_an_unused_snapshot_is_an_error(pytester: "Pytester", run_suite: RunSuite, how: str) -> None:
    """Whatever the settings say: a prompt whose test was renamed is compared by nobody."""
    pytester.makepyfile(TWO)
    run_suite("--oasis-record").assert_outcomes(passed=2)
    pytester.makepyfile(TWO.replace("test_two", "test_second").replace("system='2'", "system='1', name='test_one'"))
    failed = run_suite("-o", f"oasis_unused={how}", GITHUB_ACTIONS="true")
    assert failed.ret == pytest.ExitCode.TESTS_FAILED and "unused: test_two.chatml" in text(failed)


CUTS = {
    "a name": (["-k", "one"], TWO),
    "deselected": (["--deselect", "test_sub.py::test_two"], TWO),
    "skipped": ([], TWO.replace("def test_two", "@pytest.mark.skip\ndef test_two")),
    "renamed": (["--oasis-record"], TWO.replace("test_two", "test_second")),
    "nothing runs": (["-k", "nothing"], TWO),
}


@pytest.mark.parametrize("how", CUTS)
def test_a_complete_run_compares_every_recorded_prompt(pytester: "Pytester", run_suite: RunSuite, how: str) -> None:
    """One that no test asked for is named, whatever kept its test from running."""
    words, source = CUTS[how]
    pytester.makepyfile(test_sub=TWO)
    run_suite("--oasis-record").assert_outcomes(passed=2)
    assert run_suite("--oasis-complete").ret == pytest.ExitCode.OK
    pytester.makepyfile(test_sub=source)
    for asked in (["--oasis-complete"], ["-o", "oasis_complete=true"]):
        failed = run_suite(*words, *asked)
        assert failed.ret == pytest.ExitCode.TESTS_FAILED
        assert "not compared: test_two.chatml" in text(failed)


EVASIONS = {
    "skipped": ([], ("def test_two", "@pytest.mark.skip\ndef test_two"), "not compared: test_two.chatml"),
    "deselected": (["--deselect", "test_sub.py::test_two"], ("", ""), "not compared: test_two.chatml"),
    "a part": (["-k", "one"], ("", ""), "not compared: test_two.chatml"),
    "renamed": ([], ("test_two", "test_second"), "not compared: test_two.chatml"),
    "another dialect": (["-o", "oasis_dialects=mine"], ("", ""), "not compared: test_two.chatml"),
    "another folder": (["--oasis-fixtures=other"], ("", ""), "unsigned: other: the base has no prompts here"),
}


@pytest.mark.parametrize("how", EVASIONS)
def test_a_base_is_compared_by_every_test_of_it(pytester: "Pytester", run_suite: RunSuite, how: str) -> None:
    """What was not compared is named, also where it was recorded under another name, dialect or folder."""
    words, (old, new), said = EVASIONS[how]
    pytester.makepyfile(test_sub=TWO)
    dialect_with_tokenizer(pytester, "mine")
    run_suite("--oasis-record").assert_outcomes(passed=2)
    repository = Repository.at(pytester.path)
    repository.commit()
    assert run_suite("--oasis-base", "main").ret == pytest.ExitCode.OK
    pytester.makepyfile(test_sub=TWO.replace(old, new) if old else TWO)
    run_suite("--oasis-record", *words)
    failed = run_suite("--oasis-base", "main", *words)
    assert failed.ret == pytest.ExitCode.TESTS_FAILED and said in text(failed)


def test_a_prompt_that_moved_since_the_base_is_signed_or_fails(pytester: "Pytester", run_suite: RunSuite) -> None:
    """Also where a run at a desk recorded it anew; what proves writes nothing, and a base that is not here fails."""
    pytester.makepyfile(HEAD)
    run_suite("--oasis-record")
    pytester.path.joinpath("fixtures/ledger.jsonl").unlink()  # as it was recorded before there were entries
    unsigned_manifests(pytester)
    repository = Repository.at(pytester.path)
    repository.commit()
    repository.delete("test_head")
    run_suite("--oasis-record", SYSTEM="Be brief.").assert_outcomes(passed=1)
    failed = run_suite("--oasis-base", "main", SYSTEM="Be brief.")
    failed.assert_outcomes(passed=1)
    assert failed.ret == pytest.ExitCode.TESTS_FAILED
    failed.stdout.fnmatch_lines(
        ["oasis: 1 same, 1 unsigned", "  unsigned: test_head.chatml (* → *): entry 1 leads from*"]
    )
    repository.git("checkout", "-q", ".")
    pytester.path.joinpath("fixtures/ledger.jsonl").unlink()
    run_suite("--oasis-sign", "shorter", SYSTEM="Be brief.")
    assert run_suite("--oasis-base", "main", SYSTEM="Be brief.").ret == pytest.ExitCode.OK
    assert run_suite("--oasis-base", "main", "--oasis-record").ret == pytest.ExitCode.USAGE_ERROR
    lost = run_suite("--oasis-base", "nosuch", SYSTEM="Be brief.")
    assert lost.ret == pytest.ExitCode.TESTS_FAILED and "is no commit of this clone" in text(lost)


def unsigned_manifests(pytester: "Pytester") -> None:
    """Write the manifests as they were before what is recorded had an entry."""
    for path in pytester.path.glob("fixtures/prompts/*.json"):
        data = re.sub(rb'"signed":"[^"]*"', b'"signed":null', path.read_bytes())
        path.write_bytes(re.sub(rb'"n_signed":\d+', b'"n_signed":0', data))


PARTS = [
    ["-k", "one"],
    ["test_sub.py::test_one"],
    ["--deselect", "test_sub.py::test_two"],
    ["--ignore", "test_two.py", "--ignore", "test_sub.py"],
]


@pytest.mark.parametrize("words", PARTS)
def test_a_part_of_the_suite_leaves_none_unused(pytester: "Pytester", run_suite: RunSuite, words: list[str]) -> None:
    """What was not run may still ask for it."""
    pytester.makepyfile(test_sub=TWO, test_zero=ONE.replace("test_one", "test_zero"))
    run_suite("--oasis-record").assert_outcomes(passed=3)
    part = run_suite(*words, "-o", "oasis_unused=error")
    assert part.ret == pytest.ExitCode.OK
    assert "1 unused" not in text(part)


@pytest.mark.parametrize("mark", ["@pytest.mark.skip\n", "@pytest.mark.xfail(run=False)\n"])
def test_a_test_that_did_not_run_leaves_none_unused(pytester: "Pytester", run_suite: RunSuite, mark: str) -> None:
    """Its snapshots are not to be deleted on the machines that skip it."""
    pytester.makepyfile(TWO)
    run_suite("--oasis-record").assert_outcomes(passed=2)
    pytester.makepyfile(TWO.replace("def test_two", f"{mark}def test_two"))
    skipped = run_suite("-o", "oasis_unused=error")
    assert skipped.ret == pytest.ExitCode.OK
    assert "1 unused" not in text(skipped)


def test_naming_the_whole_suite_is_no_part_of_it(pytester: "Pytester", run_suite: RunSuite) -> None:
    """`pytest .` and `pytest tests` with that as testpaths look for unused ones as `pytest` does."""
    pytester.makepyfile(**{"tests/test_it": TWO})
    run_suite("--oasis-record").assert_outcomes(passed=2)
    pytester.makepyfile(**{"tests/test_it": ONE})
    assert "1 unused" in text(run_suite("."))
    assert "1 unused" in text(run_suite("tests", "-o", "testpaths=tests"))
    assert "1 unused" not in text(run_suite("tests/test_it.py", "-o", "testpaths=tests"))


# --- append-only ------------------------------------------------------------------------------------------------------


def test_the_marker_needs_a_reason(pytester: "Pytester", run_suite: RunSuite) -> None:
    """None, a blank one, one that is no keyword, and one beside something else are errors; a good one is fine."""
    marks = ["", "()", "(reason=' ')", "('why')", "(reason=3)", "(reason='why', until='later')"]
    tests = [
        f"@pytest.mark.moves_prefix{mark}\ndef test_{n}(): pass\n" for n, mark in enumerate([*marks, "(reason='why')"])
    ]
    pytester.makepyfile("import pytest\n" + "".join(tests))
    result = run_suite()
    result.assert_outcomes(errors=len(marks), passed=1)
    assert "moves_prefix needs a reason" in text(result)


TALKS = (
    SETUP
    + """
import numpy as np
from oasis_harness.engine import Prompt, Sampling

def ask(*prompts):
    engine = ScriptedEngine(["hello"] * len(prompts))
    for ids in prompts:
        list(engine.generate(Prompt("key", np.array(ids, dtype=np.uint32)), Sampling()))

def session():
    return Session(ScriptedEngine(["one", "two", "three"]), system=SYSTEM)

def test_good():
    ask([1, 2, 3], [1, 2, 3, 4])
    talk = session()
    talk.send("a")
    branch = talk.fork()
    talk.send("b")
    branch.send("c")

def test_rewritten_prompt():
    ask([1, 2, 3], [1, 9, 3, 4])

@pytest.mark.moves_prefix(reason="it tests the break itself")
def test_excused():
    ask([1, 2, 3], [1, 9, 3, 4])

def test_went_back():
    talk = session()
    talk.send("a")
    before = talk.conversation.tip
    talk.send("b")
    talk.conversation._tip = before

def test_went_back_and_on():
    talk = session()
    talk.send("a")
    before = talk.conversation.tip
    talk.send("b")
    talk.conversation._tip = before
    with pytest.raises(ReuseExcess):
        talk.send("c")

def test_changed():
    talk = session()
    talk.send("a")
    object.__setattr__(talk.conversation.tip.parent, "n_bytes", 3)

def test_compacted():
    from oasis_harness.conversation import Compaction
    talk = session()
    talk.send("a")
    log = talk.conversation
    log.append(Compaction(epoch=log.epoch, old_tip=log.tip.digest, summary=b"s"), b"new", (110, 101, 119))
    ask(list(range(9)), [110, 101, 119, 7])

def test_compacted_once_and_started_over_twice():
    from oasis_harness.conversation import Compaction
    talk = session()
    talk.send("a")
    log = talk.conversation
    log.append(Compaction(epoch=log.epoch, old_tip=log.tip.digest, summary=b"s"), b"new", (110, 101, 119))
    ask(list(range(9)), [110, 101, 119, 7], [110, 101, 119, 8])

def test_other_ids():
    talk = session()
    talk.send("a")
    tip = talk.conversation.tip
    talk.conversation.append(type(tip.parent.event)(b"b"), b"b", (99,))
"""
)


@pytest.mark.moves_prefix(reason="what breaks in the suite is seen by this one's own check too")
def test_autouse_catches_what_does_not_only_grow(pytester: "Pytester", run_suite: RunSuite) -> None:
    """Every test passes by itself; six break append-only, and fail when they end."""
    pytester.makepyfile(TALKS)
    run_suite().assert_outcomes(passed=9)
    for words in (["--oasis-autouse"], ["-o", "oasis_autouse=true"]):
        result = run_suite(*words)
        result.assert_outcomes(passed=9, errors=6)
        result.stdout.fnmatch_lines(["oasis: 6 broken"])
    broken = [line for line in result.outlines if line.startswith("  broken: ")]
    if importlib.util.find_spec("xdist"):
        run_suite("--oasis-autouse", "--dist=loadfile").assert_outcomes(passed=9, errors=6)  # a habit, without workers
    told = {line.partition("::")[2].partition(":")[0]: line for line in broken}
    assert "leaves it at token 1 of 3, so 2 tokens are read again" in told["test_rewritten_prompt"]
    assert "it leaves it at token 3 of 4" in told["test_compacted_once_and_started_over_twice"]
    assert "it went back from" in told["test_went_back"] and "it went back from" in told["test_went_back_and_on"]
    assert "its n_bytes is 3" in told["test_changed"]
    assert "its ids are not those of its bytes" in told["test_other_ids"]


def test_recorded_requests_are_checked_when_the_test_ends(pytester: "Pytester", run_suite: RunSuite) -> None:
    """Bodies are copied when they come: a client that goes on with its own list hides nothing."""
    pytester.makepyfile(
        """
        import pytest

        def talk(log, change, **options):
            messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
            log.append({"model": "m", "messages": messages})
            messages.append({"role": "user", "content": "c"})
            log.append({"model": "m", "messages": messages})
            change(messages)
            log.append({"model": "m", "messages": messages}, **options)

        def rewrite(messages):
            messages[1]["content"] = "B"

        def test_good(oasis_requests):
            talk(oasis_requests, lambda messages: None)
            assert len(oasis_requests) == 3

        def test_broken(oasis_requests):
            talk(oasis_requests, rewrite)

        def test_declared(oasis_requests):
            talk(oasis_requests, rewrite, declared="compaction")

        @pytest.mark.moves_prefix(reason="the old client did")
        def test_excused(oasis_requests):
            talk(oasis_requests, rewrite)
        """
    )
    result = run_suite()
    result.assert_outcomes(passed=4, errors=1)
    result.stdout.fnmatch_lines(["*messages[[]1].content*", "oasis: 1 broken"])


PROVES_NOTHING = """
import pytest

ONE = [{"role": "user", "content": "a"}]
TWO = [*ONE, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
MORE = [*TWO, *TWO[1:]]

def test_good(oasis_requests):
    oasis_requests.append({"messages": ONE})
    oasis_requests.append({"messages": TWO})
    oasis_requests.append({"messages": ONE}, conversation="title")

def test_none(oasis_requests): pass

def test_one(oasis_requests): oasis_requests.append({"messages": ONE})

def test_one_each(oasis_requests):
    for key in "abcd":
        oasis_requests.append({"messages": [{"role": "user", "content": f"1{key}:00 and so on"}]}, conversation=key)

def test_all_declared(oasis_requests):
    oasis_requests.append({"messages": TWO})
    oasis_requests.append({"messages": ONE}, declared="compaction")

def test_idle(oasis_requests):
    for messages in (ONE, TWO, MORE):
        oasis_requests.append({"messages": messages}, declared="to be sure" if messages is TWO else "")

def test_skipped(oasis_requests): pytest.skip("not here")

def test_failed(oasis_requests): assert 0
"""


def test_a_check_that_proves_nothing_fails(pytester: "Pytester", run_suite: RunSuite) -> None:
    """Nothing recorded, one request, one a conversation, all declared; one skipped or failed is not blamed for it."""
    pytester.makepyfile(PROVES_NOTHING)
    result = run_suite()
    result.assert_outcomes(passed=6, errors=5, failed=1, skipped=1)
    result.stdout.fnmatch_lines(["oasis: 5 broken", "oasis: 13 requests, 9 conversations, 2 declared"])
    assert len([line for line in result.outlines if line.startswith("  broken: ")]) == 5
    assert "test_none: nothing was compared: " in text(result) and "test_one_each: nothing was" in text(result)
    assert "test_idle: request 1 is declared, and nothing broke there" in text(result)


EXCUSED = """
import pytest

pytestmark = pytest.mark.moves_prefix(reason="the old client")

def talk(log, *contents):
    for content in contents:
        messages = [{"role": role, "content": word} for role, word in zip(["user", "assistant"] * 2, content)]
        log.append({"messages": messages})

def test_breaks(oasis_requests): talk(oasis_requests, "a", "xbc")

def test_good(oasis_requests): talk(oasis_requests, "a", "abc")

def test_skipped(oasis_requests): pytest.skip("not here")
"""


@pytest.mark.parametrize("words", [[], ["--oasis-autouse"]])
def test_an_excuse_where_nothing_broke_fails(pytester: "Pytester", run_suite: RunSuite, words: list[str]) -> None:
    """One for a whole module would excuse what breaks tomorrow; excused tests are counted."""
    pytester.makepyfile(EXCUSED)
    result = run_suite(*words)
    result.assert_outcomes(passed=2, errors=1, skipped=1)
    result.stdout.fnmatch_lines(["oasis: 1 broken", "oasis: 4 requests, 2 conversations, 3 excused"])
    assert "test_good: it is excused, and nothing broke there" in text(result)


def test_the_assertions_are_fixtures_too(pytester: "Pytester", run_suite: RunSuite) -> None:
    """They are those of `oasis_harness.guard`."""
    pytester.makepyfile(
        """
        def test_same(assert_append_only, assert_prefix_stable):
            from oasis_harness import guard
            assert assert_append_only is guard.assert_append_only
            assert assert_prefix_stable is guard.assert_prefix_stable
        """
    )
    run_suite().assert_outcomes(passed=1)


# --- several workers --------------------------------------------------------------------------------------------------


def test_workers_add_up(pytester: "Pytester", run_process: RunSuite) -> None:
    """Recording, comparing, unused ones and breaks are told as in one process."""
    heads = "".join(f"def test_{n}(oasis_snapshot):\n    oasis_snapshot.head(system='{n}')\n" for n in range(6))
    pytester.makepyfile(heads)
    written = run_process("--oasis-record", "-n", "2")
    written.assert_outcomes(passed=6)
    written.stdout.fnmatch_lines(["oasis: 6 recorded", *(f"  recorded: test_{n}.chatml*" for n in range(6))])
    pytester.makepyfile(
        heads.replace("system='0'", "system='zero'").replace("test_5", "test_five")
        + "def test_broken(oasis_requests):\n"
        "    for words in (['a', 'b', 'c'], ['a', 'x', 'c', 'd']):\n"
        "        roles = ['user', 'assistant', 'user', 'assistant']\n"
        "        oasis_requests.append({'messages': [{'role': r, 'content': w} for r, w in zip(roles, words)]})\n"
    )
    result = run_process("-n", "2")
    result.assert_outcomes(passed=5, failed=2, errors=1)
    result.stdout.fnmatch_lines(["oasis: 4 same, 1 moved, 1 missing, 1 broken"])
    signed = run_process("-n", "2", "--oasis-sign", "zero", "--oasis-record", "-k", "not broken")
    signed.assert_outcomes(passed=6, deselected=0)
    signed.stdout.fnmatch_lines(["oasis: 4 same, 1 recorded, 1 signed, 1 unused", "  unused: test_5.chatml*"])


def test_a_worker_that_dies_leaves_none_unused(pytester: "Pytester", run_process: RunSuite) -> None:
    """It took with it what it had compared."""
    pytester.makepyfile(TWO)
    run_process("--oasis-record").assert_outcomes(passed=2)
    pytester.makepyfile(ONE + "def test_dies():\n    os._exit(3)\n")
    died = run_process("-n", "2")
    died.assert_outcomes(passed=1, failed=1)
    assert "1 unused" not in text(died)
