"""How a cell differs from the paper: in its algorithm, or in its settings.

What the paper's algorithm has whatever the experiment is declared with each parameter; what depends on the experiment
(free parameters, size of mini-batches, iterations, where the stopping criterion is used) is in `published.yaml`.
"""

from __future__ import annotations

from typing import Any

from nesi.config.declaration import meanings, values_of_the_paper
from nesi.config.parameters import ExperimentParameters
from nesi.networks import get_network, training_phases
from nesi.report.published import PublishedCell, PublishedExperiment
from nesi.storage.records import Record

THE_PAPERS, OTHER_SETTINGS, OTHER_ALGORITHM = "the paper's", "other settings", "other algorithm"
_NOT_STARTS = (None, "auto")
# The free parameters, and what is no part of the algorithm; everything else is.
_SETTINGS = {"C", "committee", "A", "epsilon_W", "epsilon_R", "threshold", "training points", "test points"}
# What a record leaves out because it is at its default.
_DEFAULTS = {
    key: ExperimentParameters.model_fields[key].default
    for key, meaning in meanings(ExperimentParameters).items()
    if meaning.recorded == "unless default"
}
_MATTERS_IF = {"stopping_width": "stopping", "iterations_R": "greedy"}


def differences(
    records: list[Record], experiment: PublishedExperiment, paper: PublishedCell
) -> dict[str, tuple[Any, Any]]:
    """Key -> (ours, the paper's), for runs of one cell."""
    first = records[0]
    ours = {**_DEFAULTS, **first["settings"], **_starts(first)}
    wanted = {key: value for key, value in values_of_the_paper(ExperimentParameters).items() if key in ours}
    wanted |= {"committee": 1, **experiment.settings, **paper.settings}
    wanted |= {key: value for key, value in _paper_starts(experiment, ours).items() if key not in paper.settings}
    if not get_network(first["network"]).self_labeling:
        wanted.pop("threshold", None)
    if ours.get("batch_size") is None and "resolved" in first:
        ours["batch_size"] = first["resolved"]["batch_size"]
    found = {key: (ours.get(key), value) for key, value in wanted.items() if key in ours and ours[key] != value}
    for key, condition in _MATTERS_IF.items():
        if not ours.get(condition):
            found.pop(key, None)
    if "tolerance" in found and not _ended_early(records):
        del found["tolerance"]
    if first.get("n_train") not in (None, experiment.train):
        found["training points"] = (first["n_train"], experiment.train)
    if experiment.test is not None and first.get("n_test") not in (None, experiment.test):
        found["test points"] = (first["n_test"], experiment.test)
    if quirks := first["settings"].get("legacy"):
        found["legacy"] = (", ".join(quirks), "none")
    return found


def _starts(record: Record) -> dict[str, str]:
    """Where W and R started, as resolved; records of earlier versions only say what was asked for."""
    settings, resolved = record["settings"], record.get("resolved", {})
    W, R = resolved.get("W_init") or settings.get("W_init"), resolved.get("R_init") or settings.get("R_init")
    if W in _NOT_STARTS:
        W = "points" if settings.get("inference") == "truncated" else "as in the paper"
    return {"W_init": W, "R_init": R or "uniform"}


def _paper_starts(experiment: PublishedExperiment, ours: dict[str, Any]) -> dict[str, str]:
    """Class means in the complete setting, else around the mean of all data (Appendix B.2)."""
    W = "class_means" if ours.get("C") == experiment.classes else "data"
    return {
        "W_init": ours["W_init"] if ours["W_init"] == "as in the paper" else W,
        "R_init": experiment.settings.get("R_init", "uniform"),
    }


def _ended_early(records: list[Record]) -> bool:
    """Whether a tolerance ended a phase of any run."""
    return any(_tolerance_ended(record) for record in records)


def _tolerance_ended(record: Record) -> bool:
    if record.get("converged_at") is not None:
        return True
    if phases := record.get("resolved", {}).get("phases"):
        return any(phase["ended_by"] == "tolerance" for phase in phases)
    # Records of earlier versions do not say what ended a phase before the last.
    if "iterations" not in record or record.get("stopped_at") is not None:
        return False
    settings, phases_of = (
        record["settings"],
        training_phases(record["network"], record["settings"].get("greedy", False)),
    )
    return int(record["iterations"]) < len(phases_of) * int(settings.get("iterations", 0))


def kind_of(found: dict[str, Any]) -> str:
    """Whether the cell was made by the paper's algorithm, with other settings, or by another algorithm."""
    if not found:
        return THE_PAPERS
    return OTHER_SETTINGS if set(found) <= _SETTINGS else OTHER_ALGORITHM


def in_words(found: dict[str, tuple[Any, Any]], records: list[Record]) -> list[str]:
    """The same for people, the algorithm first."""
    settings = records[0]["settings"]
    words = []
    if "inference" in found:
        words.append(f"{settings['inference']} posteriors")
    if "greedy" in found:
        words.append("greedy start" if get_network(records[0]["network"]).recurrent else "one layer after the other")
    if "spread" in found:
        words.append(f"labels spread over {found['spread'][0]}")
    if "minibatch_rule" in found or "batch_size" in found:
        words.append(_mini_batches(found, settings))
    if "W_init" in found:
        words.append(f"W starts from {str(found['W_init'][0]).replace('_', ' ')}")
    if "R_init" in found:
        words.append(f"R starts from {found['R_init'][0]}")
    if "tolerance" in found:
        words.append(f"ended by a tolerance of {found['tolerance'][0]:g}")
    if "stopping" in found:
        words.append("with the stopping criterion" if found["stopping"][0] else "without the stopping criterion")
    told = {"inference", "greedy", "spread", "minibatch_rule", "batch_size", "W_init", "R_init"}
    told |= {"tolerance", "stopping"}
    for key in sorted(set(found) - told, key=lambda key: (key in _SETTINGS, key)):
        ours, theirs = found[key]
        words.append(f"{key.replace('_', ' ') if key not in _SETTINGS else key} = {ours} (paper: {theirs})")
    return words


def _mini_batches(found: dict[str, Any], settings: dict[str, Any]) -> str:
    size, theirs = found.get("batch_size", (settings.get("batch_size"), None))
    rule = settings.get("minibatch_rule", "sequential")
    how_many = f"of {size}" if size else "of automatic size"
    return f"{rule} mini-batches {how_many}" + (f" (paper: {theirs})" if theirs and theirs != size else "")
