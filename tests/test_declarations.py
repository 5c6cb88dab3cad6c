"""Every parameter is declared once: what is derived from the declarations, and that identities stay what they were."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, get_args

import pytest
from command_line import SMALL

from nesi.config.declaration import chosen, columns, meanings
from nesi.config.network_parameters import NetworkParameters
from nesi.config.parameters import ExperimentParameters, validated
from nesi.config.reading import load_parameters
from nesi.errors import NesiError
from nesi.estimator import NeSiClassifier
from nesi.experiment.first_layers import FirstLayerFile, first_layer_settings
from nesi.experiment.tasks import RunTask
from nesi.training.settings import ESTIMATOR_NAMES

ROOT = Path(__file__).parent.parent
PINNED = json.loads((Path(__file__).parent / "pinned" / "identities.json").read_text())
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rare": {
        "committee": 3,
        "stopping_width": 7,
        "iterations_R": 9,
        "test_size": 50,
        "test_inference": "exact",
        "threads": 2,
        "share_first_layer": True,
        "train_size": None,
        "W_init": "points",
        "greedy": True,
    },
    "prior": {
        "class_prior": [0.25, 0.75],
        "label_noise": 0.1,
        "dtype": "float64",
        "shuffle": False,
        "backend": "c",
        "inference": "truncated",
        "truncated.active": 5,
    },
    "legacy": {"legacy": True, "W_init": {"h5": "weights"}, "R_init": "random"},
}


def digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


@pytest.mark.parametrize("place", sorted({key.rsplit("/", 2)[0] for key in PINNED}))
def test_identities_of_records_checkpoints_and_first_layers_stay(place: str) -> None:
    """They were computed before there were declarations: a kept record or checkpoint must still be known as its own."""
    name, variant = place.split("/")
    parameters = load_parameters(ROOT / "params" / f"{name}.yaml", dict(VARIANTS[variant]))
    expected = {key: value for key, value in PINNED.items() if key.startswith(f"{place}/")}
    for key, identity in expected.items():
        network, labels = key.split("/")[2:]
        cell = parameters.for_cell(network, int(labels), 60000)
        task = RunTask(cell, network, int(labels), 2)
        layer = FirstLayerFile(task.identity(), 500, "checkpoints/x.npz")._path.name
        assert [digest(task.settings()), digest(task.identity()), layer] == identity, key


def test_every_parameter_has_a_meaning() -> None:
    assert set(meanings(ExperimentParameters)) == set(ExperimentParameters.model_fields)


def test_columns_follow_the_declared_order() -> None:
    free = ("C", "committee", "A", "epsilon_W", "epsilon_R", "threshold")
    assert columns(ExperimentParameters)[:7] == ("mode", *free)
    places = [meanings(ExperimentParameters)[key].column for key in columns(ExperimentParameters)]
    assert len(set(places)) == len(places)


def test_what_a_first_layer_depends_on_is_declared() -> None:
    assert {"C", "A", "epsilon_W", "W_init", "committee", "dtype", "truncated"} <= set(first_layer_settings())
    assert not {"epsilon_R", "threshold", "greedy", "iterations_R"} & set(first_layer_settings())


def test_overrides_take_what_is_declared_and_nothing_else() -> None:
    for key in chosen(ExperimentParameters, "may_override"):
        assert key in ExperimentParameters.model_fields["overrides"].annotation.__args__[0].model_fields
    with pytest.raises(NesiError, match="seed"):
        validated({**SMALL, "overrides": [{"networks": ["ff"], "seed": 2}]}, "here")


def test_a_copy_is_checked_again() -> None:
    """An override may not bring about what the file itself could not say."""
    content = {**SMALL, "networks": ["ff"], "class_assignment": "hard max"}
    with pytest.raises(NesiError, match="committee"):
        validated({**content, "overrides": [{"committee": 2}]}, "here").for_cell("ff", 10, 1000)
    with pytest.raises(NesiError, match="committee"):
        validated(content, "here").changed(committee=2)


def test_the_estimator_has_a_parameter_for_every_network_parameter() -> None:
    known = set(NeSiClassifier().get_params())
    without = {"iterations_R", "stopping_width"}  # its layers get equally many passes
    assert {name for key, name in ESTIMATOR_NAMES.items() if key not in without} <= known


def test_rules_and_backends_are_the_ones_that_are_implemented() -> None:
    from nesi.equations import MINIBATCH_RULES

    assert set(get_args(NetworkParameters.model_fields["minibatch_rule"].annotation)) == set(MINIBATCH_RULES)
