"""Numbers of things in words; a room of its own, since pages of reports load nothing of a terminal."""


def counted(number: int, one: str, many: str = "") -> str:
    """A number of things: `1 window`, `2 windows`; `many` where it is more than another letter."""
    return f"{number} {one if number == 1 else many or one + 's'}"
