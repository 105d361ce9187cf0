"""Bytes to facts: what a sampled reply says, its text, its reasoning and its calls.

A view of the bytes, made anew whenever it is wanted. Nothing here changes a reply, and nothing read from one is ever
rendered back into history.
"""

from .calls import JSON_CALLS, CallSyntax, GivenIds, ToolCall
from .layout import ArgumentsForm, CallLayout, Element
from .parse import REASONING_MARKS, Parsed, left_open, parse_reply, reasoning_extent
from .quoted import unquoted, with_stand_ins

__all__ = [
    "JSON_CALLS",
    "REASONING_MARKS",
    "ArgumentsForm",
    "CallLayout",
    "CallSyntax",
    "Element",
    "GivenIds",
    "Parsed",
    "ToolCall",
    "left_open",
    "parse_reply",
    "reasoning_extent",
    "unquoted",
    "with_stand_ins",
]
