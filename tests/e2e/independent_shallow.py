"""The slash paper's section 5 in numpy, float64, with gradients derived by hand: what the trainer's figures are held against.

Prompts are those of docs/random-numbers.md. Row i of layer 1 attends to j <= i with logits u . (R(j - i) k), where u is W_Q's first row (all
that gradient descent ever moves, since the cone's axis is the first unit vector) and k = (1, 0, 1, 0, ...).
"""

import numpy


def pulse(pairs):
    s = numpy.arange(1, pairs + 1)
    return 2 * numpy.pi * (pairs + 1 - s) / (2 * pairs + 1)


class Prompts:
    """`count` prompts of one stream: E without the cone [B, N, d_x + 2], answers [B], labels of the question's feature [B, N]."""

    def __init__(self, features, pairs, offset, seed, purpose, first, count, scale=1.0, shift=0.0):
        dims = features + features % 2
        words = pairs + 1 + dims
        raw = numpy.array([
            numpy.random.Philox(key=[seed, purpose], counter=[0, 0, sample, 0]).random_raw(words)
            for sample in range(first, first + count)])
        low, high = raw[:, :pairs + 1] & numpy.uint64(2**32 - 1), raw[:, :pairs + 1] >> numpy.uint64(32)
        k = numpy.uint64(features)
        drawn = ((high * k + (low * k >> numpy.uint64(32))) >> numpy.uint64(32)).astype(int)
        feature, question = drawn[:, :pairs], drawn[:, pairs]
        uniform = (raw[:, pairs + 1:] >> numpy.uint64(11)) * 2.0**-53
        radius, turn = numpy.sqrt(-2 * numpy.log(1 - uniform[:, ::2])), 2 * numpy.pi * uniform[:, 1::2]
        w = numpy.stack([radius * numpy.cos(turn), radius * numpy.sin(turn)], 2).reshape(count, dims)
        w = w * numpy.sqrt(dims) / numpy.linalg.norm(w, axis=1, keepdims=True) * scale + shift
        n = numpy.arange(pairs)
        x_at = n // offset * 2 * offset + n % offset
        y_at = x_at + offset
        rows = numpy.arange(count)
        self.embedding = numpy.zeros((count, 2 * pairs + 1, dims + 2))
        self.embedding[rows[:, None], x_at, feature] = 1
        self.embedding[:, y_at, dims] = 1
        self.embedding[:, y_at, dims + 1] = w[rows[:, None], feature]
        self.embedding[rows, -1, question] = 1
        self.answer = w[rows, question]
        self.matches = numpy.zeros((count, 2 * pairs + 1))
        self.matches[:, y_at] = feature == question[:, None]


def softmax(logits):
    e = numpy.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax_backward(probabilities, gradient):
    return probabilities * (gradient - (probabilities * gradient).sum(-1, keepdims=True))


class Transformer:
    def __init__(self, features, pairs, offset, theta):
        self.n = 2 * pairs + 1
        self.offset = offset
        position = numpy.arange(self.n)
        lag = position[:, None] - position[None]
        self.cos, self.sin = numpy.cos(theta[:, None, None] * lag), numpy.sin(theta[:, None, None] * lag)
        self.future = lag < 0
        slow = (self.n - 1 - position) * float(self.n) ** -2
        self.slow_cos, self.slow_sin = numpy.cos(slow)[None, :, None], numpy.sin(slow)[None, :, None]
        self.u = numpy.zeros(2 * len(theta))
        self.w2 = numpy.eye(features + features % 2 + 2)

    def first(self):
        logits = numpy.tensordot(self.u[::2], self.cos, 1) - numpy.tensordot(self.u[1::2], self.sin, 1)
        return softmax(numpy.where(self.future, -numpy.inf, logits))

    def forward(self, prompts):
        """Everything that the gradients need."""
        s1 = self.first()
        keys = s1 @ prompts.embedding
        query = prompts.embedding[:, -1] @ self.w2
        a, b = query[:, None, ::2], query[:, None, 1::2]
        # d logit / d key, pair by pair; the key's own lag turns it.
        toward = numpy.empty(keys.shape)
        toward[..., ::2] = a * self.slow_cos - b * self.slow_sin
        toward[..., 1::2] = b * self.slow_cos + a * self.slow_sin
        s2 = softmax((toward * keys).sum(2))
        return s1, keys, toward, s2, (s2 * prompts.embedding[..., -1]).sum(1)

    def gradients(self, prompts):
        s1, keys, toward, s2, value = self.forward(prompts)
        error = (value - prompts.answer)[:, None] / len(value)
        logits = softmax_backward(s2, error * prompts.embedding[..., -1])
        query = numpy.empty((len(value), keys.shape[2]))
        a, b = keys[..., ::2], keys[..., 1::2]
        query[:, ::2] = (logits[..., None] * (a * self.slow_cos + b * self.slow_sin)).sum(1)
        query[:, 1::2] = (logits[..., None] * (b * self.slow_cos - a * self.slow_sin)).sum(1)
        moved = numpy.tensordot(logits[..., None] * toward, prompts.embedding, ((0, 2), (0, 2)))
        first = softmax_backward(s1, moved)
        u = numpy.empty(self.u.shape)
        u[::2], u[1::2] = numpy.tensordot(self.cos, first), -numpy.tensordot(self.sin, first)
        return u, prompts.embedding[:, -1].T @ query

    def figures(self, prompts):
        s1, _, _, s2, value = self.forward(prompts)
        slash = numpy.diagonal(s1, -self.offset)
        return {"min_slash": slash.min(), "mean_slash": slash.mean(), "feature_share": (s2 * prompts.matches).sum(1).mean(),
                "loss": ((value - prompts.answer) ** 2).mean() / 2}


def train(features, pairs, offset, rates, steps, seed, theta=None, batch=256, watched=1024, judged=4096):
    """The figures of every step, the start first; and of fresh prompts at the end, by law: (loss, half the answers' mean square)."""
    transformer = Transformer(features, pairs, offset, pulse(pairs + 1) if theta is None else numpy.array(theta))
    shape = (features, pairs, offset, seed)
    watch = Prompts(*shape, 7, 0, watched)
    rows, drawn = [transformer.figures(watch)], 0
    for stage in (0, 1):
        for _ in range(steps[stage]):
            u, w2 = transformer.gradients(Prompts(*shape, 6, drawn, batch))
            drawn += batch
            if stage == 0:
                transformer.u -= rates[0] * u
            else:
                transformer.w2 -= rates[1] * w2
            rows.append(transformer.figures(watch))
    ends = {}
    for law, scale, shift in (("fresh", 1, 0), ("scaled", 5, 0), ("shifted", 1, 1)):
        prompts = Prompts(*shape, 8, 0, judged, scale, shift)
        ends[law] = (transformer.figures(prompts)["loss"], (prompts.answer**2).mean() / 2)
    return rows, ends
