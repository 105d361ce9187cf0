"""Facts to bytes: the first prompt, and the delta each event adds to it.

A chat template is used for nothing else. Nothing parsed from a reply is ever rendered back into history, and nothing
here reads the clock, the environment, the locale or anything random.
"""

from .calls import CallForm
from .certificate import Boundary, BoundaryName, Break, Certificate, Kept, Switch, Thinking, Verdict
from .certify import certify_template
from .delta import Delta, Renderer
from .dialect import Dialect
from .owners import Provenance, Sources, provenance, sources_of
from .parse import JSON_CALLS, CallSyntax, GivenIds, Parsed, ToolCall, parse
from .spans import Resolution, Span
from .template import USUAL_VARIABLES, Message, Template

__all__ = [
    "JSON_CALLS",
    "USUAL_VARIABLES",
    "Boundary",
    "BoundaryName",
    "Break",
    "CallForm",
    "CallSyntax",
    "Certificate",
    "Delta",
    "Dialect",
    "GivenIds",
    "Kept",
    "Message",
    "Parsed",
    "Provenance",
    "Renderer",
    "Resolution",
    "Sources",
    "Span",
    "Switch",
    "Template",
    "Thinking",
    "ToolCall",
    "Verdict",
    "certify_template",
    "parse",
    "provenance",
    "sources_of",
]
