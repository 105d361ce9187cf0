"""Facts to bytes: the first prompt, and the delta each event adds to it.

A chat template is used for nothing else. Nothing parsed from a reply is ever rendered back into history, and nothing
here reads the clock, the environment, the locale or anything random.
"""

from .calls import CallForm
from .certify import Certificate, certify
from .delta import Delta, Renderer
from .dialect import Dialect
from .parse import JSON_CALLS, CallSyntax, GivenIds, Parsed, ToolCall, parse
from .template import Message, Template

__all__ = [
    "JSON_CALLS",
    "CallForm",
    "CallSyntax",
    "Certificate",
    "Delta",
    "Dialect",
    "GivenIds",
    "Message",
    "Parsed",
    "Renderer",
    "Template",
    "ToolCall",
    "certify",
    "parse",
]
