"""The whole loop is ours: an agent with one tool works on a question. Runs anywhere; reads only this folder."""

from pathlib import Path

from oasis_harness import Agent, Skills, Tools, Turn, open_engine, required_then_none

FOLDER = Path(__file__).parent
tools = Tools()


@tools.add
def read_file(path: str, limit: int = 40) -> str:
    """Read a text file of the workspace, at most `limit` lines."""
    lines = (FOLDER / Path(path).name).read_text(encoding="utf-8").splitlines()
    return "\n".join(lines[:limit])


with open_engine("smollm2-135m-instruct") as engine:  # or a model folder, or a hub id
    agent = Agent(
        engine,
        system="You are a careful engineer.",
        tools=tools,
        skills=Skills.shipped(),
        tool_choice=required_then_none(1),  # so small a model opens no call by itself; leave it out for a larger one
        max_turns=4,
    )
    for event in agent.run("Read scripted.py and say in one sentence what it does."):
        if isinstance(event, Turn):
            print(f"{event.index}: {event.text or event.calls}")
            print(event.reuse)
