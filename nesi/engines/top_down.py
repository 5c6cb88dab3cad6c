"""What comes from above: labels and what they say about classes, the class prior, and how R learns from both.

A label that names the class for certain has u = delta (T1.2), and R learns from the product of t and s (T1.8). With
other labels, class and unit of a point depend on each other: p(k, c | y, label) = s_c u_k R_kc / sum_k' u_k' R_k'c, and
R learns from that instead of t_k s_c (docs/extensions.md). Only graphs for such labels contain it.
"""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import deep_copy_op

from nesi import equations
from nesi.engines import sparse_kernels
from nesi.engines.backend import Expression, has_kernels
from nesi.engines.specification import GraphSpec

LOG_VANISHING = float(np.log(equations.VANISHING["float32"]))


class TopDown:
    """The inputs of a graph that concern classes, and what follows from them and from R."""

    def __init__(self, spec: GraphSpec, R: Expression) -> None:
        self.spec, self.R, dtype = spec, R, spec.dtype
        self.labels = pt.lvector("labels")
        self.members = pt.dvector("members")  # as long as the committee
        self.prior = pt.vector("prior", dtype=dtype)  # K p(k): all 1 if classes are equally likely
        self.meanings = pt.matrix("meanings", dtype=dtype)  # p(k | label), one row per label
        self.log_evidence = pt.dvector("log_evidence")  # log p(label)
        self.inputs = [self.labels, self.members, self.prior, self.meanings, self.log_evidence]

    @property
    def G(self) -> Expression:
        return self.members.shape[0]

    def u(self) -> Expression:
        """T1.2: p(k | label), p(k) for unlabeled data."""
        if not self.spec.soft:
            return equations.label_input(self.labels, self.R.shape[0], self.spec.dtype, self.prior)
        unlabeled = (self.prior / self.prior.shape[0].astype(self.spec.dtype))[None, :]
        return pt.where(equations.is_labeled(self.labels)[:, None], self.meanings[self.labels], unlabeled)

    def tables(self, recurrent: Expression, dtype: str) -> tuple[Expression, Expression]:
        """The top-down term of T1.5 as the network uses it (zero if it is not recurrent), and as the likelihood does.

        One row for every label, log sum_k u_k R_kc, and a last row for points without. A label whose classes have no
        weight for any unit (of a member) favours none of them.
        """
        weights_of_label = self.meanings @ self.R if self.spec.soft else self.R
        joint = self.R * self.prior[:, None]
        unlabeled = pt.log(joint.sum(axis=0, keepdims=True) / self.R.shape[0].astype(joint.dtype))
        log_prior = pt.concatenate([pt.log(weights_of_label), unlabeled]).astype(dtype)
        by_member = self.by_member(log_prior, log_prior.shape[0])
        known = pt.gt(by_member.max(axis=2, keepdims=True), -np.inf)
        vanishing = pt.constant(LOG_VANISHING, dtype=dtype)
        log_prior = pt.where(known, by_member, vanishing).reshape(log_prior.shape).astype(dtype)
        return pt.where(recurrent, log_prior, 0).astype(dtype), log_prior

    def evidence(self) -> Expression:
        """log p(label) of every point, 0 without a label."""
        return pt.where(equations.is_labeled(self.labels), self.log_evidence[self.labels], 0)

    def by_member(self, values: Expression, rows: Expression | None = None) -> Expression:
        """Values of all units with the members of the committee as an axis of their own; rows are points by default."""
        return values.reshape((self.labels.shape[0] if rows is None else rows, self.G, -1))

    def of_all_units(self, by_member: Expression) -> Expression:
        """The way back."""
        return by_member.reshape((self.labels.shape[0], self.R.shape[1]))

    def class_given_unit(self) -> Expression:
        return equations.class_given_unit(self.R, self.prior)

    def taught(
        self, inferred: Expression, threshold: Expression, epsilon_R: Expression
    ) -> tuple[Expression, Expression]:
        """What the second layer learns from, and the number of points that the network labeled itself."""
        self_labels = equations.self_label(inferred, threshold)
        # A learning rate of zero marks points that only fill a batch.
        unlabeled = pt.lt(self.labels, 0) & pt.gt(epsilon_R, 0)
        count = (self_labels.sum(axis=1) * unlabeled).sum(dtype="float64")
        return equations.teaching_signal(self.u(), self.labels, self_labels), count

    # ---- dense activities ------------------------------------------------------------------------------------

    def second_hidden(self, s: Expression) -> Expression:
        """T1.6; for soft labels p(k | y, label)."""
        u = self.u()
        if self.spec.soft:
            u = self._member_mass(u, *self._split(s, u)).mean(axis=0)
        return equations.second_hidden(s, self.R, u, self.labels, self.G, self.prior)

    def updated_R(self, s: Expression, t: Expression, epsilon_R: Expression) -> Expression:
        """T1.8 over a mini-batch."""
        forgotten, learned = self.change_of_R(s, t, epsilon_R)
        return self.R + (learned - forgotten[:, None] * self.R)

    def change_of_R(self, s: Expression, t: Expression, epsilon_R: Expression) -> tuple[Expression, Expression]:
        """The share of each class that is forgotten, and what is learned instead."""
        rule = equations.MINIBATCH_RULES[self.spec.rule]
        if not self.spec.soft:
            forgotten, gains = rule(t, epsilon_R)
            return forgotten, gains.T @ s  # K columns: nothing to speed up
        with_class, without = self._split(s, self.u())
        mass = self._member_mass(t, with_class, without)
        forgotten, gains = rule(mass.mean(axis=0).astype(self.spec.dtype), epsilon_R)
        share = _shared_out(gains[None] * t[None], mass).transpose(0, 2, 1)  # (member, class, point)
        learned = self._member_R() * pt.matmul(share, self._member_first(with_class))
        learned += pt.matmul(share, self._member_first(without))
        return forgotten, learned.transpose(1, 0, 2).reshape((self.R.shape[0], self.R.shape[1]))

    def _split(self, s: Expression, u: Expression) -> tuple[Expression, Expression]:
        """s_c / sum_k u_k R_kc where a soft label and R say something together; s_c elsewhere (then u alone counts)."""
        total = u @ self.R
        known = equations.is_labeled(self.labels)[:, None] & pt.gt(total, 0)
        return pt.where(known, s / pt.where(known, total, 1), 0), pt.where(known, 0, s)

    def _member_mass(self, u: Expression, with_class: Expression, without: Expression) -> Expression:
        """p(k | y, label) by each member, with the axes (member, point, class)."""
        from_R = pt.matmul(self._member_first(with_class), self._member_R().transpose(0, 2, 1))
        return u[None] * (from_R + self._member_first(without).sum(axis=2)[:, :, None])

    def _member_first(self, values: Expression) -> Expression:
        return self.by_member(values).transpose(1, 0, 2)

    def _member_R(self) -> Expression:
        return self.by_member(self.R, self.R.shape[0]).transpose(1, 0, 2)


class SparseActivities:
    """Activities of which few are not zero, in rows as `sparse_kernels` wants them: one per point and member."""

    def __init__(
        self, top_down: TopDown, data: Expression, columns: Expression, places: Expression, rows: Expression
    ) -> None:
        """`places` are the starts of rows for the Ops and otherwise the row of each entry; `rows` is always that."""
        self._top_down, self._data, self._columns = top_down, data, columns
        self._places, self._rows = places, rows
        self._n_rows = top_down.labels.shape[0] * top_down.G

    def inferred_class(self) -> Expression:
        """T1.6 for unlabeled data."""
        return self._mean_of_members(self._dot(self._data, self._top_down.class_given_unit()))

    def updated_R(self, t: Expression, epsilon_R: Expression) -> Expression:
        """T1.8 over a mini-batch."""
        R = self._top_down.R
        if not self._top_down.spec.soft:
            forgotten, gains = self._gains(t, epsilon_R)
            return self._updated(R, forgotten, self._for_every_member(gains), self._data)
        forgotten, share, with_class, without = self._shares(t, epsilon_R)
        learned = R * self._updated(pt.zeros_like(R), pt.zeros_like(forgotten), share, with_class)
        # A copy, because the Op writes over what it is given, and `learned` reads R: PyTensor would try to make one
        # loop of that reading and the sum below, find that it has to run both before and after the Op, and give up.
        return self._updated(deep_copy_op(R), forgotten, share, without) + learned

    def change_of_R(self, t: Expression, epsilon_R: Expression) -> tuple[Expression, Expression]:
        """The share of each class that is forgotten, and what is learned instead."""
        nothing = pt.zeros_like(self._top_down.R)
        if not self._top_down.spec.soft:
            forgotten, gains = self._gains(t, epsilon_R)
            gains = self._for_every_member(gains)
            return forgotten, self._updated(nothing, pt.zeros_like(forgotten), gains, self._data)
        forgotten, share, with_class, without = self._shares(t, epsilon_R)
        nobody = pt.zeros_like(forgotten)
        learned = self._top_down.R * self._updated(nothing, nobody, share, with_class)
        return forgotten, learned + self._updated(pt.zeros_like(self._top_down.R), nobody, share, without)

    def _gains(self, t: Expression, epsilon_R: Expression) -> tuple[Expression, Expression]:
        spec = self._top_down.spec
        forgotten, gains = equations.MINIBATCH_RULES[spec.rule](t.astype(spec.dtype), epsilon_R)
        return forgotten, gains

    def _shares(self, t: Expression, epsilon_R: Expression) -> tuple[Expression, Expression, Expression, Expression]:
        """With soft labels: what is forgotten, and how gains are shared out among entries with and without a class."""
        R, dtype = self._top_down.R, self._top_down.spec.dtype
        rule = equations.MINIBATCH_RULES[self._top_down.spec.rule]
        with_class, without = self._split()
        mass = self._dot(with_class, R) + self._dot(without, pt.ones_like(R))
        mass = self._for_every_member(t) * mass
        forgotten, gains = rule(self._mean_of_members(mass).astype(dtype), epsilon_R)
        return forgotten, _shared_out(self._for_every_member(gains * t), mass).astype(dtype), with_class, without

    def _split(self) -> tuple[Expression, Expression]:
        """As `TopDown._split`, for the entries."""
        top_down = self._top_down
        weights_of_label = (top_down.meanings @ top_down.R).flatten()
        label = top_down.labels[self._rows // top_down.G]
        total = weights_of_label[pt.maximum(label, 0) * top_down.R.shape[1] + self._columns]
        known = pt.ge(label, 0) & pt.gt(total, 0)
        data, dtype = self._data, top_down.spec.dtype
        with_class = pt.where(known, data / pt.where(known, total, 1), 0)
        return with_class.astype(dtype), pt.where(known, 0, data).astype(dtype)

    def _dot(self, data: Expression, M: Expression) -> Expression:
        if has_kernels(self._top_down.spec.backend):
            return sparse_kernels.SparseDot()(data, self._columns, self._places, M)
        start = pt.zeros((self._n_rows, M.shape[0]), dtype="float64")
        return sparse_kernels.sparse_dot(M, start, data, self._columns, self._places)

    def _updated(self, M: Expression, forgotten: Expression, gains: Expression, data: Expression) -> Expression:
        no_background = pt.zeros_like(forgotten)
        rows = [data, self._columns, self._places]
        if has_kernels(self._top_down.spec.backend):
            return sparse_kernels.SparseUpdate()(M, forgotten, no_background, gains, *rows)
        return sparse_kernels.sparse_update(M, forgotten, no_background, gains, *rows)

    def _mean_of_members(self, rows: Expression) -> Expression:
        return mean_of_members(rows, self._top_down.members)

    def _for_every_member(self, rows: Expression) -> Expression:
        """One row per point -> the same row for each of its members."""
        return pt.repeat(rows, self._top_down.G, axis=0)


def mean_of_members(rows: Expression, members: Expression) -> Expression:
    """One row per point and member -> one row per point."""
    return rows.reshape((-1, members.shape[0], rows.shape[1])).mean(axis=1)


def _shared_out(gains: Expression, mass: Expression) -> Expression:
    """gains / mass, 0 where nobody has a share."""
    used = pt.gt(mass, 0)
    return pt.where(used, gains / pt.where(used, mass, 1), 0)
