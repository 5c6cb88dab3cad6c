"""What a backend can't do, and what is done instead."""

from nesi.config.parameters import ExperimentParameters


def with_what_the_backend_has(parameters: ExperimentParameters) -> tuple[ExperimentParameters, str | None]:
    """Only numba has truncated posteriors: other backends compute full ones instead, with a warning."""
    entries = [(entry, entry.changes()) for entry in parameters.overrides]
    asked = [parameters.inference, parameters.test_inference, *(changes.get("inference") for _, changes in entries)]
    if parameters.backend == "numba" or "truncated" not in asked:
        return parameters, None
    overrides = []
    for entry, changes in entries:
        changes.pop("inference", None)
        if changes:
            overrides.append({"networks": entry.networks, "labels": entry.labels, **changes})
    fitting = parameters.changed(
        inference="exact", test_inference="exact", overrides=overrides, full_posteriors_instead=True
    )
    return fitting, (
        f"truncated posteriors need the backend numba: on {parameters.backend} full posteriors are "
        "computed instead, which takes longer, and every record says so (full_posteriors_instead)."
    )
