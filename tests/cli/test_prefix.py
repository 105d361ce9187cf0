"""`oasis prefix`: the acts of the pytest plugin from the command line, and their exit codes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from oasis_harness.cli.main import main
from oasis_harness.guard import Ledger
from tests.guard.desk import leave_ci
from tests.guard.repository import Repository
from tests.tokens.training import gpt2

Oasis = Callable[..., tuple[int, str]]

AGENT = '''
from oasis_harness import ScriptedEngine, Session, Tools
from oasis_harness.registry import Skill, Skills

tools = Tools()

@tools.add
def read_file(path: str, limit: int = 200) -> str:
    """Read a text file."""
    return ""

SYSTEM = "You are a careful engineer.\\n\\nBe brief."
SKILL = Skill("reading", "How to read files.", "Read them with a shell. " * 9, "reading/SKILL.md")

def head():
    return SYSTEM, tools

def as_skill():
    return SYSTEM, Skills([SKILL])

def session():
    talk = Session(ScriptedEngine(["hello"]), system=SYSTEM, tools=tools)
    talk.send("hi")
    return talk

def raises():
    raise RuntimeError("no server")

def nothing():
    return 3
'''


@pytest.fixture
def oasis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Oasis:
    """Run the command in a folder with an agent and a dialect that counts tokens."""
    monkeypatch.chdir(tmp_path)
    leave_ci(monkeypatch)
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    Path("agent.py").write_text(AGENT, encoding="utf-8")
    dialects = Path("fixtures/dialects")
    dialects.mkdir(parents=True)
    template = "{% for message in messages %}[{{ message.role }}] {{ message.content }}\n{% endfor %}"
    dialects.joinpath("mine.jinja").write_text(f"{template}{{% if add_generation_prompt %}}> {{% endif %}}", "utf-8")
    dialects.joinpath("mine.tokenizer.json").write_bytes(gpt2().to_str().encode())

    def run(*words: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["oasis", "prefix", *words])
        monkeypatch.setattr("sys.path", [*__import__("sys").path])
        monkeypatch.delitem(__import__("sys").modules, "agent", raising=False)
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out + err

    return run


def edit(old: str, new: str) -> None:
    path = Path("agent.py")
    path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")


def test_a_prompt_is_recorded_moved_and_signed(oasis: Oasis) -> None:
    """Missing is 3, the same 0, moved 1, with the owner and what to do; the ledger has the reason."""
    code, out = oasis("check", "agent.py:head")
    assert code == 3 and "Run `oasis prefix record agent.py:head`" in out
    assert oasis("record", "agent.py:head", "--dialect", "mine", "--dialect", "chatml")[0] == 0
    assert oasis("check", "agent.py:head") == (0, "oasis: 2 same\n")

    edit("a text file", "one text file")
    code, out = oasis("check", "agent.py:head", "--engine", "none")
    assert code == 1 and "head/tool[read_file].description (agent.py:" in out
    assert "not measured: oasis_engine is none" in out
    assert 'oasis prefix sign --reason "why" agent.py:head' in out
    code, out = oasis("sign", "agent.py:head", "--reason", "clearer", "--engine", "none")
    assert code == 0 and "2 signed" in out
    reasons = [entry.reason for entry in Ledger("fixtures/ledger.jsonl").entries()]
    assert reasons == ["recorded"] * 2 + ["clearer"] * 2
    assert oasis("check", "agent.py:head")[0] == 0
    code, out = oasis("log")
    assert code == 0 and "tokens lost" in out and "entries: 4, whole" in out


def test_a_module_and_a_conversation_are_targets_too(oasis: Oasis) -> None:
    """Under a name of its own."""
    assert oasis("record", "agent:session", "--name", "talk")[0] == 0
    assert Path("fixtures/prompts/talk.chatml.prompt").read_bytes().endswith(b"<|im_start|>assistant\nhello")
    edit('send("hi")', 'send("ho")')
    code, out = oasis("check", "agent:session", "--name", "talk", "--engine", "none")
    assert code == 1 and "event 1 text" in out
    assert 'oasis prefix sign --reason "why" agent:session --name talk' in out


def test_a_removed_prompt_is_signed(oasis: Oasis) -> None:
    """In every dialect; its files go, the ledger keeps why, and it may be recorded again later."""
    oasis("record", "agent.py:head", "--dialect", "mine", "--dialect", "chatml")
    code, out = oasis("sign", "--removed", "head", "--reason", "another agent does it")
    assert code == 0 and "removed: head.chatml [entry 3]" in out and not any(Path("fixtures/prompts").iterdir())
    gone = Ledger("fixtures/ledger.jsonl").entries()[2:]
    assert [(one.sha256_new, one.reason) for one in gone] == [("", "another agent does it")] * 2
    assert "head.mine  removed" in oasis("log")[1]
    assert oasis("record", "agent.py:head")[0] == oasis("check", "agent.py:head")[0] == 0
    assert Ledger("fixtures/ledger.jsonl").entries()[4].sha256_old == ""


def test_a_prompt_whose_files_were_deleted_is_removed_too(oasis: Oasis) -> None:
    """The ledger knows what it was; one that nobody knows is refused."""
    oasis("record", "agent.py:head")
    for path in Path("fixtures/prompts").iterdir():
        path.unlink()
    assert oasis("sign", "--removed", "head.chatml", "--reason", "why")[0] == 0
    recorded, gone = Ledger("fixtures/ledger.jsonl").entries()
    assert gone.sha256_old == recorded.sha256_new
    for words in (["--removed", "tail"], ["--removed", "head"], [], ["agent.py:head", "--removed", "head"]):
        code, out = oasis("sign", *words, "--reason", "why")
        assert code == 2 and ("to remove" in out or "give a TARGET" in out)


def test_a_prompt_that_was_deleted_by_hand_is_signed_from_what_it_was(oasis: Oasis) -> None:
    """Recording it with other bytes is refused, and signing it names the bytes the ledger had."""
    oasis("record", "agent.py:head")
    for path in Path("fixtures/prompts").iterdir():
        path.unlink()
    edit("a text file", "one text file")
    assert "signed before" in oasis("record", "agent.py:head")[1]
    assert oasis("sign", "agent.py:head", "--reason", "clearer", "--engine", "none")[0] == 0
    recorded, signed = Ledger("fixtures/ledger.jsonl").entries()
    assert (signed.sha256_old, signed.reason) == (recorded.sha256_new, "clearer")


def test_a_change_is_proved_against_a_base(oasis: Oasis) -> None:
    """0 where all is signed, 1 where something is not, 2 where the base is not here."""
    oasis("record", "agent.py:head")
    repository = Repository.at(Path.cwd())
    repository.commit()
    code, out = oasis("audit", "--base", "main")
    assert code == 0 and "audited: 1 prompts of main (" in out and "), 0 unsigned" in out
    repository.delete("head")
    code, out = oasis("audit", "--base", "main")
    assert code == 1 and "unsigned: head.chatml (" in out and "oasis prefix sign --removed head.chatml" in out
    assert oasis("sign", "--removed", "head", "--reason", "why")[0] == oasis("audit", "--base", "main")[0] == 0
    code, out = oasis("audit", "--base", "origin/main")
    assert code == 2 and "git fetch --depth=1 origin" in out


@pytest.mark.parametrize("act", [("record",), ("sign", "--reason", "why")])
def test_nothing_is_written_in_ci(oasis: Oasis, monkeypatch: pytest.MonkeyPatch, act: tuple[str, ...]) -> None:
    monkeypatch.setenv("CI", "true")
    code, out = oasis(*act, "agent.py:head")
    assert code == 2 and "where CI is set" in out and not Path("fixtures/prompts").exists()


def test_a_blank_reason_signs_nothing(oasis: Oasis) -> None:
    code, out = oasis("sign", "agent.py:head", "--reason", " ")
    assert code == 2 and "needs a reason" in out


@pytest.mark.parametrize(
    "target, code, told",
    [
        ("agent.py", 2, "is no target"),
        ("agent.py:raises", 4, "not evaluated: RuntimeError: no server (agent.py:"),
        ("agent.py:nosuch", 4, "AttributeError"),
        ("nosuch:head", 4, "ModuleNotFoundError"),
        ("agent.py:nothing", 4, "session, agent, conversation or head"),
    ],
)
def test_what_cannot_be_evaluated_is_no_pass(oasis: Oasis, target: str, code: int, told: str) -> None:
    found, out = oasis("check", target)
    assert found == code and told in out and "Traceback" not in out


def test_what_varies_in_the_head_is_found_in_its_bytes(oasis: Oasis) -> None:
    """Also where it is recorded as it is."""
    edit("Be brief.", "It is 2025-03-09 14:02:11 now.")
    oasis("record", "agent.py:head")
    code, out = oasis("check", "agent.py:head")
    assert code == 1 and "varies: system, line 3: " in out and "14:02:11" in out


@pytest.mark.slow
def test_what_varies_by_machine_is_found_elsewhere(oasis: Oasis) -> None:
    """With --perturb only: the folder is in the head, spelled so that no pattern knows it."""
    edit('SYSTEM = "', 'import os\nSYSTEM = os.getcwd()[-3:] + " ')
    oasis("record", "agent.py:head")
    assert oasis("check", "agent.py:head")[0] == 0
    code, out = oasis("check", "agent.py:head", "--perturb")
    assert code == 1 and "working directory (path): moved" in out


def test_a_recorded_prompt_is_explained(oasis: Oasis) -> None:
    """Every span with its tokens; one byte with what stands around it; a name in two dialects needs the dialect."""
    oasis("record", "agent.py:head", "--dialect", "mine", "--dialect", "chatml")
    code, out = oasis("show", "head.mine")
    assert code == 0 and "head/system  You are a careful engineer. Be brief." in out
    assert "head/tool[read_file].description  Read a text file." in out
    at = Path("fixtures/prompts/head.mine.prompt").read_bytes().index(b"careful")
    code, out = oasis("show", "head.mine", "--offset", str(at))
    assert code == 0 and out.startswith(f"byte {at:,} is head/system, its own text: byte 10 of ") and "'careful" in out
    assert oasis("show", "head")[0] == oasis("show", "tail")[0] == 3
    assert oasis("show", "head.mine", "--offset", "99999")[0] == 2


def test_a_broken_ledger_is_an_error(oasis: Oasis) -> None:
    Path("fixtures/ledger.jsonl").write_text("{}\n", encoding="utf-8")
    code, out = oasis("log")
    assert code == 2 and "ledger.jsonl, line 1" in out


def test_a_head_is_priced_and_compared_with_a_skill(oasis: Oasis) -> None:
    """Tool, paragraphs and template; the skill costs a line, and its body where it is loaded."""
    words = ("--dialect", "mine", "--engine", "none")
    code, out = oasis("cost", "agent.py:head", *words, "--as-skill", "agent.py:as_skill")
    assert code == 0
    for part in ("system 1  You are", "system 2  Be brief.", "tool[read_file]", "not measured: oasis_engine is none"):
        assert part in out
    assert "as tools " in out and "more when loaded" in out
    code, out = oasis("cost", "agent.py:head", "--dialect", "chatml", "--engine", "none")
    assert code == 2 and "tokens of chatml are not counted" in out


@pytest.mark.slow
@pytest.mark.model
def test_a_head_is_priced_on_the_default_model(oasis: Oasis, default_model: Path) -> None:
    code, out = oasis("cost", "agent.py:head")
    assert code == 0 and "tokens/s (smollm2" in out and "tool[read_file]" in out
