"""Which caches can be forked and rewound, held against what mlx-lm's classes really do."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    RotatingKVCache,
)

from oasis_harness.embedded.adapters import fork_cache, rewind_cache

from .tiny import FAMILIES, tiny_model


def keys(n: int, start: int = 0) -> mx.array:
    return mx.arange(start, start + n, dtype=mx.float32).reshape(1, 1, n, 1)


def filled(layer: Any, n: int) -> Any:
    layer.update_and_fetch(keys(n), keys(n))
    return layer


def test_a_plain_cache_rewinds_and_goes_on() -> None:
    """After dropping three and adding two, exactly the right keys are there."""
    layer = filled(KVCache(), 10)
    assert rewind_cache([layer], 3)
    held, _ = layer.update_and_fetch(keys(2, 100), keys(2, 100))
    assert held.flatten().tolist() == [*range(7), 100, 101]


def test_a_wrapped_rotating_cache_does_not_rewind() -> None:
    """mlx-lm's trim would succeed and corrupt it; before the wrap it is fine."""
    assert rewind_cache([filled(RotatingKVCache(max_size=16), 10)], 3)
    wrapped = filled(RotatingKVCache(max_size=16), 20)
    offset = wrapped.offset
    assert not rewind_cache([wrapped], 3)
    assert wrapped.offset == offset


@pytest.mark.parametrize(
    "layer", [ArraysCache(2), filled(ChunkedKVCache(8), 4), filled(ConcatenateKVCache(), 4), object()]
)
def test_classes_whose_trim_lies_are_never_trimmed(layer: Any) -> None:
    """Recurrent, chunked, concatenating and unknown caches stay as they are, whatever they claim."""
    assert not rewind_cache([layer], 1)


def test_one_layer_that_cannot_leaves_all_untouched() -> None:
    """A hybrid's plain layers must not be cut when its recurrent ones cannot."""
    plain = filled(KVCache(), 10)
    assert not rewind_cache([plain, ArraysCache(2)], 4)
    assert not rewind_cache([CacheList(plain, ArraysCache(2))], 4)
    assert plain.offset == 10


def test_rewinding_by_nothing_or_too_much() -> None:
    """Zero always works, more than there is never does."""
    assert rewind_cache([ArraysCache(2)], 0)
    assert not rewind_cache([filled(KVCache(), 3)], 4)


def test_a_class_that_trims_less_than_it_says_is_caught() -> None:
    """A layer that drops fewer tokens than asked raises; its cache is never used again."""

    class Short(KVCache):  # type: ignore[misc]  # mlx-lm ships no types
        def trim(self, n: int) -> int:
            return int(super().trim(n - 1))

    layer = filled(KVCache(), 10)
    layer.__class__ = type("KVCache", (Short,), {})
    assert not rewind_cache([layer], 3)  # another class of that name is not trusted at all
    layer.__class__ = KVCache
    layer.trim = lambda n: n - 1
    with pytest.raises(RuntimeError, match="dropped"):
        rewind_cache([layer], 3)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_fork_and_its_trunk_do_not_see_each_other(family: str) -> None:
    """Grown differently after the fork, each gives the logits of a cache that was alone."""
    model = tiny_model(family)
    start, one, other = mx.array([[5, 6, 7, 8] * 6]), mx.array([[9, 10, 11]]), mx.array([[40, 41, 42]])

    def alone(tail: mx.array) -> Any:
        cache = model.make_cache() if hasattr(model, "make_cache") else [KVCache() for _ in model.layers]
        model(start, cache=cache)
        return np.array(model(tail, cache=cache))

    live = model.make_cache() if hasattr(model, "make_cache") else [KVCache() for _ in model.layers]
    model(start, cache=live)
    branch = fork_cache(live)
    assert branch is not None
    assert np.array_equal(np.array(model(other, cache=branch)), alone(other))
    assert np.array_equal(np.array(model(one, cache=live)), alone(one))


def test_an_unknown_class_is_not_forked() -> None:
    """Live reuse still works for it; a fork starts cold."""
    assert fork_cache([filled(KVCache(), 3), object()]) is None
    private = filled(type("Private", (KVCache,), {})(), 3)
    assert fork_cache([CacheList(filled(KVCache(), 3), private)]) is None
    assert fork_cache([CacheList(CacheList(private))]) is None


def test_a_list_of_known_classes_is_forked() -> None:
    """Each child gets its own second handles."""
    live = CacheList(filled(KVCache(), 3), CacheList(filled(KVCache(), 5)))
    branch = fork_cache([live])
    assert branch is not None
    filled(live.caches[0], 4)
    assert [branch[0].caches[0].offset, branch[0].caches[1].caches[0].offset] == [3, 5]
