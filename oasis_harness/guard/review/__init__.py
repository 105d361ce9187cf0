"""Prompts checked, recorded, signed and billed, for a test run and for a command alike.

The plugin and the command only hand over what to check and print what comes back.
"""

from typing import TYPE_CHECKING

from oasis_harness.doors import lazy_door

if TYPE_CHECKING:
    from .audit import AuditReport as AuditReport
    from .audit import Unsigned as Unsigned
    from .audit import audit_prompts as audit_prompts
    from .checker import Checker as Checker
    from .checker import Remedies as Remedies
    from .ci import is_ci as is_ci
    from .parts import CostRow as CostRow
    from .parts import Trade as Trade
    from .parts import compare as compare
    from .parts import costs_of as costs_of
    from .review import Bill as Bill
    from .review import Checked as Checked
    from .review import Part as Part
    from .review import Review as Review
    from .run_summary import RunSummary as RunSummary
else:
    __all__, __getattr__, __dir__ = lazy_door(
        __name__,
        {
            "AuditReport": ".audit",
            "Bill": ".review",
            "Checked": ".review",
            "Checker": ".checker",
            "CostRow": ".parts",
            "Part": ".review",
            "Remedies": ".checker",
            "Review": ".review",
            "RunSummary": ".run_summary",
            "Trade": ".parts",
            "Unsigned": ".audit",
            "audit_prompts": ".audit",
            "compare": ".parts",
            "costs_of": ".parts",
            "is_ci": ".ci",
        },
    )
