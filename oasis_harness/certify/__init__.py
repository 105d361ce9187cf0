"""What a chat template does, found by trying it on sentinel messages and never by reading its source.

A certificate belongs to one template under one set of switches. It says what stands before a delta and where to cut
it, how calls and results are written, and where a client that renders the whole history again would lose its prefix.
What a template does that no delta can follow is refused here, before anything is sent.
"""

from .call_form import CallForm
from .certificate import Boundary, BoundaryName, Break, Certificate, Kept, Mode, ReasoningForm, Switch, Verdict
from .certify import certify_template
from .disguise import Disguise
from .sentinels import AFTER_TEXT, SENTINEL, Cut, after_past, result_message, text_base, with_sentinel

__all__ = [
    "AFTER_TEXT",
    "SENTINEL",
    "Boundary",
    "BoundaryName",
    "Break",
    "CallForm",
    "Certificate",
    "Cut",
    "Disguise",
    "Kept",
    "Mode",
    "ReasoningForm",
    "Switch",
    "Verdict",
    "after_past",
    "certify_template",
    "result_message",
    "text_base",
    "with_sentinel",
]
