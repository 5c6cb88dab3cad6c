"""What goes wrong in ways that a user can fix."""


class NesiError(ValueError):
    """One sentence that says what was given, what was expected and what to do."""


class TrainingFailed(NesiError):
    """The weights became useless (NaN or negative); there is no result to return."""


def one_line(text: str) -> str:
    """Names from a file may hold anything: control characters must not reach the terminal."""
    return "".join(character if character.isprintable() else "?" for character in " ".join(text.split()))
