"""The parameters of one network: what it is, how it learns and how it is computed.

Parameter files, overrides and `NeSiClassifier` all get their parameters from this declaration.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import model_validator

from nesi.config.declaration import Meaning
from nesi.config.values import (
    Amount,
    Backend,
    Inference,
    MinibatchRule,
    Precision,
    Rate,
    Section,
    Share,
    Size,
    SizeOrZero,
    Spreading,
    Switch,
    Training,
    Width,
)


class TruncatedOptions(Section):
    """How the truncated posterior looks for the best units of a data point."""

    active: Size = 10  # C': units with a posterior above zero, per point
    neighbours: SizeOrZero = 8  # how many neighbours of each of the best units are tried
    leaders: Size = 3  # how many of the best units bring their neighbours
    strangers: SizeOrZero = 2  # random units that are tried
    # The first candidates of a point are the best of all units, or found by a walk among neighbouring units, which
    # takes a fraction of the time.
    start: Literal["all", "walk"] = "all"

    def for_record(self) -> dict[str, Any]:
        """Earlier records know of one start only."""
        return self.model_dump(exclude={"start"} if self.start == "all" else None)


class NetworkParameters(Section):
    """The free parameters of the paper, and how to compute."""

    C: Annotated[
        Size,
        Meaning(may_override=True, may_vary_by_run=True, tunable=True, column=1, estimator_name="n_subclasses"),
    ]
    # Separated softmax groups of C units each, which feed one top layer (the paper's outlook).
    committee: Annotated[Size, Meaning("unless default", may_override=True, column=2)] = 1
    # p(k), one number per class; all equal by default. The first layer alone does not hear of classes.
    class_prior: Annotated[list[Share] | None, Meaning("unless default", shapes_first_layer=False, paper=None)] = None
    # The share of wrong labels, or p(label | class), a row per class; labels are right by default.
    label_noise: Annotated[
        Share | list[list[Share]] | None, Meaning("unless default", shapes_first_layer=False, paper=None)
    ] = None
    A: Annotated[
        Amount, Meaning(may_override=True, may_vary_by_run=True, tunable=True, column=3, estimator_name="normalization")
    ]
    epsilon_W: Annotated[  # x C/N
        Rate, Meaning(may_override=True, may_vary_by_run=True, tunable=True, column=4, estimator_name="epsilon_w")
    ] = 0.2
    epsilon_R: Annotated[  # x K/L, x K/N with self-labeling; matters to W only through the size of mini-batches
        Rate,
        Meaning(
            shapes_first_layer=False,
            may_override=True,
            may_vary_by_run=True,
            tunable=True,
            column=5,
            estimator_name="epsilon_r",
        ),
    ] = 0.2
    # BvSB above which a network with self-labeling trusts itself.
    threshold: Annotated[Share, Meaning(shapes_first_layer=False, may_override=True, tunable=True, column=6)] = 0.6
    iterations: Annotated[  # only an upper limit: whoever takes over a first layer looks at how it ended
        SizeOrZero,
        Meaning(shapes_first_layer=False, may_override=True, may_vary_by_run=True, estimator_name="max_iter"),
    ] = 100
    iterations_R: Annotated[  # of the second layer in greedy training, if other than those of the first
        Size | None,
        Meaning("unless default", shapes_first_layer=False, may_override=True, may_vary_by_run=True, paper=None),
    ] = None

    # How weights learn: by T1.7 and T1.8, or by batch EM for the generative model (Section 2), which is for r.
    training: Annotated[Training, Meaning("unless default", shapes_first_layer=False, column=15, paper="online")] = (
        "online"
    )
    inference: Annotated[Inference, Meaning(may_override=True, column=8, paper="exact")] = "exact"
    test_inference: Annotated[  # of new points
        Inference,
        Meaning("unless default", shapes_first_layer=False, estimator_name="predict_inference", paper="exact"),
    ] = "exact"
    truncated: Annotated[TruncatedOptions, Meaning("elsewhere")] = TruncatedOptions()
    candidates_in: Annotated[
        Literal["memory", "file"],  # of truncated posteriors; it changes no number
        Meaning("elsewhere", shapes_first_layer=False, free_on_resume=True),
    ] = "memory"
    backend: Annotated[Backend, Meaning()] = "numba"
    dtype: Annotated[Precision, Meaning()] = "float32"
    batch_size: Annotated[  # as large as the learning rates allow by default; a first layer has it as it was resolved
        Size | None, Meaning(shapes_first_layer=False, may_override=True, may_vary_by_run=True, column=12)
    ] = None
    minibatch_rule: Annotated[MinibatchRule, Meaning(may_override=True, paper="summed")] = "sequential"
    # Present the points in a new random order in every pass; with "blocks", or if they are on disk, in that of blocks.
    shuffle: Annotated[Switch | Literal["blocks"], Meaning(paper=True)] = True
    stopping: Annotated[Switch, Meaning(may_override=True, paper=False)] = False  # by the likelihood, Section 4.3.2
    stopping_width: Annotated[  # iterations in its window
        Width, Meaning("unless default", may_override=True, paper=20)
    ] = 20
    # First W, then R on cached activities; recurrent networks then go on with both.
    greedy: Annotated[Switch, Meaning(shapes_first_layer=False, may_override=True, column=9, paper=False)] = False
    # Labels travel over a graph before the network learns from them: over the units of a greedy first layer, or over
    # neighbouring points.
    spread: Annotated[
        Spreading | None,
        Meaning("unless default", shapes_first_layer=False, may_override=True, column=16, paper=None),
    ] = None
    # Stop when the log-likelihood rises by less than this per point and iteration.
    tolerance: Annotated[Rate | None, Meaning(may_override=True, column=13, estimator_name="tol", paper=None)] = None

    @model_validator(mode="after")
    def _em_is_for_the_whole_model(self) -> Self:
        if self.training == "em" and (self.inference != "exact" or self.greedy or self.committee > 1):
            raise ValueError(
                "training is 'em', which needs inference 'exact', both layers at once (greedy: false) and a single "
                "network (committee: 1)"
            )
        return self

    @model_validator(mode="after")
    def _units_are_trained_before_labels_spread(self) -> Self:
        if self.spread == "units" and not self.greedy:
            raise ValueError("spread is 'units', which needs a first layer that is trained first: use greedy: true")
        return self

    @model_validator(mode="after")
    def _walks_are_for_a_single_network(self) -> Self:
        if self.truncated.start == "walk" and self.committee > 1:
            raise ValueError(
                f"truncated.start is 'walk', which is for a single network, but committee is {self.committee}"
            )
        return self

    @model_validator(mode="after")
    def _quick_answers_come_from_a_single_network(self) -> Self:
        if self.test_inference == "truncated" and self.committee > 1:
            raise ValueError(
                "truncated inference of new points is for a single network, but committee is "
                f"{self.committee}; use exact inference of new points"
            )
        return self
