"""The ways in which one machine differs from another, or one moment from the next, as constants.

Each variation is one change to `PLAIN`, the surroundings every head is first rendered in. What a process is started
with (environment, folder, umask) the parent sets; the rest the child installs before it loads the target (`shims`).
"""

from dataclasses import dataclass, replace
from enum import StrEnum

__all__ = ["ALL", "PLAIN", "Kind", "Listing", "Variation"]


class Kind(StrEnum):
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
    kind: Kind
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
    Kind.RANDOM,
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
    *(Variation(f"hash seed {seed}", Kind.ORDER, (("PYTHONHASHSEED", str(seed)),)) for seed in (1, 2, 3, 4)),
    Variation("folders reversed", Kind.ORDER, listing=Listing.REVERSED),
    Variation("folders shuffled", Kind.ORDER, listing=Listing.SHUFFLED),
    Variation("folders without case", Kind.ORDER, listing=Listing.FOLDED),
    Variation("reconnect order", Kind.ORDER, is_reversed=True),
    Variation("17 seconds later", Kind.CLOCK, clock_s=17),
    Variation("across midnight", Kind.CLOCK, clock_s=120),
    Variation("another day", Kind.CLOCK, clock_s=403 * 86400),
    Variation("time zone", Kind.CLOCK, (("TZ", "Asia/Kathmandu"),)),
    Variation("locale", Kind.LOCALE, _GERMAN, is_foreign=True),
    Variation("ASCII locale", Kind.LOCALE, _ASCII),
    Variation("working directory", Kind.PATH, is_elsewhere=True),
    Variation("home", Kind.PATH, tuple((name, "{elsewhere}") for name in _HOME)),
    Variation("user", Kind.ENVIRONMENT, tuple((name, "somebody-else") for name in _USER)),
    Variation("host", Kind.ENVIRONMENT, (("HOSTNAME", "other-host"),), host="other-host"),
    Variation("terminal", Kind.ENVIRONMENT, _SHORT_TERMINAL),
    Variation("umask", Kind.ENVIRONMENT, umask=0o077),
    Variation("CRLF checkout", Kind.LINE_ENDS, has_crlf=True),
)
"""Every variation, in the order they are told; `again` changes nothing and finds what is another in every process."""
