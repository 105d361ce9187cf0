"""What a session starts from: how the model is spoken to, what may be called, where it is recorded."""

import datetime
from collections.abc import Mapping
from pathlib import Path

from oasis_harness.conversation import ConversationFile
from oasis_harness.engine import Engine
from oasis_harness.errors import OutOfOrder
from oasis_harness.registry import Skills, Tool, Tools, frozen_tools
from oasis_harness.render import Dialect

__all__ = ["dialect_of", "new_file", "registry_of"]


def dialect_of(
    engine: Engine, arguments: Mapping[str, object], date: datetime.date | None, *, is_new: bool = True
) -> Dialect:
    """Return how the model is spoken to; a conversation that is not new is given exactly its own `arguments`."""
    info = engine.model_info
    return Dialect.compose(
        info.chat_template,
        variables=info.template_variables,
        arguments=arguments,
        date=date,
        syntax=info.call_syntax,
        stops=info.stops,
        sets_switch=is_new,
    )


def registry_of(tools: Tools | None, skills: Skills | None) -> dict[str, Tool]:
    """Return the frozen tools by name, in prompt order, with `load_skill` where there are skills."""
    return {tool.name: tool for tool in frozen_tools(tools, skills)}


def new_file(path: Path | str) -> ConversationFile:
    file = ConversationFile(path)
    if file.tip is not None:
        file.close()
        raise OutOfOrder(
            f"{path} already holds a conversation.", remedy="Continue it with Session.load(), or name a new file."
        )
    return file
