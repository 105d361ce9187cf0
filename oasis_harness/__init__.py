"""Oasis Harness: an agent harness for local models whose prompts can only grow.

    agent         the loop: Session and Agent
    toolbox       the tools we ship
    guard         proof in CI: snapshots of prompts, the ledger, measured cost, the pytest plugin
    embedded      the MLX engine
    engine        the Engine protocol, the reuse check, ScriptedEngine
    render        facts to bytes: the first prompt, deltas, and whose each byte is
    certify       what a chat template does, found by trying it
    templates     a chat template as a pure, bounded function
    replies       sampled bytes to facts: text, reasoning, calls
    tokens        bytes to ids
    registry      tools and skills
    conversation  what happened: the append-only log and its file
    canonical, chain, children, doors, errors, panics, sequences, whole_file

A room imports only rooms below it. Everything here is loaded when it is first used: importing the package loads none of
mlx, transformers, jinja2, numpy or pydantic.
"""

from oasis_harness.doors import lazy_door

TYPE_CHECKING = False
"""typing's own, without its import: `python -m` runs this file while its first path is the folder it was started in."""

if TYPE_CHECKING:
    from oasis_harness.agent import ALLOW_ALL, Agent, Session, Turn, Usage, required_then_none
    from oasis_harness.conversation import Conversation, ToolResult
    from oasis_harness.embedded import open_engine
    from oasis_harness.engine import Engine, Finish, Policy, Reuse, Sampling, ScriptedEngine, ToolChoice
    from oasis_harness.errors import OasisError
    from oasis_harness.registry import Effect, Group, Skills, Tools
    from oasis_harness.replies import ToolCall
    from oasis_harness.toolbox import workspace_tools

__version__ = "0.1.0"

_ROOMS = {
    "ALLOW_ALL": "agent",
    "Agent": "agent",
    "Conversation": "conversation",
    "Effect": "registry",
    "Engine": "engine",
    "Finish": "engine",
    "Group": "registry",
    "OasisError": "errors",
    "Policy": "engine",
    "Reuse": "engine",
    "Sampling": "engine",
    "ScriptedEngine": "engine",
    "Session": "agent",
    "Skills": "registry",
    "ToolCall": "replies",
    "ToolChoice": "engine",
    "ToolResult": "conversation",
    "Tools": "registry",
    "Turn": "agent",
    "Usage": "agent",
    "open_engine": "embedded",
    "required_then_none": "agent",
    "workspace_tools": "toolbox",
}

__all__ = [
    "ALLOW_ALL",
    "Agent",
    "Conversation",
    "Effect",
    "Engine",
    "Finish",
    "Group",
    "OasisError",
    "Policy",
    "Reuse",
    "Sampling",
    "ScriptedEngine",
    "Session",
    "Skills",
    "ToolCall",
    "ToolChoice",
    "ToolResult",
    "Tools",
    "Turn",
    "Usage",
    "open_engine",
    "required_then_none",
    "workspace_tools",
]

_, __getattr__, __dir__ = lazy_door(__name__, {name: f".{room}" for name, room in _ROOMS.items()})
