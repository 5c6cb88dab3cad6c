"""What goes wrong in ways a user can mend."""


class NesiError(ValueError):
    """One sentence that says what was given, what was expected and what to do."""


class TrainingFailed(NesiError):
    """The weights became useless (NaN or negative); there is no result to return."""
