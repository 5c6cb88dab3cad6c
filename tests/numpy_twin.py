"""The paper once more, in plain NumPy and float64: one data point at a time, one formula per function.

Written from the text alone, to be compared with the compiled code. Nothing here is fast, and nothing is shared with
the package. Labels are class numbers, -1 where there is none.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

RECURRENT = {"ff": False, "r": True, "ff+": False, "r+": True}
SELF_LABELING = {"ff": False, "r": False, "ff+": True, "r+": True}


# ---- Table 1, for one data point -------------------------------------------------------------------------


def label_vector(label, K):
    """T1.2."""
    if label < 0:
        return np.full(K, 1 / K)
    u = np.zeros(K)
    u[label] = 1
    return u


def normalised(x, A):
    """T1.3."""
    x = np.asarray(x, dtype=np.float64)
    return (A - len(x)) * x / x.sum() + 1


def unit_inputs(y, u, W, R, recurrent):
    """T1.5, and without its second term the feedforward network of Section 3.2."""
    with np.errstate(divide="ignore"):
        inputs = np.array([(np.log(W[c]) * y).sum() for c in range(len(W))])
        if recurrent:
            inputs += np.log([(u * R[:, c]).sum() for c in range(len(W))])
    return inputs


def softmax(inputs):
    """T1.4; numerator and denominator divided by the exponential of the largest input."""
    powers = np.exp(inputs - inputs.max())
    return powers / powers.sum()


def class_posterior(s, R):
    """T1.6 for unlabeled data and eq. (PostKE); a unit that no class uses contributes nothing."""
    t = np.zeros(len(R))
    for c in range(len(s)):
        if R[:, c].sum() > 0:
            t += s[c] * R[:, c] / R[:, c].sum()
    return t


def best_versus_second_best(t):
    """Section 3.3; one class alone has no rival, whose probability is then zero."""
    ordered = np.sort(t)[::-1]
    return ordered[0] - (ordered[1] if len(t) > 1 else 0)


def teaching_vector(label, t, threshold, self_labeling):
    """What T1.8 learns from: the label; without one the MAP class if it is certain enough; else nothing."""
    K = len(t)
    if label >= 0:
        return label_vector(label, K)
    if self_labeling and best_versus_second_best(t) > threshold:
        return label_vector(int(np.argmax(t)), K)
    return np.zeros(K)


def log_likelihood(y, label, W, R):
    """Eq. (loglikelihood) of one point."""
    K, C = R.shape
    classes = range(K) if label < 0 else [label]
    terms = []
    for c in range(C):
        prior = sum(R[k, c] for k in classes) / K
        if prior > 0:
            terms.append((y * np.log(W[c]) - W[c] - gammaln(y + 1)).sum() + np.log(prior))
    largest = max(terms)
    return largest + np.log(sum(np.exp(term - largest) for term in terms))


# ---- a whole network -------------------------------------------------------------------------------------


class Twin:
    """One of the four networks in training."""

    def __init__(self, network, W, R, A, threshold=0.6, rule="summed"):
        self.recurrent, self.self_labeling = RECURRENT[network], SELF_LABELING[network]
        self.W, self.R = np.array(W, dtype=np.float64), np.array(R, dtype=np.float64)
        self.A, self.threshold, self.rule = A, threshold, rule

    def activities(self, X, labels):
        """y, s and the t of T1.6, one row per point."""
        K = len(self.R)
        y = np.array([normalised(x, self.A) for x in X])
        s = np.array(
            [
                softmax(unit_inputs(y[n], label_vector(labels[n], K), self.W, self.R, self.recurrent))
                for n in range(len(y))
            ]
        )
        t = [label_vector(labels[n], K) if labels[n] >= 0 else class_posterior(s[n], self.R) for n in range(len(y))]
        return y, s, np.array(t)

    def teaching(self, s, labels):
        """The t that the second layer learns from, one row per point."""
        return np.array(
            [
                teaching_vector(labels[n], class_posterior(s[n], self.R), self.threshold, self.self_labeling)
                for n in range(len(s))
            ]
        )

    def step(self, X, labels, epsilon_W, epsilon_R):
        """One mini-batch; both layers learn from the weights before it. Returns the number of self-labeled points.

        Learning rates are numbers, or one per point.
        """
        y, s, _ = self.activities(X, labels)
        rate_W, rate_R = np.broadcast_to(epsilon_W, len(y)), np.broadcast_to(epsilon_R, len(y))
        t = self.teaching(s, labels)
        if self.rule == "summed":  # eqs. (DeltaWminibatch, DeltaRminibatch)
            delta_W, delta_R = np.zeros_like(self.W), np.zeros_like(self.R)
            for n in range(len(y)):
                delta_W += rate_W[n] * (np.outer(s[n], y[n]) - s[n][:, None] * self.W)
                delta_R += rate_R[n] * (np.outer(t[n], s[n]) - t[n][:, None] * self.R)
            self.W, self.R = self.W + delta_W, self.R + delta_R
        else:  # T1.7 and T1.8 point after point, the activities still those of the start
            for n in range(len(y)):
                self.W = self.W + rate_W[n] * (np.outer(s[n], y[n]) - s[n][:, None] * self.W)
                self.R = self.R + rate_R[n] * (np.outer(t[n], s[n]) - t[n][:, None] * self.R)
        return int(sum(t[n].any() for n in range(len(y)) if labels[n] < 0))

    def train(self, X, labels, epsilon_W, epsilon_R, batch_size, iterations=1):
        """All weights on the way, one pair (W, R) per mini-batch, in the order of the data."""
        steps = []
        for _ in range(iterations):
            for first in range(0, len(X), batch_size):
                batch = slice(first, first + batch_size)
                self.step(X[batch], labels[batch], epsilon_W, epsilon_R)
                steps.append((self.W.copy(), self.R.copy()))
        return steps

    def log_likelihood(self, X, labels):
        y = [normalised(x, self.A) for x in X]
        return np.array([log_likelihood(y[n], labels[n], self.W, self.R) for n in range(len(y))])


def learning_rates(network, N, L, C, K, factor_W, factor_R):
    """Section 4: the factors times C/N, and times K/L or, with self-labeling, K/N."""
    return factor_W * C / N, factor_R * K / (N if SELF_LABELING[network] else L)


# ---- EM for the generative model (Section 2.2) -----------------------------------------------------------


def e_step(y, labels, W, R):
    """Eqs. (PostC, PostK): p(c|y,l) with the axes (n, c) and p(k|c,l) with (n, k, c)."""
    K, C = R.shape
    s = np.array([softmax(unit_inputs(y[n], label_vector(labels[n], K), W, R, recurrent=True)) for n in range(len(y))])
    p = np.zeros((len(y), K, C))
    for n in range(len(y)):
        for c in range(C):
            if labels[n] >= 0:
                p[n, labels[n], c] = 1
            elif R[:, c].sum() > 0:
                p[n, :, c] = R[:, c] / R[:, c].sum()
    return s, p


def m_step(y, s, p, A):
    """Eqs. (MstepW, MstepR)."""
    W = np.einsum("nc,nd->cd", s, y)
    R = np.einsum("nkc,nc->kc", p, s)
    return A * W / W.sum(axis=1, keepdims=True), R / R.sum(axis=1, keepdims=True)


def free_energy(y, s, p, W, R):
    """Eq. (GenFreeEnergy), with the entropy of the posterior q(c, k) = p(k|c,l) p(c|y,l)."""
    N, K, C = p.shape
    total = 0.0
    for n in range(N):
        for c in range(C):
            log_y = (y[n] * np.log(W[c]) - W[c] - gammaln(y[n] + 1)).sum()
            for k in range(K):
                q = p[n, k, c] * s[n, c]
                if q > 0:
                    total += q * (log_y + np.log(R[k, c]) - np.log(K) - np.log(q))
    return total


# ---- a committee (the paper's outlook: several separated softmax functions) -------------------------------


class CommitteeTwin:
    """Networks with weights of their own; the class is inferred, and points are labeled, by the mean of their t."""

    def __init__(self, network, W, R, A, G, threshold=0.6, rule="summed"):
        parts = zip(np.split(np.asarray(W), G), np.split(np.asarray(R), G, axis=1), strict=True)
        self.members = [Twin(network, W_g, R_g, A, threshold, rule) for W_g, R_g in parts]
        self.self_labeling, self.threshold = SELF_LABELING[network], threshold

    @property
    def W(self):
        return np.concatenate([member.W for member in self.members])

    @property
    def R(self):
        return np.concatenate([member.R for member in self.members], axis=1)

    def activities(self, X, labels):
        """y, the s of all members side by side, and their mean t."""
        results = [member.activities(X, labels) for member in self.members]
        return results[0][0], np.concatenate([s for _, s, _ in results], axis=1), np.mean([t for *_, t in results], 0)

    def teaching(self, X, labels):
        """What all members learn from: the label, or what they agree on without it."""
        inferred = []
        for member in self.members:
            _, s, _ = member.activities(X, labels)
            inferred.append([class_posterior(s[n], member.R) for n in range(len(X))])
        t = np.mean(inferred, axis=0)
        return np.array(
            [teaching_vector(labels[n], t[n], self.threshold, self.self_labeling) for n in range(len(labels))]
        )

    def step(self, X, labels, epsilon_W, epsilon_R):
        t = self.teaching(X, labels)
        for member in self.members:
            member.teaching = lambda s, labels: t
            member.step(X, labels, epsilon_W, epsilon_R)
        return int(sum(t[n].any() for n in range(len(t)) if labels[n] < 0))

    def log_likelihood(self, X, labels):
        return np.mean([member.log_likelihood(X, labels) for member in self.members], axis=0)
