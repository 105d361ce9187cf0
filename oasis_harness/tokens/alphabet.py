"""GPT-2's byte alphabet: a printable stand-in for each of the 256 byte values, as vocabularies spell their pieces.

Idea: https://github.com/openai/gpt-2/blob/master/src/encoder.py (`bytes_to_unicode`).
"""

from functools import cache

__all__ = ["byte_alphabet"]


@cache
def byte_alphabet() -> dict[str, int]:
    """Return the byte value of each stand-in; printable Latin-1 stands for itself, the rest from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}
