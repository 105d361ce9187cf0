"""What this package itself sends: the head of `oasis run`, and three conversations played on a scripted engine.

Each is played in every dialect as its model would speak, so that calls are parsed, and tools really run.
"""

import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from oasis_harness import ScriptedEngine, Session, Skills, Tools, Turn, workspace_tools
from oasis_harness.cli.run import SYSTEM
from oasis_harness.conversation import Head
from oasis_harness.engine import ModelInfo
from oasis_harness.guard.targets.dialects import DATE
from oasis_harness.replies import CallSyntax
from oasis_harness.tokens import byte_tokenizer

FOLDER = Path(__file__).parents[1] / "fixtures" / "dialects"
NAMES = ("chatml", "chatml-tools", "llama", "glm", "harmony")
"""Files of fixtures/dialects."""
CALC = "def add(a, b):\n    return a - b\n"


def _json_call(name: str, arguments: dict[str, Any]) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def _glm_call(name: str, arguments: dict[str, Any]) -> str:
    pairs = "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in arguments.items())
    return f"<tool_call>{name}\n{pairs}</tool_call>"


def _llama_call(name: str, arguments: dict[str, Any]) -> str:
    return f"<|python_tag|>{json.dumps({'name': name, 'parameters': arguments})}"


def _harmony_call(name: str, arguments: dict[str, Any]) -> str:
    return f"<|channel|>commentary to=functions.{name}<|message|>{json.dumps(arguments)}"


def _read_json(text: str, tools: object) -> Any:
    return json.loads(text)


def _read_glm(text: str, tools: object) -> Any:
    name, _, rest = text.partition("\n")
    pairs = re.findall(r"<arg_key>(.*?)</arg_key>\n<arg_value>(.*?)</arg_value>\n", rest, flags=re.DOTALL)
    return {"name": name, "arguments": dict(pairs)}


def _read_harmony(text: str, tools: object) -> Any:
    name, _, arguments = text.partition("<|message|>")
    return {"name": name, "arguments": json.loads(arguments)}


_JSON = CallSyntax("<tool_call>", "</tool_call>", _read_json)


@dataclass(frozen=True)
class Model:
    """How the scripted model of a dialect speaks."""

    name: str
    call: Callable[[str, dict[str, Any]], str] = _json_call
    syntax: CallSyntax = _JSON
    stops: tuple[str, ...] = ("<|im_end|>",)
    n_calls: int = 2
    """How many calls one reply may hold."""
    answer: Callable[[str], str] = str

    def model_info(self) -> ModelInfo:
        """Return its card; it reads bytes."""
        tokenizer = byte_tokenizer(self.stops)
        return replace(
            ScriptedEngine([]).model_info,
            tokenizer=tokenizer,
            chat_template=(FOLDER / f"{self.name}.jinja").read_bytes().decode(),
            template_variables={"bos_token": "<s>", "eos_token": "</s>"},
            stop_ids=frozenset(tokenizer.specials.values()),
            call_syntax=self.syntax,
        )

    def open(self, folder: Path, replies: list[str]) -> Session:
        """Open a session as `oasis run` does, in a folder with two files."""
        (folder / "calc.py").write_text(CALC, encoding="utf-8", newline="")
        (folder / "notes.md").write_text("add() is wrong: it subtracts.\n", encoding="utf-8", newline="")
        return Session(
            ScriptedEngine(replies, model_info=self.model_info()),
            system=SYSTEM,
            tools=workspace_tools(folder),
            skills=Skills.shipped(),
            date=DATE,
            policy="raise",
        )


MODELS = {
    "llama": Model(
        "llama",
        _llama_call,
        CallSyntax("<|python_tag|>", "", _read_json),
        stops=("<|eot_id|>", "<|eom_id|>"),
        n_calls=1,
    ),
    "glm": Model("glm", _glm_call, CallSyntax("<tool_call>", "</tool_call>", _read_glm), stops=("<|user|>",)),
    "harmony": Model(
        "harmony",
        _harmony_call,
        CallSyntax("<|channel|>commentary to=functions.", "", _read_harmony),
        stops=("<|return|>", "<|call|>"),
        n_calls=1,
        answer="<|channel|>final<|message|>{}".format,
    ),
}


def model_of(name: str) -> Model:
    return MODELS.get(name) or Model(name)


def opened(name: str, folder: Path) -> Session:
    """Return a session that has sent nothing: its prompt is the head."""
    return model_of(name).open(folder, [])


def reading(name: str, folder: Path) -> Session:
    """A listing, then two calls at once where the dialect has such, and an answer."""
    model = model_of(name)
    calls = [model.call("read_file", {"path": "calc.py"}), model.call("search", {"pattern": "add"})]
    replies = [model.call("list_dir", {}), "\n".join(calls[: model.n_calls]), model.answer("It subtracts.")]
    session = model.open(folder, replies)
    turn = session.send("What does calc.py do?")
    while turn.calls:
        turn = _run(session, turn)
    return session


def mending(name: str, folder: Path) -> Session:
    """A call that fails, a note on a change of mode that rides with its result, one that writes, a second user turn."""
    model = model_of(name)
    change = {"path": "calc.py", "old": "a - b", "new": "a + b"}
    replies = [
        model.call("read_file", {"path": "nosuch.py"}),
        model.call("edit_file", change),
        model.answer("Mended: add() adds."),
        model.answer("Nothing else was changed."),
    ]
    session = model.open(folder, replies)
    turn = session.send("Mend calc.py, grüß Gott 😀")
    session.note("Writing is allowed from here on.")
    while turn.calls:
        turn = _run(session, turn)
    session.send("Did you touch notes.md?")
    return session


def arriving(name: str, folder: Path) -> Session:
    """A skill that is loaded, and a tool that arrives when the head was sent long ago."""
    model = model_of(name)
    replies = [
        model.call("load_skill", {"name": "explore-codebase"}),
        model.answer("Ask me."),
        model.call("weather", {"city": "Ulm"}),
        model.answer("It rains in Ulm."),
    ]
    session = model.open(folder, replies)
    _run(session, session.send("Get ready."))
    session.add_tools(_late())
    _run(session, session.send("How is the weather in Ulm?"))
    return session


TALKS: dict[str, Callable[[str, Path], Session]] = {"reading": reading, "mending": mending, "arriving": arriving}


def head() -> Head:
    """Return the head of `oasis run`, for `perturb`."""
    with tempfile.TemporaryDirectory() as folder:
        return opened("chatml", Path(folder)).conversation.head


def prompts() -> dict[str, bytes]:
    """Return the prompts of all conversations in all dialects, for `perturb`."""
    found = {}
    for talk, play in TALKS.items():
        for name in NAMES:
            with tempfile.TemporaryDirectory() as folder:
                nodes = play(name, Path(folder)).conversation.nodes()
                found[f"{talk}.{name}"] = b"".join(node.sent for node in nodes)
    return found


def _run(session: Session, turn: Turn) -> Turn:
    """Run the calls of `turn` and send what they say."""
    assert turn.calls, f"no call was read: {turn.text!r}"
    return session.results({call.id: _result(session, call.name, call.arguments) for call in turn.calls})


def _result(session: Session, name: str, arguments: Any) -> str:
    try:
        return session.tools[name].call(arguments)
    except Exception as error:  # noqa: BLE001 - a tool is foreign code; the model reads what went wrong
        return f"error: {error}"


def _late() -> Tools:
    tools = Tools()

    @tools.add
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"rain in {city}"

    return tools
