"""`mode: paper`, or --paper: the paper's own algorithm, on a parameter file that may say otherwise.

Full posteriors, both layers at once, summed mini-batches, the starts of Appendix B.2, and neither a tolerance nor a
greedy start: these values are declared with each parameter. What differs between experiments (the size of mini-batches,
2000 iterations for one label per class, where the stopping criterion is used) is in the section `paper` of a parameter
file, which takes the place of its `overrides`.
"""

from typing import Any

from nesi.config.declaration import values_of_the_paper
from nesi.config.parameters import ExperimentParameters, PaperSettings

AUTHORS_BATCH_SIZE = 25  # in the authors' configurations for images; those for texts have 10, and say so


def is_paper_mode(content: dict[Any, Any]) -> bool:
    return content.get("mode") == "paper"


def with_the_papers_algorithm(content: dict[Any, Any]) -> dict[Any, Any]:
    """The content of a parameter file as it is with `mode: paper`. Doing it twice changes nothing more."""
    given = content.get("paper")
    fixed = {**values_of_the_paper(ExperimentParameters), "batch_size": AUTHORS_BATCH_SIZE, "overrides": []}
    return {**content, **fixed, **(given if isinstance(given, dict) else {})}


def belongs_to_the_section(key: str) -> bool:
    """Whether a change of this key has to be said in the section `paper` as well, to hold in paper mode."""
    return key in PaperSettings.model_fields
