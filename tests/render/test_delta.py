"""Deltas: what is sent grows into exactly what the template would have printed for the whole conversation."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .talk import Driver, dialect, talks
from .templates import EXTENDING, Family

families = pytest.mark.parametrize("family", EXTENDING, ids=repr)


@families
@given(st.data())
def test_deltas_add_up_to_the_templates_own_render(family: Family, data: st.DataObject) -> None:
    driver = Driver(dialect(family), family, data.draw(talks(family)))
    assert driver.sent.decode() == driver.own_render()
