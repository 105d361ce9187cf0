"""Schema bytes are the same under every release of pydantic that is allowed.

`schemas.json` holds them; CI compares under the oldest release and the newest.
"""

import dataclasses
import datetime
import decimal
import enum
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from pydantic import BaseModel, Field

from oasis_harness.registry.schema import _tidy, describe

RECORDED: dict[str, object] = json.loads((Path(__file__).parent / "schemas.json").read_text(encoding="utf-8"))


class One(enum.Enum):
    A = "a"


class Number(enum.IntEnum):
    X = 1


class Two(enum.Enum):
    A = "a"
    B = "b"


@dataclasses.dataclass
class Point:
    x: int
    y: str = "q"


class Box(BaseModel):
    inside: dict[str, Any]
    n: int = 0


class Closed(BaseModel):
    model_config = {"extra": "forbid"}
    a: int


class Cat(BaseModel):
    kind: Literal["cat"]
    a: int


class Dog(BaseModel):
    kind: Literal["dog"]
    b: int


class Nested(BaseModel):
    box: Box
    cats: list[Cat]


class Row(NamedTuple):
    a: int
    b: str


ANNOTATIONS: dict[str, Any] = {
    "dict": dict,
    "dict of any": dict[str, Any],
    "dict of int": dict[str, int],
    "one literal": Literal["a"],
    "one number": Literal[1],
    "true": Literal[True],
    "two literals": Literal["a", "b"],
    "one literal or null": Literal["a"] | None,
    "decimal": decimal.Decimal,
    "enum of one": One,
    "numbers of one": Number,
    "enum of two": Two,
    "discriminated": Annotated[Cat | Dog, Field(discriminator="kind")],
    "dataclass": Point,
    "model with a dict": Box,
    "closed model": Closed,
    "models in models": Nested,
    "named tuple": Row,
    "list of dicts": list[dict[str, Any]],
    "dict or null": dict[str, Any] | None,
    "tuple": tuple[int, str],
    "set": set[int],
    "date": datetime.date,
    "bounded": Annotated[int, Field(ge=1, le=5)],
    "own pattern": float | Annotated[str, Field(pattern="^a")],
    "any": Any,
}


def tool(annotation: object) -> Callable[..., object]:
    def takes(x: object) -> None:
        """Take it."""

    takes.__annotations__["x"] = annotation
    return takes


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_the_schema_is_the_recorded_one(name: str) -> None:
    """To the byte: the order of its keywords too."""
    found = describe(tool(ANNOTATIONS[name])).parameters
    assert json.dumps(found) == json.dumps(RECORDED[name])


def test_every_record_is_compared() -> None:
    """No record stands unused."""
    assert list(RECORDED) == list(ANNOTATIONS)


@pytest.mark.parametrize(
    "forms",
    [
        [{"type": "object"}, {"type": "object", "additionalProperties": True}],
        [{"type": "string", "const": "a"}, {"type": "string", "const": "a", "enum": ["a"]}],
        [
            {"type": "integer", "const": 1},
            {"type": "integer", "enum": [1]},
            {"type": "integer", "enum": [1], "const": 1},
        ],
        [{"type": "string"}, {"type": "string", "pattern": "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$"}],
        [
            {"type": "object", "properties": {"x": {"type": "integer"}}},
            {"type": "object", "properties": {"x": {"type": "integer"}}, "additionalProperties": False},
        ],
    ],
    ids=["dict", "literal", "enum", "decimal", "dataclass"],
)
def test_what_releases_write_differently_is_written_in_one_way(forms: list[dict[str, object]]) -> None:
    """What pydantic 2.9 to 2.14 make of the same annotation."""
    assert len({json.dumps(_tidy(form)) for form in forms}) == 1


def test_what_an_author_wrote_stays() -> None:
    """A pattern of one's own, a schema of the other members, an enum of two."""
    for form in (
        {"type": "string", "pattern": "^a"},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "string", "enum": ["a", "b"]},
    ):
        assert _tidy(form) == form
