"""Facts to bytes: the first prompt, the delta each event adds to it, and whose each byte is.

A chat template is used for nothing else. Nothing parsed from a reply is ever rendered back into history, and nothing
here reads the clock, the environment, the locale or anything random.
"""

from .chat import Chat, chat_bytes, render_chat
from .delta import Delta, Renderer
from .dialect import Dialect
from .provenance import Provenance, Sources, provenance_of, sources_of
from .spans import Resolution, Span

__all__ = [
    "Chat",
    "Delta",
    "Dialect",
    "Provenance",
    "Renderer",
    "Resolution",
    "Sources",
    "Span",
    "chat_bytes",
    "provenance_of",
    "render_chat",
    "sources_of",
]
