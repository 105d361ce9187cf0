"""What mlx-lm's cache classes can really do: fork by handle, and rewind.

`mx.array(x)` is a second handle on the same buffer that copies on the first write, so a fork costs nothing until it
grows; `copy.copy` of a cache is not safe. Rewinding is allowed only to classes whose `trim` was checked to do what it
says: a rotating cache that has wrapped, a recurrent state, a chunked or a concatenating cache cannot, whatever
`is_trimmable` answers. One layer that cannot voids it for all. Measured on mlx-lm 0.32.2; see docs/decisions.
"""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import ArraysCache, CacheList, ChunkedKVCache, KVCache, QuantizedKVCache, RotatingKVCache

__all__ = ["fork_cache", "rewind_cache"]

Cache = list[Any]
"""One cache object a layer, as mlx-lm makes them; mlx-lm ships no types."""

_REBUILT_FROM_STATE = (KVCache, QuantizedKVCache, RotatingKVCache, ArraysCache, ChunkedKVCache, CacheList)
"""Classes of which `from_state` gives an exact second one; a list, if all its children are such."""


def fork_cache(cache: Cache) -> Cache | None:
    """Return a cache that shares every buffer with `cache`, or None if a layer is of an unknown class."""
    if not all(_can_fork(layer) for layer in cache):
        return None
    return [type(layer).from_state(_second_handle(layer.state)) for layer in cache]


def rewind_cache(cache: Cache, n_tokens: int) -> bool:
    """Drop the last `n_tokens` of every layer, or change nothing.

    Returns False where a layer cannot; raises RuntimeError where a class trimmed less than it promised.
    """
    if n_tokens == 0:
        return True
    if not all(_can_rewind(layer, n_tokens) for layer in cache):
        return False
    trimmed = [_trim(layer, n_tokens) for layer in cache]
    if any(count != n_tokens for count in trimmed):
        raise RuntimeError(f"asked every layer to drop {n_tokens} tokens, they dropped {sorted(set(trimmed))}")
    return True


def _can_fork(layer: Any) -> bool:
    children = layer.caches if type(layer) is CacheList else ()
    return type(layer) in _REBUILT_FROM_STATE and all(_can_fork(child) for child in children)


def _can_rewind(layer: Any, n_tokens: int) -> bool:
    if type(layer) is CacheList:
        return all(_can_rewind(child, n_tokens) for child in layer.caches)
    if type(layer) is RotatingKVCache:
        return bool(n_tokens <= layer.offset < layer.max_size)
    return type(layer) in (KVCache, QuantizedKVCache) and bool(layer.offset >= n_tokens)


def _trim(layer: Any, n_tokens: int) -> int:
    if type(layer) is CacheList:
        return min(_trim(child, n_tokens) for child in layer.caches)
    count: int = layer.trim(n_tokens)
    return count


def _second_handle(state: Any) -> Any:
    if isinstance(state, mx.array):
        return mx.array(state)
    if isinstance(state, Sequence) and not isinstance(state, str):
        return type(state)(_second_handle(item) for item in state)  # type: ignore[call-arg]  # list or tuple
    return state
