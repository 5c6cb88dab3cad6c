"""The symbolic pieces of the exact engine that training, inference and EM share."""

from __future__ import annotations

import pytensor.tensor as pt

from nesi import equations
from nesi.engines import excess_kernels, kernels, sparse_kernels, update_kernels
from nesi.engines.backend import Expression, has_kernels, state_variable
from nesi.engines.specification import GraphSpec
from nesi.engines.top_down import TopDown


def keeps_excess(spec: GraphSpec) -> bool:
    """Sparse data has a background in common; only our own Ops make use of it."""
    return spec.sparse and has_kernels(spec.backend)


def common_drive(y: Expression, reference: Expression) -> Expression:
    """sum_d y_d b_d of every point, in float64."""
    return (y * reference[None, :]).sum(axis=1, dtype="float64")


class ExactGraph:
    """The symbolic pieces that training and inference share."""

    def __init__(self, spec: GraphSpec) -> None:
        self.spec = spec
        dtype = spec.dtype
        names, in_float64 = {"W": 2, "log_W": 2, "R": 2, "reference": 1, "smallest": 1}, {"W_sum": 1}
        if keeps_excess(spec):
            names, in_float64 = {"V": 2, "R": 2}, {"scale": 1, "sums": 2, "excess": 1, "lazy": 1}
        elif spec.sparse:
            in_float64["log_W_sum"] = 1
        self.state = {name: state_variable(name, ndim, dtype) for name, ndim in names.items()}
        self.state |= {name: state_variable(name, ndim, "float64") for name, ndim in in_float64.items()}
        self.top_down = TopDown(spec, self.state["R"])
        self.A, self.recurrent = pt.dscalar("A"), pt.bscalar("recurrent")
        if spec.sparse:
            self.points = [pt.vector("x", dtype=dtype), pt.lvector("columns"), pt.lvector("row_starts")]
        else:
            self.points = [pt.matrix("x", dtype=dtype)]
            self.y = equations.observed_layer(equations.bottom_up_input(self.points[0]), self.A)

    def drive(self, training: bool) -> Expression:
        """The bottom-up term of T1.5, relative to the `reference` of the weights."""
        if not self.spec.sparse:
            if training and has_kernels(self.spec.backend):
                return kernels.MiniBatchDrive()(self.y, self.state["log_W"])
            return equations.bottom_up_drive(self.y, self.state["log_W"])
        if keeps_excess(self.spec):
            weights = (self.state[name] for name in ("V", "scale", "sums", "lazy"))
            return excess_kernels.ExcessDrive()(*self.points, *weights)
        background = self.state["log_W_sum"][None, :]
        # Always true: JAX can't make an array of a size that is a variable.
        every_point = pt.ge(self.top_down.labels, -1)
        start = every_point[:, None] * background
        return sparse_kernels.sparse_dot(self.state["log_W"], start, *self.points)

    def activities(self, training: bool = False) -> tuple[Expression, Expression]:
        """s (T1.4) and the log-likelihood of every point."""
        drive, top_down = self.drive(training), self.top_down
        W_sum = self.sums_of_rows().astype(drive.dtype)
        if has_kernels(self.spec.backend):
            tables = top_down.tables(self.recurrent, drive.dtype)
            s, log_likelihood = kernels.Activities()(drive, *tables, top_down.labels, W_sum, top_down.members)
            return s.astype(self.spec.dtype), log_likelihood + top_down.evidence() + self.common_drive()
        u, R = top_down.u().astype(drive.dtype), self.state["R"].astype(drive.dtype)
        total = drive + pt.where(self.recurrent, equations.top_down_drive(u, R), 0)
        log_joint = equations.log_joint(drive, W_sum, u, top_down.evidence(), R)
        s = top_down.of_all_units(equations.first_hidden(top_down.by_member(total)))
        log_likelihood = equations.log_likelihood(top_down.by_member(log_joint), 0).mean(axis=1)
        return s.astype(self.spec.dtype), log_likelihood + self.common_drive()

    def sums_of_rows(self) -> Expression:
        """sum_d W_cd."""
        if not keeps_excess(self.spec):
            return self.state["W_sum"]
        return self.state["excess"] + self.state["V"].shape[0].astype("float64")

    def common_drive(self) -> Expression:
        """What the reference takes away from the drives of all units."""
        return pt.zeros((), "float64") if self.spec.sparse else common_drive(self.y, self.state["reference"])

    def gains(self, activity: Expression, epsilon: Expression) -> tuple[Expression, Expression]:
        if has_kernels(self.spec.backend):
            gains, forgotten = kernels.Gains(self.spec.rule)(activity, epsilon)
            return forgotten, gains
        return equations.MINIBATCH_RULES[self.spec.rule](activity, epsilon)

    def change_of_W(self, forgotten: Expression, gains: Expression) -> tuple[Expression, Expression]:
        """The share of each row that is forgotten, and what is learned instead."""
        if not self.spec.sparse:
            return forgotten, gains.T @ self.y
        none = pt.zeros((gains.shape[1], self.width()), dtype=self.spec.dtype)
        background = gains.sum(axis=0)  # the +1 of T1.3
        return forgotten, sparse_kernels.SparseUpdate()(none, pt.zeros_like(forgotten), background, gains, *self.points)

    def width(self) -> Expression:
        """D."""
        return self.state["V"].shape[0] if keeps_excess(self.spec) else self.state["W"].shape[1]

    def updates_of_W(self, forgotten: Expression, gains: Expression) -> dict[str, Expression]:
        if keeps_excess(self.spec):
            names = ("V", "scale", "sums", "excess", "lazy")
            before = [self.state[name] for name in names]
            return dict(zip(names, excess_kernels.ExcessUpdate()(*before, forgotten, gains, *self.points), strict=True))
        W, log_W, W_sum, reference = (self.state[name] for name in ("W", "log_W", "W_sum", "reference"))
        if has_kernels(self.spec.backend):
            new = update_kernels.UpdateW()(W, log_W, W_sum, reference, self.state["smallest"], forgotten, gains, self.y)
            return dict(zip(("W", "log_W", "W_sum"), new, strict=True))
        background = gains.sum(axis=0)  # the +1 of T1.3
        if self.spec.sparse:
            new_W = sparse_kernels.sparse_update(W, forgotten, background, gains, *self.points)
        else:
            new_W = equations.update_W(W, forgotten, gains, self.y)
        new_log_W = pt.log(new_W) - reference[None, :]
        sums = {"W_sum": new_W.sum(axis=1, dtype="float64")}
        if self.spec.sparse:
            sums["log_W_sum"] = new_log_W.sum(axis=1, dtype="float64")
        return {"W": new_W.astype(self.spec.dtype), "log_W": new_log_W.astype(self.spec.dtype), **sums}
