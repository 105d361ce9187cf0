"""The agent runs what it may, gives every call a result, and always ends."""

from dataclasses import replace
from typing import Any

import pytest

from oasis_harness import (
    Agent,
    Effect,
    Sampling,
    ScriptedEngine,
    Session,
    Skills,
    ToolChoice,
    Tools,
    Turn,
    required_then_none,
)
from oasis_harness.agent import ALLOW_ALL, CallFinished, CallStarted, Finished, Reason
from oasis_harness.agent.execute import Limits
from oasis_harness.conversation import Reply, ToolResults


def call(name: str, arguments: str = "{}") -> str:
    return f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>'


def some_tools(ran: list[str]) -> Tools:
    tools = Tools()

    @tools.add
    def look(at: str) -> str:
        """Look at something."""
        ran.append(f"look {at}")
        return f"{at} is fine"

    @tools.add(effect=Effect.WRITE)
    def change(at: str) -> str:
        """Change something."""
        ran.append(f"change {at}")
        return "changed"

    @tools.add
    def fail() -> str:
        """Fail."""
        raise ValueError("it broke")

    return tools


def results(agent: Agent) -> list[str]:
    events = [node.event for node in agent.session.conversation.nodes()]
    return [one.content.decode() for event in events if isinstance(event, ToolResults) for one in event.results]


def test_it_runs_calls_until_the_model_answers() -> None:
    """Three turns: a call, two calls at once, an answer; every call has its true result, in order."""
    ran: list[str] = []
    script = [
        call("look", '{"at": "a"}'),
        call("look", '{"at": "b"}') + call("change", '{"at": "c"}'),
        "All is well.",
    ]
    agent = Agent(ScriptedEngine(script), tools=some_tools(ran), approve=ALLOW_ALL)
    events = list(agent.run("check"))
    assert ran == ["look a", "look b", "change c"]
    assert events[-1] == Finished(Reason.ANSWERED, "All is well.")
    assert sum(isinstance(event, CallStarted) for event in events) == 3
    assert [event.result.is_error for event in events if isinstance(event, CallFinished)] == [False] * 3
    assert [turn.reuse.deficit for turn in agent.turns] == [0, 0, 0]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (call("fail"), "error: ValueError: it broke"),
        (call("nothing"), "error: there is no tool 'nothing'. There are: change, fail, look."),
        (call("look", '{"att": 1}'), "look(at: string)"),
        ('<tool_call>{"name": "look", "arg', "cut off"),
        ("<tool_call>look at it</tool_call>", "does not parse"),
        ('<tool_call>["look"]</tool_call>', '"name" and "arguments"'),
    ],
)
def test_what_goes_wrong_is_a_result_the_model_can_act_on(reply: str, words: str) -> None:
    """A raise, an unknown tool, wrong arguments, a broken call: an error result, and the loop goes on."""
    agent = Agent(ScriptedEngine([reply, "I see."]), tools=some_tools([]), approve=ALLOW_ALL)
    events = list(agent.run("go"))
    assert words in results(agent)[0]
    assert events[-1] == Finished(Reason.ANSWERED, "I see.")
    assert isinstance(agent.session.conversation.tip.event, Reply)


def test_only_what_writes_or_executes_is_asked_for() -> None:
    """A denied call is a result, never a changed tool list."""
    ran: list[str] = []
    asked: list[str] = []

    def approve(call: object, tool: object) -> bool:
        asked.append(tool.name)  # type: ignore[attr-defined]  # a Tool
        return False

    script = [call("look", '{"at": "a"}') + call("change", '{"at": "b"}'), "ok"]
    agent = Agent(ScriptedEngine(script), tools=some_tools(ran), approve=approve)
    list(agent.run("go"))
    assert (ran, asked) == (["look a"], ["change"])
    assert "did not allow" in results(agent)[1]
    assert list(agent.session.tools) == ["change", "fail", "look"]


def test_tools_that_act_need_somebody_to_allow_them() -> None:
    """An agent that was built without a thought of approval does not run a shell; reading needs none."""
    with pytest.raises(ValueError, match=r"change may write or execute, and nobody is asked first.*ALLOW_ALL"):
        Agent(ScriptedEngine([]), tools=some_tools([]))
    session = Session(ScriptedEngine([]), tools=some_tools([]))
    with pytest.raises(ValueError, match="change may write"):
        Agent(session.engine, session=session)


@pytest.mark.parametrize("answer", [None, "no", 1, "a coroutine"])
def test_an_approval_that_is_no_truth_value_runs_nothing(answer: object) -> None:
    """A coroutine is true, whatever it would say; so is the word no."""

    async def says_no() -> bool:
        return False

    ran: list[str] = []
    script = [call("change", '{"at": "b"}'), "ok"]
    approve: Any = lambda call, tool: says_no() if answer == "a coroutine" else answer  # noqa: E731
    agent = Agent(ScriptedEngine(script), tools=some_tools(ran), approve=approve)
    with pytest.raises(TypeError, match="Let it return True or False, from a plain function"):
        list(agent.run("go"))
    assert ran == [] and "interrupted" in results(agent)[0]


def test_a_run_out_of_turns_leaves_no_call_open() -> None:
    """The last calls get the result that says why they did not run, and a new task can begin."""
    engine = ScriptedEngine([call("look", '{"at": "a"}')] * 3 + ["Fine."])
    agent = Agent(engine, tools=some_tools([]), approve=ALLOW_ALL, max_turns=3)
    assert list(agent.run("go"))[-1] == Finished(Reason.MAX_TURNS, "")
    assert "no turns left" in results(agent)[-1]
    assert not agent.session.open_calls
    assert list(agent.run("again"))[-1] == Finished(Reason.ANSWERED, "Fine.")


def test_required_then_none_drives_a_model_that_never_calls() -> None:
    """The tool choice of every turn is recorded with its reply."""
    engine = ScriptedEngine([call("look", '{"at": "a"}')] * 2 + ["done"])
    agent = Agent(engine, tools=some_tools([]), approve=ALLOW_ALL, tool_choice=required_then_none(2))
    list(agent.run("go"))
    assert [sampling.tool_choice for sampling in engine.samplings] == [
        ToolChoice.REQUIRED,
        ToolChoice.REQUIRED,
        ToolChoice.NONE,
    ]
    replies = [n.event for n in agent.session.conversation.nodes() if isinstance(n.event, Reply)]
    assert [reply.tool_choice for reply in replies] == ["required", "required", "none"]


def test_a_tool_that_floods_is_cut_when_it_is_recorded() -> None:
    """Beginning and end stay, with the number of bytes left out in between."""
    tools = Tools()

    @tools.add
    def flood() -> str:
        """Print a lot."""
        return "start" + "é" * 50_000 + "end"

    agent = Agent(ScriptedEngine([call("flood"), "ok"]), tools=tools, limits=Limits(max_bytes=1000))
    list(agent.run("go"))
    (result,) = results(agent)
    assert result.startswith("start") and result.endswith("end")
    assert "bytes left out" in result and len(result.encode()) < 1100


def test_a_tool_that_hangs_does_not_hang_the_loop() -> None:
    """It is given up after its time, and the model reads that."""
    import threading

    released = threading.Event()
    tools = Tools()

    @tools.add
    def hang() -> str:
        """Hang."""
        released.wait()
        return "late"

    agent = Agent(ScriptedEngine([call("hang"), "ok"]), tools=tools, limits=Limits(timeout_s=0.05))
    list(agent.run("go"))
    released.set()
    assert "no result within 0.05 s" in results(agent)[0]


def test_an_interrupt_between_calls_gives_every_call_a_result() -> None:
    """Ctrl-C while calls run: those that did not get to run say so, and the conversation goes on."""
    ran: list[str] = []
    engine = ScriptedEngine([call("look", '{"at": "a"}') + call("look", '{"at": "b"}'), "later"])
    agent = Agent(engine, tools=some_tools(ran), approve=ALLOW_ALL)
    events = agent.run("go")
    for event in events:
        if isinstance(event, CallFinished):
            break
    with pytest.raises(KeyboardInterrupt):
        events.throw(KeyboardInterrupt)  # type: ignore[attr-defined]  # a generator
    assert ran == ["look a"]
    assert "interrupted" in results(agent)[1]
    assert list(agent.run("go on"))[-1] == Finished(Reason.ANSWERED, "later")


def test_a_loaded_session_goes_on_with_its_open_calls() -> None:
    """resume() runs them, or asks for the answer that is missing, or does nothing."""
    ran: list[str] = []
    engine = ScriptedEngine([call("look", '{"at": "a"}'), "done"])
    agent = Agent(engine, tools=some_tools(ran), approve=ALLOW_ALL)
    agent.session.send("go")
    assert list(agent.resume())[-1] == Finished(Reason.ANSWERED, "done")
    assert ran == ["look a"]
    assert list(agent.resume()) == []


def test_skills_are_listed_in_the_head_and_read_on_demand() -> None:
    """The body comes as a tool result; the head has one line a skill."""
    skills = Skills.shipped()
    name = next(iter(skills)).name
    engine = ScriptedEngine([call("load_skill", f'{{"name": "{name}"}}'), "read"])
    agent = Agent(engine, skills=skills)
    list(agent.run("go"))
    assert results(agent)[0] == next(iter(skills)).body
    head = engine.model_info.tokenizer.decode(engine.prompts[0].ids.tolist()).decode()
    assert f"- {name}: " in head
    assert next(iter(skills)).body not in head


def test_a_result_that_does_not_fit_the_window_becomes_one_that_says_so() -> None:
    """The tool ran once; the model reads how much too long its result was, and goes on."""
    ran: list[str] = []
    tools = Tools()

    @tools.add
    def flood() -> str:
        """Print a lot."""
        ran.append("flood")
        return "x" * 5000

    model_info = replace(ScriptedEngine([]).model_info, n_context=1500)
    agent = Agent(ScriptedEngine([call("flood"), "I see."], model_info=model_info), tools=tools)
    assert list(agent.run("go"))[-1] == Finished(Reason.ANSWERED, "I see.")
    assert ran == ["flood"]
    assert "Ask for less" in results(agent)[0]


def test_a_full_window_ends_the_run() -> None:
    """Where not even a short result fits, the run says so instead of raising."""
    model_info = replace(ScriptedEngine([]).model_info, n_context=700)
    agent = Agent(
        ScriptedEngine([call("look", '{"at": "a"}')], model_info=model_info),
        tools=some_tools([]),
        system="s" * 20,
        approve=ALLOW_ALL,
    )
    assert list(agent.run("go" * 5))[-1].reason is Reason.WINDOW_FULL  # type: ignore[union-attr]  # Finished


def test_a_cut_or_cancelled_answer_is_not_called_answered() -> None:
    """The reason says how the last reply ended; a cancel stops the agent, also inside a call."""
    cut = Session(ScriptedEngine(["a very long answer"]), sampling=Sampling(max_tokens=5))
    assert list(Agent(cut.engine, session=cut).run("go"))[-1] == Finished(Reason.LENGTH, "a ver")
    engine = ScriptedEngine([call("look", '{"at": "a"}'), "never asked"])
    agent = Agent(engine, tools=some_tools([]), approve=ALLOW_ALL)
    events: list[object] = []
    for event in agent.run("go"):
        events.append(event)
        if len(events) == 30:
            engine.cancel()
    assert events[-1].reason is Reason.CANCELLED  # type: ignore[attr-defined]  # Finished
    assert len(engine.prompts) == 1
    assert not agent.session.open_calls


def test_a_driven_models_answer_that_we_cut_is_its_answer() -> None:
    """It does not find the end by itself; the run is done."""
    engine = ScriptedEngine(["on and on " * 50], model_info=replace(ScriptedEngine([]).model_info, opens_calls=False))
    *_, turn, finished = Agent(engine).run("go")
    assert turn.finish == "length"  # type: ignore[union-attr]  # a Turn
    assert finished.reason is Reason.ANSWERED  # type: ignore[union-attr]  # Finished


def test_a_run_that_was_left_does_not_block_the_next() -> None:
    """Left at a turn with calls, they get a result that says they were interrupted."""
    agent = Agent(ScriptedEngine([call("look", '{"at": "a"}'), "ok"]), tools=some_tools([]), approve=ALLOW_ALL)
    for event in agent.run("go"):
        if isinstance(event, Turn):
            break
    assert list(agent.run("again"))[-1] == Finished(Reason.ANSWERED, "ok")
    assert "interrupted" in results(agent)[0]


def test_a_given_session_keeps_what_is_its_own() -> None:
    """Its tool choice holds, and giving its parts a second time is refused."""
    engine = ScriptedEngine(["a"])
    session = Session(engine, tools=some_tools([]), sampling=Sampling(tool_choice=ToolChoice.NONE))
    list(Agent(engine, session=session, approve=ALLOW_ALL).run("go"))
    assert engine.samplings[0].tool_choice is ToolChoice.NONE
    with pytest.raises(ValueError, match="system"):
        Agent(engine, session=session, system="other")
    with pytest.raises(ValueError, match="engine"):
        Agent(ScriptedEngine([]), session=session)


def test_a_call_that_cannot_be_read_is_not_asked_for() -> None:
    """Approval is for what would run."""

    def approve(call: object, tool: object) -> bool:
        raise AssertionError("asked for a call that cannot run")

    script = ['<tool_call>{"name": "change", "arguments": 5}</tool_call>', "ok"]
    agent = Agent(ScriptedEngine(script), tools=some_tools([]), approve=approve)
    list(agent.run("go"))
    assert "must be an object" in results(agent)[0]
