"""A chat template as a pure, bounded function of its messages.

It renders the bytes that its model's own library would, in a sandbox it can neither reach out of nor run away in.
Nothing here knows what a template means; `certify` finds that out. The clock, the environment, the locale and anything
random are never read.
"""

from .budget import STEPS
from .quoting import is_verbatim, quoting_of
from .template import USUAL_VARIABLES, GenerationTag, Message, Shape, Template, text_of

__all__ = [
    "STEPS",
    "USUAL_VARIABLES",
    "GenerationTag",
    "Message",
    "Shape",
    "Template",
    "is_verbatim",
    "quoting_of",
    "text_of",
]
