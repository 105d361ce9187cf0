"""The pages of docs/ are all in the site's navigation, and those of doors list the names that the doors have.

Doors are lazy, so the site cannot read what they offer: each page of docs/api says it, and is compared here. Nothing of
this needs mkdocs; `.ci/run` builds the site.
"""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import yaml

import oasis_harness

from .test_public_api import DOORS

ROOT = Path(__file__).parents[1]
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def page_of(room: str) -> str:
    """Return the page of a room's or a wing's door, beneath docs/."""
    return f"api/{room.replace('.', '/')}.md"


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def pages(nav: object) -> Iterator[str]:
    """Yield every page of a navigation, however deep it stands."""
    match nav:
        case str(page):
            yield page
        case list(entries):
            for entry in entries:
                yield from pages(entry)
        case dict(titled):
            yield from pages(list(titled.values()))


def shown(page: str) -> dict[str, list[str]]:
    """Return the names that each `:::` block of a page lists, by module."""
    blocks = re.findall(r"^::: ([\w.]+)\n((?:    .*\n)*)", page, flags=re.MULTILINE)
    return {module: yaml.safe_load(options)["options"]["members"] for module, options in blocks}


def test_every_page_is_in_the_navigation_once() -> None:
    """A new decision is a new line in mkdocs.yml."""
    files = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(pages(SITE["nav"])) == sorted(files)


@pytest.mark.parametrize("room", [*DOORS, "errors"])
def test_a_page_shows_every_name_of_its_door(room: str) -> None:
    """No more, no less, and in the same order."""
    assert shown(text_of(page_of(room))) == {f"oasis_harness.{room}": import_module(f"oasis_harness.{room}").__all__}


def test_the_front_door_names_the_page_of_each_of_its_names() -> None:
    """Each link leads to the room that the name comes from."""
    links = re.findall(r"\[`(\w+)`\]\[oasis_harness\.(\w+)\.(\w+)\]", text_of("api/index.md"))
    assert all(name == target for name, _, target in links)
    assert {name: room for name, room, _ in links} == oasis_harness._ROOMS


def test_a_missing_page_or_name_would_be_seen() -> None:
    """The comparisons above have something to compare."""
    nav = ["index.md", {"Deep": [{"Deeper": "a.md"}, "b.md"]}]
    assert list(pages(nav)) == ["index.md", "a.md", "b.md"]
    block = "# room\n\n::: package.room\n    options:\n      members:\n        - Name\n"
    assert shown(block) == {"package.room": ["Name"]}


def test_the_site_loads_nothing_from_elsewhere() -> None:
    """The theme would fetch its fonts from another host."""
    assert SITE["theme"]["font"] is False
    assert not {"extra_css", "extra_javascript", "site_url"} & set(SITE)
