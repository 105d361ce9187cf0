"""`strftime` of one frozen date: midnight, in English, whatever the machine's clock, locale and time zone."""

import datetime
import re

__all__ = ["format_date"]

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_COMPOSED = {
    "D": "%m/%d/%y",
    "F": "%Y-%m-%d",
    "R": "%H:%M",
    "T": "%H:%M:%S",
    "X": "%H:%M:%S",
    "c": "%a %b %e %H:%M:%S %Y",
    "h": "%b",
    "x": "%m/%d/%y",
}


def format_date(date: datetime.date, form: str) -> str:
    """Return `date` in `form`, as C's `strftime` in the C locale; `%-d` has no padding.

    Raises:
        ValueError: A directive that does not exist, or that tells a time zone.
    """
    return re.sub("%(-?)([A-Za-z%])", lambda match: _directive(date, match[2], is_bare=bool(match[1])), form)


def _directive(date: datetime.date, letter: str, *, is_bare: bool) -> str:
    if letter in _COMPOSED:
        return format_date(date, _COMPOSED[letter])
    text = _NUMBERS.get(letter, lambda date: _words(date).get(letter))(date)
    if text is None:
        raise ValueError(f"%{letter} tells nothing of a frozen date")
    return text.lstrip("0 ") or text[-1:] if is_bare else text


def _words(date: datetime.date) -> dict[str, str]:
    day, month = _DAYS[date.weekday()], _MONTHS[date.month - 1]
    return {"A": day, "a": day[:3], "B": month, "b": month[:3], "p": "AM", "%": "%", "n": "\n", "t": "\t"}


_NUMBERS = {
    "G": lambda date: f"{date.isocalendar().year}",
    "H": lambda date: "00",
    "I": lambda date: "12",
    "M": lambda date: "00",
    "S": lambda date: "00",
    "U": lambda date: f"{(date.timetuple().tm_yday + 6 - (date.weekday() + 1) % 7) // 7:02d}",
    "V": lambda date: f"{date.isocalendar().week:02d}",
    "W": lambda date: f"{(date.timetuple().tm_yday + 6 - date.weekday()) // 7:02d}",
    "Y": lambda date: f"{date.year}",
    "d": lambda date: f"{date.day:02d}",
    "e": lambda date: f"{date.day:2d}",
    "f": lambda date: "000000",
    "j": lambda date: f"{date.timetuple().tm_yday:03d}",
    "m": lambda date: f"{date.month:02d}",
    "u": lambda date: f"{date.isoweekday()}",
    "w": lambda date: f"{date.isoweekday() % 7}",
    "y": lambda date: f"{date.year % 100:02d}",
}
