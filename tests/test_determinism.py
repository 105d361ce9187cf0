"""Nothing in a prompt varies by machine: processes that differ in all a machine can differ in send the same bytes.

Hash seed, time zone, locale, working directory, home, terminal width, umask: a conversation played under each of them
has the same digest in every node, so the same bytes, ids and seams.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

_SCRIPT = '''
import contextlib, datetime, hashlib, json, locale, os, sys
from dataclasses import replace
from pathlib import Path

os.umask(int(sys.argv[1], 8))
with contextlib.suppress(locale.Error):
    locale.setlocale(locale.LC_ALL, "")  # what a host program may have done

from oasis_harness import Group, ScriptedEngine, Session, Skills, Tools, workspace_tools
from oasis_harness.tokens import load_tokenizer

def call(name, **arguments):
    return "<tool_call>" + json.dumps({"name": name, "arguments": arguments}) + "</tool_call>"

engine = ScriptedEngine([call("list_dir"), call("search", pattern="ü") + call("weather", city="Ulm"), "Done.", "Ja."])
if len(sys.argv) > 3:
    engine.model_info = replace(engine.model_info, tokenizer=load_tokenizer(Path(sys.argv[3])))
# Asks for the date, so that a clock or a locale would show.
dated = "{{ strftime_now('%d %B %Y %A %x') }}\\n" + engine.model_info.chat_template
engine.model_info = replace(engine.model_info, chat_template=dated)

tools = workspace_tools(sys.argv[2])

@tools.add(group=Group.OPTIONAL)
def weather(city: str, days: int = 1, units: set[str] | None = None) -> str:
    """Tell the weather.

    Args:
        city: Where.
        days: How many days.
        units: What to measure in.
    """
    return "rain"

late = Tools()

@late.add
def clock() -> str:
    """Tell the time."""
    return "noon"

date = datetime.date(2025, 3, 4)
session = Session(engine, system="Be careful. Ä €", tools=tools, skills=Skills.shipped(), date=date)
turn = session.send("What is in here?  größer\\u0301 😀")
turn = session.results({turn.calls[0].id: tools.get("list_dir").call({})})
session.note("The mode is now: read only.")
session.add_tools(late)
turn = session.results({one.id: session.tools[one.name].call(one.arguments) for one in turn.calls})
session.send("Sicher?")

nodes = list(session.conversation.nodes())
prompt = b"".join(node.sent for node in nodes)
print(json.dumps({
    "digests": [node.digest for node in nodes],
    "prompt": hashlib.sha256(prompt).hexdigest(),
    "ids": hashlib.sha256(session.conversation.ids.tobytes()).hexdigest(),
    "text": prompt.decode(),
}))
'''

PLAIN = {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C", "LANG": "C", "COLUMNS": "80"}
OTHERS = {
    "hash seed": {"PYTHONHASHSEED": "4242"},
    "time zone": {"TZ": "Pacific/Kiritimati"},
    "locale": {"LC_ALL": "de_DE.UTF-8", "LANG": "tr_TR.UTF-8", "LANGUAGE": "de"},
    "ASCII locale": {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "terminal": {"COLUMNS": "17", "NO_COLOR": "1", "TERM": "dumb"},
    "umask": {"umask": "077"},
    "home": {"HOME": "elsewhere", "XDG_CACHE_HOME": "elsewhere/cache"},
    "working directory": {"cwd": "elsewhere"},
    "all at once": {"PYTHONHASHSEED": "7", "TZ": "Asia/Kathmandu", "LC_ALL": "C.UTF-8", "HOME": "elsewhere"}
    | {"cwd": "elsewhere", "umask": "027", "COLUMNS": "200"},
}


def play(
    folder: Path, changes: dict[str, str], *, tokenizer: Path | None = None, source: str = _SCRIPT
) -> dict[str, object]:
    """Play the conversation in a fresh process with `changes` to its surroundings."""
    (folder / "elsewhere").mkdir(parents=True, exist_ok=True)
    workspace = folder / f"workspace-{len(list(folder.iterdir()))}"  # the absolute path differs every time
    workspace.mkdir()
    for name in ("zebra.txt", "apple.txt", "übung.txt")[:: -1 if changes else 1]:
        (workspace / name).write_text("grün\n", encoding="utf-8")
    surroundings = PLAIN | changes
    cwd, umask = folder / surroundings.pop("cwd", "."), surroundings.pop("umask", "022")
    if "HOME" in surroundings:
        surroundings["HOME"] = str(folder / surroundings["HOME"])
    script = folder / "play.py"
    script.write_text(source, encoding="utf-8")
    words = [sys.executable, str(script), umask, str(workspace), *([str(tokenizer)] if tokenizer else [])]
    done = subprocess.run(
        words, cwd=cwd, env={**os.environ, **surroundings}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    played: dict[str, object] = json.loads(done.stdout)
    return played


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    return play(tmp_path_factory.mktemp("plain"), {})


def test_the_conversation_shows_what_could_vary(plain: dict[str, object]) -> None:
    """Date, tools, skills, a folder's listing, a note and a late tool are all in the prompt that is compared."""
    text = str(plain["text"])
    shown = ["04 March 2025 Tuesday 03/04/25", '"name": "weather"', "fix-failing-test:", "apple.txt\nzebra.txt"]
    assert [part for part in [*shown, "read only", '"name": "clock"', "\u0301 😀"] if part not in text] == []


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS.keys())
def test_the_surroundings_move_no_byte(plain: dict[str, object], changes: dict[str, str], tmp_path: Path) -> None:
    """Every node has the digest it has elsewhere; the digest covers event, bytes, ids and seam."""
    assert play(tmp_path, changes) == plain


@pytest.mark.parametrize("leak", ["hash('x')", "os.getcwd()", "os.environ['TZ']", "sys.argv[2]"])
def test_a_leak_is_found(leak: str, tmp_path: Path) -> None:
    """Test of the test: one word of the surroundings in the system text changes every digest."""
    source = _SCRIPT.replace('"Be careful. Ä €"', f"str({leak})")
    one, other = (play(tmp_path / name, OTHERS["all at once"] if name == "b" else {}, source=source) for name in "ab")
    assert one["digests"] != other["digests"]


@pytest.mark.model
def test_the_surroundings_move_no_byte_of_the_default_model(default_model: Path, tmp_path: Path) -> None:
    """The same with a real tokenizer."""
    tokenizer = default_model / "tokenizer.json"
    names = ("hash seed", "all at once")
    played = [play(tmp_path / name.replace(" ", "-"), OTHERS[name], tokenizer=tokenizer) for name in names]
    assert played[0] == played[1]
