"""The ways in which one machine differs from another, or one moment from the next, as constants.

Each variation is one change to `PLAIN`, the surroundings every head is first rendered in. What a process is started
with (environment, folder, umask) the parent sets; the rest the child installs before it loads the target (`shims`).
"""

from dataclasses import dataclass, replace
from enum import StrEnum

__all__ = ["ALL", "PLAIN", "Listing", "Variation", "VariationKind"]


class VariationKind(StrEnum):
    """What kind of difference it is."""

    RANDOM = "random"
    ORDER = "order"
    CLOCK = "clock"
    LOCALE = "locale"
    PATH = "path"
    ENVIRONMENT = "environment"
    LINE_ENDS = "line ends"


class Listing(StrEnum):
    """The order in which folders are listed."""

    SORTED = "sorted"
    REVERSED = "reversed"
    SHUFFLED = "shuffled"
    FOLDED = "folded"
    """Upper and lower case mixed, as on macOS and Windows."""


@dataclass(frozen=True, slots=True)
class Variation:
    """One set of surroundings."""

    name: str
    kind: VariationKind
    environment: tuple[tuple[str, str], ...] = ()
    """Variables by name; `{elsewhere}` stands for an empty folder."""
    is_elsewhere: bool = False
    """Whether it runs in that empty folder instead of the caller's working directory."""
    umask: int = 0o022
    listing: Listing = Listing.SORTED
    clock_s: int = 0
    """Seconds by which the clock is ahead of Monday, 3 March 2025, 23:59:00 UTC."""
    has_crlf: bool = False
    """Whether the text files of the project end their lines in CRLF."""
    is_reversed: bool = False
    """Whether optional tools connect in the opposite order."""
    is_foreign: bool = False
    """Whether the locale is imitated where the one that is asked for is not installed."""
    host: str = ""
    """Name of the machine; the real one where empty."""


PLAIN = Variation(
    "plain",
    VariationKind.RANDOM,
    (
        ("PYTHONHASHSEED", "0"),
        ("TZ", "UTC"),
        ("LC_ALL", "C.UTF-8"),
        ("LANG", "C.UTF-8"),
        ("LANGUAGE", ""),
        ("COLUMNS", "80"),
        ("LINES", "24"),
    ),
)
_HOME = ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TMPDIR")
_USER = ("USER", "LOGNAME", "USERNAME")
_GERMAN = (("LC_ALL", "de_DE.UTF-8"), ("LANG", "de_DE.UTF-8"), ("LANGUAGE", "de"))
_ASCII = (("LC_ALL", "POSIX"), ("LANG", "C"), ("PYTHONUTF8", "0"), ("PYTHONCOERCECLOCALE", "0"))
_SHORT_TERMINAL = (("COLUMNS", "17"), ("LINES", "5"), ("TERM", "dumb"), ("NO_COLOR", "1"))

ALL = (
    replace(PLAIN, name="again", environment=()),
    *(Variation(f"hash seed {seed}", VariationKind.ORDER, (("PYTHONHASHSEED", str(seed)),)) for seed in (1, 2, 3, 4)),
    Variation("folders reversed", VariationKind.ORDER, listing=Listing.REVERSED),
    Variation("folders shuffled", VariationKind.ORDER, listing=Listing.SHUFFLED),
    Variation("folders without case", VariationKind.ORDER, listing=Listing.FOLDED),
    Variation("reconnect order", VariationKind.ORDER, is_reversed=True),
    Variation("17 seconds later", VariationKind.CLOCK, clock_s=17),
    Variation("across midnight", VariationKind.CLOCK, clock_s=120),
    Variation("another day", VariationKind.CLOCK, clock_s=403 * 86400),
    Variation("time zone", VariationKind.CLOCK, (("TZ", "Asia/Kathmandu"),)),
    Variation("locale", VariationKind.LOCALE, _GERMAN, is_foreign=True),
    Variation("ASCII locale", VariationKind.LOCALE, _ASCII),
    Variation("working directory", VariationKind.PATH, is_elsewhere=True),
    Variation("home", VariationKind.PATH, tuple((name, "{elsewhere}") for name in _HOME)),
    Variation("user", VariationKind.ENVIRONMENT, tuple((name, "somebody-else") for name in _USER)),
    Variation("host", VariationKind.ENVIRONMENT, (("HOSTNAME", "other-host"),), host="other-host"),
    Variation("terminal", VariationKind.ENVIRONMENT, _SHORT_TERMINAL),
    Variation("umask", VariationKind.ENVIRONMENT, umask=0o077),
    Variation("CRLF checkout", VariationKind.LINE_ENDS, has_crlf=True),
)
"""Every variation, in the order they are told; `again` changes nothing and finds what is another in every process."""
