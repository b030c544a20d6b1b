"""Section 8's statistics in numpy and scipy, with the draws of docs/random-numbers.md: permutations of labels within layers, layers drawn
again, correlations within layers."""

import numpy
from scipy import stats

PERMUTATION, BOOTSTRAP = 14, 15


class Stream:
    """The raw words of one documented stream."""

    def __init__(self, seed, purpose, sample, words):
        key = numpy.array([seed, purpose], dtype=numpy.uint64)
        counter = numpy.array([0, 0, sample, 0], dtype=numpy.uint64)
        self.raw = [int(word) for word in numpy.random.Philox(key=key, counter=counter).random_raw(words)]

    def integer(self, n):
        return (self.raw.pop(0) * n) >> 64

    def shuffle(self, values):
        for i in range(len(values) - 1, 0, -1):
            j = self.integer(i + 1)
            values[i], values[j] = values[j], values[i]


def drawn(seed, draw, n):
    stream = Stream(seed, BOOTSTRAP, draw, n)
    return [stream.integer(n) for _ in range(n)]


def difference(values, labels):
    return values[labels].mean() - values[~labels].mean()


def permutation(values, labels, layers, permutations, seed):
    """T, the mean over labellings of T*, both p and the layers that cannot be permuted."""
    observed = difference(values, labels)
    members = [numpy.flatnonzero(layers == layer) for layer in numpy.unique(layers)]
    expected = numpy.zeros(len(values))
    mixed = []
    for of_layer in members:
        share = labels[of_layer].mean()
        expected[of_layer] = share
        if 0 < share < 1:
            mixed.append(of_layer)
    ones = labels.sum()
    mean = (expected * values).sum() / ones - ((1 - expected) * values).sum() / (len(values) - ones)
    beyond = numpy.zeros(2, dtype=int)
    tie = 1e-12 * numpy.abs(values).max()
    for draw in range(permutations):
        stream = Stream(seed, PERMUTATION, draw, len(values))
        now = labels.copy()
        for of_layer in mixed:
            order = list(of_layer)
            count = labels[of_layer].sum()
            stream.shuffle(order)
            now[of_layer] = False
            now[order[:count]] = True
        permuted = difference(values, now)
        beyond += [abs(permuted) >= abs(observed) - tie, abs(permuted - mean) >= abs(observed - mean) - tie]
    p = (1 + beyond) / (1 + permutations)
    return observed, mean, p[0], p[1], len(members) - len(mixed)


def demeaned(values, copies):
    values = numpy.array(values, dtype=float)
    for copy in numpy.unique(copies):
        values[copies == copy] -= values[copies == copy].mean()
    return values


def partial(x, y, copies, rank_first):
    if rank_first:
        x, y = demeaned(stats.rankdata(x), copies), demeaned(stats.rankdata(y), copies)
    else:
        x, y = stats.rankdata(demeaned(x, copies)), stats.rankdata(demeaned(y, copies))
    return stats.pearsonr(x, y)[0]


def layer_resamples(layers, resamples, seed):
    """For each draw the heads, and which copy of a layer each belongs to."""
    names = numpy.unique(layers)
    for draw in range(resamples):
        heads, copies = [], []
        for copy, layer in enumerate(drawn(seed, draw, len(names))):
            of_layer = numpy.flatnonzero(layers == names[layer])
            heads.extend(of_layer)
            copies.extend([copy] * len(of_layer))
        yield numpy.array(heads), numpy.array(copies)
