"""What the other examples read."""


def add(a: int, b: int) -> int:
    """Return the sum of two numbers."""
    return a + b
