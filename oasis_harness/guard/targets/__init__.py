"""What a prompt is taken of: a function named on a command line, what it returns, and the dialects it is rendered in.

Nothing here renders or compares. What heavy libraries a dialect needs is loaded when it is asked for.
"""

from typing import TYPE_CHECKING

from oasis_harness.doors import lazy_door

if TYPE_CHECKING:
    from .bodies import chat_of as chat_of
    from .bodies import tool_objects as tool_objects
    from .dialects import CHATML as CHATML
    from .dialects import Dialects as Dialects
    from .dialects import Given as Given
    from .dialects import Spoken as Spoken
    from .functions import call_target as call_target
    from .functions import load_target as load_target
    from .functions import subject_of as subject_of
    from .subjects import Subject as Subject
else:
    __all__, __getattr__, __dir__ = lazy_door(
        __name__,
        {
            "CHATML": ".dialects",
            "Dialects": ".dialects",
            "Given": ".dialects",
            "Spoken": ".dialects",
            "Subject": ".subjects",
            "call_target": ".functions",
            "chat_of": ".bodies",
            "load_target": ".functions",
            "subject_of": ".functions",
            "tool_objects": ".bodies",
        },
    )
