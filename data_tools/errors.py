"""Errors about data, in words a user can act on."""


class DataError(ValueError):
    """One sentence that says what was given, what was expected and what to do, naming the file."""


class NoLabels(DataError):
    """Nothing in the data says which class a point belongs to, nor which classes there are."""


def nearest(given: str, known: list[str] | tuple[str, ...]) -> str:
    """` (did you mean "mnist"?)` if one of the known words is close, else nothing."""
    import difflib

    beginnings = [word for word in known if given and word.startswith(given)]
    close = beginnings[:1] or difflib.get_close_matches(given, known, n=1, cutoff=0.5)
    return f' (did you mean "{close[0]}"?)' if close else ""


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """`1 point`, `2 points`."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
