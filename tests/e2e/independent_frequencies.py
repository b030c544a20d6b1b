"""What frequency_analysis says of heads, once more in numpy and float64, from queries and keys that another implementation gave.
Written from docs/experiments/frequency_analysis.md alone."""

import math

import numpy

from independent import Llama
from independent_ranks import Checkpoint

SKIP = 4


class Attention(Checkpoint):
    """A checkpoint whose logits and attention can be computed anew from its queries and keys."""

    def __init__(self, folder):
        super().__init__(folder)
        self.pairs = self.head_dim // 2
        if self.config["model_type"] == "llama":
            self.theta = Llama(folder).inv_freq
        else:
            exponents = numpy.arange(0, self.head_dim, 2, dtype=numpy.float64) / self.head_dim
            self.theta = 1.0 / self.config["rope_theta"] ** exponents
        assert (numpy.diff(self.theta) < 0).all()  # as stored, the fastest is first
        self.scale = self.config.get("query_pre_attn_scalar", self.head_dim) ** -0.5
        self.cap = self.config.get("attn_logit_softcapping")

    def window(self, layer):
        return self.config["sliding_window"] if self.family == "gemma2" and layer % 2 == 0 else None

    def vectors(self, layer, head, tokens):
        """q and k before, q and k after RoPE, each [tokens, D]."""
        own = {"q": head, "k": self.kv(head)}
        return [self.expected[f"{side}_{stage}"][layer, own[side], :tokens].astype(numpy.float64)
                for stage in ("pre", "rot") for side in "qk"]

    def dims(self, pair):
        """Of a pair, from 1."""
        return [pair - 1, pair - 1 + self.pairs]

    def products(self, layer, head, tokens):
        """InP as [pairs, i, j], entries j > i as they come."""
        _, _, q, k = self.vectors(layer, head, tokens)
        return numpy.stack([q[:, self.dims(pair)] @ k[:, self.dims(pair)].T for pair in range(1, self.pairs + 1)])

    def score(self, layer, head, tokens, offset, removed=()):
        """Mean attention at the offset with these pairs unrotated."""
        q_pre, k_pre, q, k = self.vectors(layer, head, tokens)
        for pair in removed:
            q[:, self.dims(pair)] = q_pre[:, self.dims(pair)]
            k[:, self.dims(pair)] = k_pre[:, self.dims(pair)]
        logits = q @ k.T * self.scale
        if self.cap:
            logits = self.cap * numpy.tanh(logits / self.cap)
        i, j = numpy.indices(logits.shape)
        seen = j <= i
        if self.window(layer):
            seen &= i - j < self.window(layer)
        weights = numpy.where(seen, numpy.exp(logits - numpy.where(seen, logits, -numpy.inf).max(-1, keepdims=True)), 0)
        attention = weights / weights.sum(-1, keepdims=True)
        rows = numpy.arange(offset + SKIP, tokens)
        return attention[rows, rows - offset].mean()


def causal(matrix):
    """The entries j <= i of the last two dimensions."""
    return matrix[(...,) + numpy.tril_indices(matrix.shape[-1])]


class Figures:
    """Of one head over prompts of these lengths. `scale`: of each pair, the size of what its figures are averages of."""

    def __init__(self, model, layer, head, offset, lengths, row):
        all_products = [model.products(layer, head, n) for n in lengths]
        vectors = [model.vectors(layer, head, n) for n in lengths]
        self.mean_inp = numpy.mean([causal(p).mean(-1) for p in all_products], 0)
        self.mean_abs_inp = numpy.mean([numpy.abs(causal(p)).mean(-1) for p in all_products], 0)
        self.inp_at_lag = numpy.mean([numpy.diagonal(p, -offset, 1, 2)[:, SKIP:].mean(-1) for p in all_products], 0)
        self.heat = numpy.mean([p[:, row - 1, :row] for p in all_products], 0)
        self.std_inp = numpy.mean([p[:, row - 1, :row].std(-1) for p in all_products], 0)
        q, k = (numpy.mean([v[side].mean(0) for v in vectors], 0) for side in (0, 1))
        lower, upper = slice(0, model.pairs), slice(model.pairs, None)
        lengths_q, lengths_k = numpy.hypot(q[lower], q[upper]), numpy.hypot(k[lower], k[upper])
        self.amplitude = lengths_q * lengths_k
        self.phase = numpy.arctan2(q[upper], q[lower]) - numpy.arctan2(k[upper], k[lower])
        sizes = [numpy.mean([numpy.hypot(v[side][:, lower], v[side][:, upper]).mean(0) for v in vectors], 0) for side in (0, 1)]
        self.scale = sizes[0] * sizes[1]
        self.turn = sizes[0] / lengths_q + sizes[1] / lengths_k  # how far a unit of rounding turns the phase
        lags = numpy.arange(max(lengths))
        explained = (self.amplitude * numpy.cos(numpy.outer(lags, model.theta) + self.phase)).sum(-1)
        fits = [self.fit(p.sum(0), explained) for p in all_products]
        self.r2, self.r2_centred, self.eta2 = numpy.mean(fits, 0)

    @staticmethod
    def fit(logits, explained):
        n = len(logits)
        i, j = numpy.tril_indices(n)
        values, lag = logits[i, j], i - j

        def centred(x):
            return x - (numpy.bincount(i, x) / numpy.arange(1, n + 1))[i]

        def r2(x, f):
            return 1 - ((x - f) ** 2).sum() / ((x - x.mean()) ** 2).sum()

        by_lag = (numpy.bincount(lag, values) / numpy.bincount(lag))[lag]
        return r2(values, explained[lag]), r2(centred(values), centred(explained[lag])), by_lag.var() / values.var()


def six_of_bands(pairs):
    """Of section 4's bands, the pairs that go."""
    removed = {}
    for name, lo, hi in (("high", 1, pairs // 3), ("medium", pairs // 3 + 1, 2 * pairs // 3), ("low", 2 * pairs // 3 + 1, pairs)):
        if hi - lo + 1 <= 6:
            removed[name] = list(range(lo, hi + 1))
        else:
            removed[name] = [lo + math.floor(t * (hi - lo) / 5 + 0.5) for t in range(6)]
    return removed


def pulse(theta, tokens):
    """The cosine sum over lags 0 to `tokens`, and C1, C2, epsilon of Assumption 5.1."""
    sums = numpy.cos(numpy.outer(numpy.arange(tokens + 1), theta)).sum(-1)
    largest, smallest = sums[1:].max(), sums[1:].min()
    return sums, sums[0] - (largest + smallest) / 2, (largest + smallest) / 2, (largest - smallest) / 2
