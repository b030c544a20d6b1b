"""Every statistic of the retrieval paper's chain on random cases, against scipy and numpy; permutations and bootstraps replay the
documented draws with numpy's own Philox. The Benjamini-Hochberg and McNemar p are held against statsmodels too where it is installed."""

import json
import math
import os
import subprocess
import time
import unittest

import numpy
from scipy import stats

from harness import BIN, SKIPPED
from independent_statistics import difference, drawn, layer_resamples, partial, permutation

try:
    from statsmodels.stats import contingency_tables, multitest
except ImportError:
    multitest = contingency_tables = None

NEAR = 1e-10


def near(a, b):
    return a is not None and math.isclose(a, b, rel_tol=NEAR, abs_tol=NEAR)


def answers(cases):
    text = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run([BIN / "statistics_cases"], input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def running_median(counts, window):
    if len(counts) < window:
        return list(counts)
    starts = numpy.clip(numpy.arange(len(counts)) - window // 2, 0, len(counts) - window)
    return [float(numpy.median(counts[start:start + window])) for start in starts]


def default_onset(counts, window):
    n = len(counts)
    if n < 5 or n < window:
        return None
    smoothed = numpy.array(running_median(counts, window))
    low, high = numpy.median(smoothed[:n // 4]), numpy.median(smoothed[n - n // 4:])
    stays = [i for i in range(n) if (smoothed[i:] > (low + high) / 2).all()]
    return stays[0] if high > low and stays else None


def paper_onset(counts):
    low, high = numpy.median(counts[:max(1, len(counts) // 5)]), max(counts)
    return int(numpy.argmax(numpy.array(counts) >= (low + high) / 2)) if high > low else None


class Statistics(unittest.TestCase):
    def setUp(self):
        self.random = numpy.random.default_rng(20240607)

    def check(self, found, expected, what):
        self.assertEqual(len(found), len(expected), what)
        for got, wanted in zip(found, expected):
            self.assertTrue(near(got, wanted), f"{what}: {found} where {expected} is due")

    def test_two_groups(self):
        cases = []
        for n, m in [(2, 2), (2, 40), (7, 5), (30, 994), (84, 940)] * 4:
            scale = 10 ** self.random.uniform(-6, 6)
            cases.append({"what": "groups", "a": list(scale * self.random.normal(0.3, 1, n)),
                          "b": list(scale * self.random.normal(0, 2, m))})
        for case, found in zip(cases, answers(cases)):
            a, b = numpy.array(case["a"]), numpy.array(case["b"])
            pooled = math.sqrt(((len(a) - 1) * a.var(ddof=1) + (len(b) - 1) * b.var(ddof=1)) / (len(a) + len(b) - 2))
            self.check([found["cohens_d"]], [(a.mean() - b.mean()) / pooled], "Cohen's d")
            welch = stats.ttest_ind(a, b, equal_var=False)
            self.check([found["welch"][0], found["welch"][2]], list(welch), "Welch")
            # Far out in the tail, where an absolute difference would hide everything.
            self.assertTrue(math.isclose(found["welch"][2], welch.pvalue, rel_tol=1e-9), (found["welch"], welch))

    def test_correlations_and_paired_bootstrap(self):
        cases = []
        for n in [2, 3, 17, 200] * 5:
            x = self.random.normal(size=n)
            ties = self.random.integers(0, 4, n).astype(float)
            ties[:2] = 0, 1
            y = ties if len(cases) % 2 else x * 0.3 + self.random.normal(size=n)
            cases.append({"what": "pairs", "x": list(x), "y": list(y), "resamples": 50, "seed": len(cases) + 2 ** 40})
        for case, found in zip(cases, answers(cases)):
            x, y = numpy.array(case["x"]), numpy.array(case["y"])
            self.check(found["ranks"], stats.rankdata(x), "ranks")
            self.check([found["pearson"], found["spearman"]], [stats.pearsonr(x, y)[0], stats.spearmanr(x, y)[0]], "r")
            means = [(x - y)[drawn(case["seed"], draw, len(x))].mean() for draw in range(50)]
            self.check(found["bootstrap"], [*numpy.percentile(means, [2.5, 97.5]), 50], "the paired bootstrap")

    def test_layers(self):
        cases = []
        for layers, heads in [(2, 3), (5, 8), (12, 4), (28, 28)] * 2:
            of_head = numpy.repeat(numpy.arange(layers), heads)
            depth = of_head * 0.2
            x = 20 + depth + self.random.normal(size=layers * heads)
            y = depth + 0.5 * self.random.normal(size=layers * heads) + 0.3 * x
            labels = self.random.random(layers * heads) < 0.05 + 0.3 * of_head / layers
            labels[[0, layers * heads - 1]] = True, False
            labels[heads:2 * heads - 1] = False
            cases.append({"what": "layers", "x": list(x), "y": list(y), "layers": of_head.tolist(), "resamples": 20,
                          "labels": labels.tolist(), "permutations": 60, "seed": 42 + len(cases)})
        for case, found in zip(cases, answers(cases)):
            x, y, layers, labels = (numpy.array(case[name]) for name in ("x", "y", "layers", "labels"))
            seed = case["seed"]
            self.check(found["permutation"], permutation(x, labels, layers, 60, seed), "the permutation test")
            draws = list(layer_resamples(layers, 20, seed))
            for name, rank_first in [("demean_first", False), ("rank_first", True)]:
                self.check([found[name]], [partial(x, y, layers, rank_first)], name)
                values = [partial(x[heads], y[heads], copies, rank_first) for heads, copies in draws]
                self.check(found[name + "_interval"], [*numpy.percentile(values, [2.5, 97.5]), 20], name)
            values = [difference(x[heads], labels[heads]) for heads, _ in draws
                      if 0 < labels[heads].sum() < len(heads)]
            self.check(found["difference_interval"], [*numpy.percentile(values, [2.5, 97.5]), len(values)], "T")

    def test_p_values_that_are_exact(self):
        sides = [tuple(int(v) for v in pair) for pair in self.random.integers(0, 200, (200, 2))] + [(0, 144), (3, 3)]
        found = answers([{"what": "mcnemar", "first": a, "second": b} for a, b in sides])
        for (a, b), p in zip(sides, found):
            wanted = stats.binomtest(a, a + b).pvalue if a + b else 1
            self.assertTrue(math.isclose(p, wanted, rel_tol=NEAR), (a, b, p, wanted))
            if contingency_tables:
                self.check([p], [contingency_tables.mcnemar([[5, a], [b, 5]]).pvalue], "McNemar, statsmodels")

    def test_benjamini_hochberg(self):
        families = [list(self.random.random(n) ** 3) for n in (1, 2, 4, 17, 100)] + [[0.04, 0.01, 0.01, 1.0]]
        for p, found in zip(families, answers([{"what": "multiple", "p": p} for p in families])):
            n = len(p)
            wanted = [min([1] + [n * q / sum(other <= q for other in p) for q in p if q >= mine]) for mine in p]
            self.check(found, wanted, "Benjamini-Hochberg")
            if multitest:
                self.check(found, multitest.multipletests(p, method="fdr_bh")[1], "fdr_bh of statsmodels")

    def test_jaccard(self):
        cases = [([], []), ([[0, 1]], []), ([[0, 1], [2, 3]], [[2, 3], [4, 5], [0, 0]])]
        found = answers([{"what": "jaccard", "first": a, "second": b} for a, b in cases])
        self.assertEqual(found, [None, 0.0, 0.25])

    def test_onsets(self):
        cases = []
        for _ in range(600):
            n = int(self.random.integers(1, 30))
            counts = numpy.sort(self.random.integers(0, 6, n)) + self.random.integers(0, 3, n)
            cases.append({"what": "onset", "counts": counts.astype(float).tolist(),
                          "window": int(self.random.choice([1, 3, 5, 7]))})
        some = 0
        for case, found in zip(cases, answers(cases)):
            counts, window = case["counts"], case["window"]
            self.assertEqual(found["smoothed"], running_median(counts, window))
            self.assertEqual(found["default"] and found["default"][0], default_onset(counts, window), case)
            self.assertEqual(found["paper"] and found["paper"][0], paper_onset(counts), case)
            some += found["default"] is not None
        self.assertGreater(some, 200)

    def test_a_model_of_1024_heads_takes_no_time(self):
        layers = numpy.repeat(numpy.arange(32), 32)
        x = self.random.normal(20, 1, 1024)
        labels = self.random.random(1024) < 0.08
        case = {"what": "layers", "x": list(x), "y": list(self.random.random(1024)), "layers": layers.tolist(),
                "labels": labels.tolist(), "resamples": 5000, "permutations": 10000, "seed": 42}
        start = time.monotonic()
        found, = answers([case])
        seconds = time.monotonic() - start
        print(f"10 000 permutations and three bootstraps of 5000 over 1024 heads: {seconds:.2f} s, p {found['permutation'][3]}")
        self.assertLess(seconds, 30)  # a second or so; a busy machine has room


if __name__ == "__main__":
    if not (BIN / "statistics_cases").exists():
        print("skipped: build statistics_cases first")
        os._exit(SKIPPED)
    unittest.main(verbosity=2)
