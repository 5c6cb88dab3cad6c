"""The key `legacy` of a parameter file: where the authors' program deviates from the paper, one by one."""

from typing import Annotated, Any

from pydantic import Field, model_validator

from nesi.config.values import Name, Section, Switch

Every = Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)]

QUIRKS = ("idf", "class_start", "likelihood", "chunks", "padding", "draw")

# The mini-batches of a chunk were computed in one go on the GPU; these are the sizes in the authors' own files.
AUTHORS_CHUNKS = {"newsgroups": 6000, "pictures, self-labeling and feedforward": 20000}


class LegacyOutput(Section):
    """The output file of a configuration, under its own names: which files the legacy output tree holds."""

    foldername: Name | None = None
    filename: Name | None = None
    RESULTS_OUTPUT: Switch = True
    RESULTS_ONLINE_OUTPUT: Switch = False
    RESULTS_EVERY_N_ITERATIONS: Every = 1
    SETTING_OUTPUT: Switch = True
    DATEPREFIX_FILE: Switch = False
    DATEPREFIX_PATH: Switch = False
    LIKELIHOOD_OUTPUT: Switch = False
    LIKELIHOOD_ONLINE_OUTPUT: Switch = False
    LIKELIHOOD_EVERY_N_ITERATIONS: Every = 1
    SAVE_WEIGHTS: Switch = False
    SAVE_DATA_INDEX: Switch = True


class LegacyOptions(Section):
    """`legacy: true` switches all quirks on, a mapping those that it names; docs/from-theano.md has their effects."""

    idf: Switch = False  # floored, and of the test set by itself
    class_start: Switch = False  # class means off by one: the last class has no unit of its own
    likelihood: Switch = False  # of all units alike, without R and without labels
    chunks: Switch | Every = False  # points are shuffled again for every chunk of this size; true: the authors' sizes
    padding: Switch = False  # the last mini-batch is filled with rows of zeros that take part in learning
    draw: Switch = False  # labels are drawn before the other points, and the test set is drawn like the labels
    even_labels: Switch = True  # with `draw`: equally many per class
    index_list: Name | None = None  # an h5 file with the points of an earlier run, or what comes before Run<r>Data.h5
    label_list: Name | None = None  # the same, for labels and test points only
    unlabeled_top_layer: Switch = False  # MM-USL: the class layer learns from all points, and from no label
    output: LegacyOutput | None = None

    @model_validator(mode="after")
    def _something_is_on(self) -> "LegacyOptions":
        if self.model_fields_set and not self.model_dump(exclude={"even_labels"}, exclude_defaults=True):
            raise ValueError(
                "the mapping switches nothing on; name the quirks that should be on, for instance {idf: true}, "
                "or write legacy: false"
            )
        return self

    @classmethod
    def all_quirks(cls) -> "LegacyOptions":
        return cls.model_validate(dict.fromkeys(QUIRKS, True))

    def for_record(self) -> dict[str, Any]:
        """What can change a number, without what is switched off."""
        return self.model_dump(mode="json", exclude={"output"}, exclude_defaults=True)

    def chunk_size(self, texts: bool, network: str) -> int | None:
        """Points per chunk; None if a pass over the data is one chunk."""
        if self.chunks is False:
            return None
        if self.chunks is not True:
            return self.chunks
        if texts:
            return AUTHORS_CHUNKS["newsgroups"]
        return AUTHORS_CHUNKS["pictures, self-labeling and feedforward"] if network == "ff+" else None

    @property
    def chooses_points(self) -> bool:
        return self.draw or self.index_list is not None or self.label_list is not None

    @property
    def changes_training(self) -> bool:
        return self.likelihood or self.chunks is not False or self.padding
