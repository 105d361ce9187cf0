"""Facts to bytes: the first prompt, and the delta each event adds to it.

A chat template is used for nothing else. Nothing parsed from a reply is ever rendered back into history, and nothing
here reads the clock, the environment, the locale or anything random.
"""

from .certify import Certificate, certify
from .delta import Delta, Renderer
from .dialect import Dialect
from .parse import JSON_CALLS, CallSyntax, Parsed, ToolCall, parse
from .template import Message, Template

__all__ = [
    "JSON_CALLS",
    "CallSyntax",
    "Certificate",
    "Delta",
    "Dialect",
    "Message",
    "Parsed",
    "Renderer",
    "Template",
    "ToolCall",
    "certify",
    "parse",
]
