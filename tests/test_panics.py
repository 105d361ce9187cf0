"""A panic of a Rust library is an error like others."""

import pytest
import tokenizers

from oasis_harness.panics import is_panic, without_panics

PANICS = (
    '{"version":"1.0","model":{"type":"BPE","vocab":{"a":0,"b":1},"continuing_subword_prefix":"##",'
    '"merges":[["a","b"]]}}'
)


def test_a_panic_is_an_error_with_the_library_s_own_words() -> None:
    """It would have passed every `except Exception`."""
    with pytest.raises(RuntimeError, match=r"the library panicked: .*index") as raised:
        without_panics(lambda: tokenizers.Tokenizer.from_str(PANICS))
    assert is_panic(raised.value.__cause__ or raised.value) and not is_panic(raised.value)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), ValueError("x")])
def test_other_endings_pass_as_they_are(error: BaseException) -> None:
    """An interrupt is no defect of a library."""

    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        without_panics(fail)
    assert raised.value is error
