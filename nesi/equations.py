"""Table 1 of the paper, the likelihood and the EM steps, as PyTensor expressions.

Every function takes and returns symbolic expressions; nothing here compiles, loops or keeps state.
A mini-batch is a matrix with one data point per row. Symbols are those of the paper:

    C, D, K     units of the first hidden layer, inputs, classes
    G           members of a committee: separated softmax groups of C units each (1 unless said otherwise)
    A           constant to which the inputs are normalised
    W (C x D)   weights of the first hidden layer, R (K x C) those of the second
    y, s, t     activities of the observed, first and second hidden layer
    u           label input; `labels` holds the class of each point, or -1 where it is unknown

"eq. (name)" refers to the label of the equation in the paper's source, "T1.n" to the rows of its Table 1.
"""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt

Expression = Any  # a PyTensor variable; the library has no useful static types

VANISHING = {"float32": 1e-30, "float64": 1e-290}  # far below what counts, far above the smallest normal number


# ---- input ---------------------------------------------------------------------------------------------


def bottom_up_input(data: Expression) -> Expression:
    """T1.1: the unnormalised, non-negative data, one point per row."""
    return pt.as_tensor_variable(data)


def label_input(labels: Expression, K: Expression, dtype: str, prior: Expression = 1) -> Expression:
    """T1.2: u_k = delta_kl for labeled data, p(k) = 1/K for unlabeled data (label -1).

    `prior` is K p(k), for classes that are not equally likely.
    """
    one_hot = pt.eq(labels[:, None], pt.arange(K)[None, :]).astype(dtype)
    count = pt.as_tensor_variable(K).astype(dtype)  # numba divides 1 by a whole number in float32
    return pt.where(is_labeled(labels)[:, None], one_hot, prior / count)


def is_labeled(labels: Expression) -> Expression:
    return pt.ge(labels, 0)


# ---- activation across layers ----------------------------------------------------------------------------


def observed_layer(data: Expression, A: Expression) -> Expression:
    """T1.3: y_d = (A - D) x_d / sum_d' x_d' + 1; the row sum in float64, as rounding there tilts the whole row."""
    D = data.shape[1]
    total = data.sum(axis=1, dtype="float64")
    scale = ((A - D) / total).astype(data.dtype)
    return data * scale[:, None] + pt.ones((), dtype=data.dtype)


def bottom_up_drive(y: Expression, log_W: Expression) -> Expression:
    """First term of T1.5: sum_d log(W_cd) y_d."""
    return y @ log_W.T


def top_down_drive(u: Expression, R: Expression) -> Expression:
    """Second term of T1.5: log(sum_k u_k R_kc). The feedforward networks leave it out.

    A class that has no weight for any unit favours none of them.
    """
    weights = u @ R
    known = pt.gt(weights.max(axis=1, keepdims=True), 0)
    return pt.log(pt.where(known, weights, pt.constant(VANISHING["float32"], dtype=weights.dtype)))


def first_hidden_input(y: Expression, log_W: Expression, u: Expression, R: Expression, recurrent: bool) -> Expression:
    """T1.5: I_c = sum_d log(W_cd) y_d + log(sum_k u_k R_kc), the second term only in recurrent networks."""
    drive = bottom_up_drive(y, log_W)
    return drive + top_down_drive(u, R) if recurrent else drive


def first_hidden(I: Expression) -> Expression:  # noqa: E741  (the paper's letter)
    """T1.4: s_c = exp(I_c) / sum_c' exp(I_c') over the last axis, so that it neither over- nor underflows."""
    shifted = pt.exp(I - I.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def class_given_unit(R: Expression, prior: Expression | None = None) -> Expression:
    """p(k|c) = R_kc / sum_k' R_k'c (eq. PostK, unlabeled); a unit without any weight belongs to no class.

    With `prior`, K p(k), "the weights R_kc would be weighted by the priors p(k)" (below eq. PostK).
    """
    joint = R if prior is None else R * prior[:, None]
    total = joint.sum(axis=0, keepdims=True)
    used = pt.gt(total, 0)
    return pt.where(used, joint / pt.where(used, total, 1), 0).astype(R.dtype)


def inferred_class(s: Expression, R: Expression, G: Expression = 1, prior: Expression | None = None) -> Expression:
    """T1.6 for unlabeled data, and eq. (PostKE) for classification: sum_c p(k|c) s_c.

    In a committee of G members the activities add up to G, and t is the mean of the members' posteriors.
    """
    return s @ class_given_unit(R, prior).T / pt.as_tensor_variable(G).astype(s.dtype)


def second_hidden(
    s: Expression, R: Expression, u: Expression, labels: Expression, G: Expression = 1, prior: Expression | None = None
) -> Expression:
    """T1.6: t_k = u_k for labeled data, sum_c p(k|c) s_c for unlabeled data."""
    return pt.where(is_labeled(labels)[:, None], u, inferred_class(s, R, G, prior))


# ---- self-labeling (Section 3.3) -----------------------------------------------------------------------


def best_versus_second_best(t: Expression) -> Expression:
    """BvSB: distance between the largest and the second largest class probability."""
    best = t.max(axis=1)
    second = pt.where(_one_hot_maximum(t), 0, t).max(axis=1)
    return best - second


def self_label(t: Expression, threshold: Expression) -> Expression:
    """The MAP class, one-hot, where BvSB is strictly above the threshold; zero elsewhere."""
    certain = pt.gt(best_versus_second_best(t), threshold)
    return (_one_hot_maximum(t) & certain[:, None]).astype(t.dtype)


def teaching_signal(u: Expression, labels: Expression, self_labels: Expression | None = None) -> Expression:
    """The t that T1.8 learns from: the label where there is one; else the self-label, if the network makes any."""
    unlabeled = 0 if self_labels is None else self_labels
    return pt.where(is_labeled(labels)[:, None], u, unlabeled)


def _one_hot_maximum(t: Expression) -> Expression:
    """True at the first largest entry of each row."""
    largest = pt.eq(t, t.max(axis=1, keepdims=True))
    return largest & pt.eq(pt.cumsum(largest.astype("int64"), axis=1), 1)


# ---- learning ------------------------------------------------------------------------------------------


def summed_gains(activity: Expression, epsilon: Expression) -> tuple[Expression, Expression]:
    """Mini-batch rule of eqs. (DeltaWminibatch, DeltaRminibatch): gains eps a_n; what is forgotten is their sum."""
    gains = epsilon[:, None] * activity
    return gains.sum(axis=0), gains


def sequential_gains(activity: Expression, epsilon: Expression) -> tuple[Expression, Expression]:
    """The online updates one after the other, with the activities of the batch's start.

    w <- (1 - eps a_n) w + eps a_n x_n for n = 1, 2, ... gives the gains eps a_n prod_{m>n} (1 - eps a_m). Their sum is
    the share of w that is forgotten, 1 - prod_n (1 - eps a_n): never above 1 as long as eps <= 1, whatever the size of
    the batch.
    """
    steps = epsilon[:, None] * activity
    remaining = pt.cumprod((1 - steps)[::-1], axis=0)[::-1]  # prod_{m>=n}
    after = pt.set_subtensor(pt.concatenate([remaining[1:], remaining[:1]])[-1], 1)  # prod_{m>n}, 1 for the last
    gains = steps * after
    return pt.minimum(gains.sum(axis=0), 1), gains  # the sum may be rounded up


MINIBATCH_RULES = {"summed": summed_gains, "sequential": sequential_gains}


def update_W(W: Expression, forgotten: Expression, gains: Expression, y: Expression) -> Expression:
    """T1.7: Delta W_cd = eps_W (s_c y_d - s_c W_cd), over a mini-batch; the gains (and what is forgotten) come from s.

    Not (1 - forgotten) W: rounding that factor to float32 would change the norm of a row, and drives by A times that.
    """
    return W + (gains.T @ y - forgotten[:, None] * W)


def update_R(R: Expression, forgotten: Expression, gains: Expression, s: Expression) -> Expression:
    """T1.8: Delta R_kc = eps_R (t_k s_c - t_k R_kc), over a mini-batch; the gains come from t."""
    return R + (gains.T @ s - forgotten[:, None] * R)


def without_denormals(R: Expression) -> Expression:
    """R with its vanishing weights at a floor instead of denormal, where a CPU computes many times slower.

    T1.8 lets the weights of a unit for all classes but its own decay towards zero without ever reaching it. Weights
    that are zero, as in R = delta, stay zero.
    """
    return pt.where(pt.gt(R, 0), pt.maximum(R, pt.constant(VANISHING[R.dtype], dtype=R.dtype)), R)


# ---- likelihood ------------------------------------------------------------------------------------------


def log_gamma_term(y: Expression) -> Expression:
    """sum_d log Gamma(y_d + 1), the part of the Poisson likelihood that no weight can change."""
    return pt.gammaln(y + 1).sum(axis=1)


def log_joint(
    drive: Expression, W_sum: Expression, u: Expression, log_evidence: Expression, R: Expression
) -> Expression:
    """log p(y, l, c) without the Gamma term: sum_d (y_d log W_cd - W_cd) + log sum_{k in l} R_kc / K.

    u R is already the mean over k for unlabeled data; for labeled data p(k) = 1/K is still to be multiplied: the
    `log_evidence` is log p(l) of every point, 0 without a label.
    """
    return drive - W_sum[None, :] + top_down_drive(u, R) + log_evidence[:, None]


def log_likelihood(log_joint: Expression, log_gamma: Expression) -> Expression:
    """Eq. (loglikelihood), one value per data point; units are the last axis."""
    largest = log_joint.max(axis=-1, keepdims=True)
    return (pt.log(pt.exp(log_joint - largest).sum(axis=-1)) + largest[..., 0]) - log_gamma


def free_energy(
    s_old: Expression, class_old: Expression, log_W: Expression, W: Expression, R: Expression, y: Expression
) -> Expression:
    """Eq. (GenFreeEnergy), summed over the data, for the posterior q(c,k) = s_nc p(k|c,l_n) of the old weights.

    `class_old` is p(k|c, l_n, old) of eq. (PostK) with the axes (n, k, c).
    """
    q = s_old[:, None, :] * class_old
    log_y = bottom_up_drive(y, log_W) - W.sum(axis=1)[None, :] - log_gamma_term(y)[:, None]
    energy = (s_old * log_y).sum() + _xlogy(q, R[None, :, :]).sum() - q.sum() * pt.log(R.shape[0])
    return energy - _xlogy(q, q).sum()


def _xlogy(x: Expression, y: Expression) -> Expression:
    """x log y with 0 log 0 = 0."""
    return pt.where(pt.gt(x, 0), x * pt.log(pt.where(pt.gt(y, 0), y, 1)), 0)


# ---- EM for the generative model -------------------------------------------------------------------------


def posterior_c(y: Expression, log_W: Expression, u: Expression, R: Expression) -> Expression:
    """E-step, eqs. (PostC, Ic): p(c | y, l), which is what the recurrent first hidden layer computes."""
    return first_hidden(first_hidden_input(y, log_W, u, R, recurrent=True))


def posterior_k(R: Expression, u: Expression, labels: Expression) -> Expression:
    """E-step, eq. (PostK): p(k | c, l_n), with the axes (n, k, c)."""
    return pt.where(is_labeled(labels)[:, None, None], u[:, :, None], class_given_unit(R)[None, :, :])


def m_step_W(s: Expression, y: Expression, A: Expression) -> Expression:
    """Eq. (MstepW)."""
    counts = s.T @ y
    return A * counts / counts.sum(axis=1, keepdims=True)


def m_step_R(s: Expression, class_posterior: Expression) -> Expression:
    """Eq. (MstepR)."""
    counts = (class_posterior * s[:, None, :]).sum(axis=0)
    return counts / counts.sum(axis=1, keepdims=True)
