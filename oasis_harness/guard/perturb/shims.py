"""What a process can be made to believe about its machine: folder order, line ends, locale and host name.

Each function replaces some of the standard library in this process. Out of reach are child processes, C code that
asks the system itself, and files read past `open` (`os.open`, `mmap`, `pkgutil.get_data`).
"""

import builtins
import io
import locale
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["install_crlf", "install_host", "install_listing", "install_locale"]

_LOOKED_AT = 8000
"""Bytes in which git, too, looks for a NUL before it takes a file for text."""

_GERMAN = {"decimal_point": ",", "thousands_sep": ".", "grouping": [3, 3, 0]}
_DAYS = ("Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag")
_MONTHS = (
    "Januar",
    "Februar",
    "März",
    "April",
    "Mai",
    "Juni",
    "Juli",
    "August",
    "September",
    "Oktober",
    "November",
    "Dezember",
)


def install_listing(order: str) -> None:
    """List folders `sorted`, `reversed`, `shuffled` (by checksum) or `folded` (without regard to case)."""
    real_listdir, real_scandir = os.listdir, os.scandir

    def listdir(*path: Any) -> list[Any]:
        return _ordered(real_listdir(*path), order, lambda name: name)

    def scandir(*path: Any) -> "_Entries":
        with real_scandir(*path) as entries:
            return _Entries(_ordered(list(entries), order, lambda entry: entry.name))

    # A static method, like a built-in function, does not bind where a class holds it.
    vars(os).update(listdir=staticmethod(listdir), scandir=staticmethod(scandir))


def _ordered(entries: list[Any], order: str, name_of: Callable[[Any], Any]) -> list[Any]:
    def name(entry: Any) -> str:
        return os.fsdecode(name_of(entry))

    plain = sorted(entries, key=name)
    match order:
        case "reversed":
            return plain[::-1]
        case "folded":
            return sorted(plain, key=lambda entry: name(entry).casefold())
        case "shuffled":
            shuffled = sorted(plain, key=lambda entry: zlib.crc32(os.fsencode(name(entry))))
            return plain[::-1] if shuffled == plain else shuffled
    return plain


class _Entries:
    """An iterator of folder entries that is used like that of `os.scandir`."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> "_Entries":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


def install_crlf(project: str) -> None:
    """Hand out the text files below the folder `project` with CRLF line ends, to whoever reads them with `open`.

    Source code that is imported is not touched: Python reads both line ends as one. Nor is an environment installed
    inside the project, which no checkout rewrites; a .gitattributes is not read.
    """
    real = open
    inside = os.path.join(os.path.realpath(project), "")  # noqa: PTH118 - pathlib costs every child its import
    outside = [os.path.join(inside, ".git", "")]  # noqa: PTH118
    if sys.prefix.startswith(inside):
        outside.append(os.path.join(sys.prefix, ""))  # noqa: PTH118

    def is_ours(file: object) -> bool:
        if not isinstance(file, str | bytes | os.PathLike):
            return False
        path = os.path.realpath(os.fsdecode(file))
        return path.startswith(inside) and not path.startswith(tuple(outside)) and os.path.isfile(path)  # noqa: PTH113

    def crlf_open(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        reads = "r" in mode and "+" not in mode and len(args) < 6 and options.get("opener") is None
        return (
            real(file, mode, *args, **options | {"opener": _open_crlf})
            if reads and is_ours(file)
            else real(file, mode, *args, **options)
        )

    vars(builtins)["open"] = vars(io)["open"] = staticmethod(crlf_open)


def _open_crlf(path: str, flags: int) -> int:
    """Open a nameless copy of the file with CRLF line ends, or the file itself where it is no text."""
    source = os.open(path, flags)
    with os.fdopen(os.dup(source), "rb") as stream:
        data = stream.read()
    os.lseek(source, 0, os.SEEK_SET)
    if b"\0" in data[:_LOOKED_AT] or b"\n" not in data:
        return source
    os.close(source)
    import tempfile

    copy, name = tempfile.mkstemp()
    os.unlink(name)  # noqa: PTH108
    with os.fdopen(os.dup(copy), "wb") as stream:
        stream.write(data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))
    os.lseek(copy, 0, os.SEEK_SET)
    return copy


def install_locale() -> None:
    """Make the user's locale German where the system has no such locale: its `setlocale` imitates one.

    Imitated are numbers (`localeconv`), sorting without regard to case, and the names of days and months in
    `strftime`. The format `n` is not.
    """
    real, before = locale.setlocale, locale.setlocale(locale.LC_ALL)
    try:
        real(locale.LC_ALL, "")
    except locale.Error:
        vars(locale)["setlocale"] = staticmethod(_german(real))
    else:
        real(locale.LC_ALL, before)


def _german(real: Callable[..., str]) -> Callable[..., str]:
    real_conventions, real_strftime = locale.localeconv, time.strftime

    def strftime(form: str, moment: Any = None) -> str:
        moment = time.localtime() if moment is None else moment
        day, month = _DAYS[moment[6]], _MONTHS[moment[1] - 1]
        words = {"%c": "%a %d %b %Y %T", "%x": "%d.%m.%Y", "%A": day, "%a": day[:2], "%B": month, "%b": month[:3]}
        for code, word in words.items():
            form = form.replace(code, word)
        return real_strftime(form, moment)

    def setlocale(relation: int, name: Any = None) -> str:
        if name != "":
            return real(relation, name)
        vars(locale).update(
            localeconv=lambda: real_conventions() | _GERMAN,
            strxfrm=str.casefold,
            strcoll=lambda one, other: (one.casefold() > other.casefold()) - (one.casefold() < other.casefold()),
        )
        vars(time)["strftime"] = staticmethod(strftime)
        return "de_DE.UTF-8"

    return setlocale


def install_host(name: str) -> None:
    """Let this machine be called `name`."""
    import socket

    real = os.uname()
    there = os.uname_result((real.sysname, name, real.release, real.version, real.machine))
    vars(os)["uname"] = staticmethod(lambda: there)
    vars(socket).update(gethostname=staticmethod(lambda: name), getfqdn=staticmethod(lambda host="": host or name))
