"""The whole loop is ours: an agent with one tool reads a file beside this one."""

from pathlib import Path

from oasis_harness import Agent, Tools, open_engine

tools = Tools()


@tools.add
def read_file(path: str, limit: int = 200) -> str:
    """Read a text file of the workspace, at most `limit` lines."""
    return "\n".join(Path(__file__).with_name(path).read_text(encoding="utf-8").splitlines()[:limit])


with open_engine("smollm2-135m-instruct") as engine:  # or a model folder, or a hub id
    agent = Agent(engine, system="You are a careful engineer.", tools=tools)
    for event in agent.run("Read calc.py."):
        print(event)
    print(agent.turns[-1].reuse)
