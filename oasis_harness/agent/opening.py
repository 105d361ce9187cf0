"""What a session starts from: how the model is spoken to, what may be called, where it is recorded."""

import datetime
from collections.abc import Mapping
from pathlib import Path

from oasis_harness.conversation import Conversation, ConversationFile, Reply, epoch_nodes
from oasis_harness.engine import Engine
from oasis_harness.errors import BrokenChain, OutOfOrder
from oasis_harness.registry import Skills, Tool, Tools, frozen_tools
from oasis_harness.render import Dialect
from oasis_harness.tokens import Tokenizer

__all__ = ["dialect_of", "new_file", "registry_of", "require_own_tokens"]


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


def require_own_tokens(conversation: Conversation, tokenizer: Tokenizer, path: Path | str) -> None:
    """Check that what an engine would read of a stored conversation is what the conversation says was sent.

    A digest says that a file is as it was written, not who wrote it: one from somebody else could hold ids that spell
    other words than it shows, or that a model has no row for. O(bytes of the epoch).

    Raises:
        BrokenChain: The ids of an event are not those of its bytes, or its reply is not what was sampled.
    """
    n_pieces = len(tokenizer.pieces)
    for node in epoch_nodes(conversation.tip):
        is_known = all(token < n_pieces for token in node.ids)
        is_said = not isinstance(node.event, Reply) or node.event.data == node.sent
        if not is_known or not is_said or tokenizer.decode(node.ids) != node.sent:
            raise BrokenChain(
                f"{path}, line {node.index + 1}: the tokens of this {node.event.kind} do not spell what it says.",
                remedy="Do not go on with it: whoever wrote the file shows other words than the model would read.",
                path=Path(path),
                line=node.index + 1,
            )


def new_file(path: Path | str, *, is_synced: bool) -> ConversationFile:
    file = ConversationFile(path, is_synced=is_synced)
    if file.tip is not None:
        file.close()
        raise OutOfOrder(
            f"{path} already holds a conversation.", remedy="Continue it with Session.load(), or name a new file."
        )
    return file
