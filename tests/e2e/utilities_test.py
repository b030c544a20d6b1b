"""utility_test through the real binaries, on random models: utilities from the checkpoint's own bytes, the rest from them and from the
detection's table, by numpy and scipy."""

import json
import pathlib
import shutil
import tempfile
import unittest

import independent_needles
import numpy
from byte_bpe import ByteBpe
from checkpoint_files import Shape, write_checkpoint
from harness import Lab, read_safetensors
from independent_statistics import difference, layer_resamples, partial, permutation
from scipy import stats

LAYERS, HEADS, DIM = 4, 8, 16
SEEDS = (42, 7)
MODELS = ("one", "two")
PERMUTATIONS = 300
THRESHOLDS = (0.05, 0.1, 0.25)
FOLDED = """name: "folded" models: ["one", "two"] utility_test { fold_norm: true permutations: 300
    heads { list { head { layer: 0 head: 3 } head { layer: 0 head: 5 } head { layer: 2 head: 1 } } } }"""


def make_model(folder, tokenizer, seed):
    """A random checkpoint whose heads have query rows of different size and whose norms are not all one."""
    write_checkpoint(folder, Shape(LAYERS, HEADS * DIM, HEADS, 4, 64, len(tokenizer.vocabulary)), "float32", seed=seed)
    (folder / "tokenizer.json").write_text(tokenizer.json())
    path, draw = folder / "model.safetensors", numpy.random.default_rng(seed)
    whole = bytearray(path.read_bytes())
    size = int.from_bytes(whole[:8], "little")
    for name, entry in json.loads(whole[8:8 + size]).items():
        first, last = (8 + size + offset for offset in entry["data_offsets"])
        values = numpy.frombuffer(bytes(whole[first:last]), dtype=numpy.float32).copy()
        if "q_proj" in name:
            values *= numpy.repeat(draw.uniform(20, 40, HEADS), DIM * HEADS * DIM).astype(numpy.float32)
        elif "k_proj" in name:
            values *= 10
        elif "input_layernorm" in name:
            values *= draw.uniform(0.5, 1.5, len(values)).astype(numpy.float32)
        whole[first:last] = values.tobytes()
    path.write_bytes(whole)


def utilities(folder, fold_norm):
    """[layer, head, dim]"""
    tensors = read_safetensors(folder / "model.safetensors")
    found = []
    for layer in range(LAYERS):
        weight = tensors[f"model.layers.{layer}.self_attn.q_proj.weight"].astype(numpy.float64)
        if fold_norm:
            weight = weight * tensors[f"model.layers.{layer}.input_layernorm.weight"].astype(numpy.float64)
        found.append(numpy.abs(weight).sum(1).reshape(HEADS, DIM))
    return numpy.array(found)


class Utilities(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        drawn = independent_needles.generated_sentences(independent_needles.Stream(1, 5, 0, 0, 0))
        sample = " ".join(next(drawn) for _ in range(100)) + independent_needles.NEEDLE + independent_needles.QUESTION
        tokenizer = ByteBpe.learned(sample, 60)
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ropelab-utilities-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        for i, name in enumerate(MODELS):
            make_model(cls.folder / "models" / name, tokenizer, 11 + i)
        cls.lab = Lab(cls.folder / "models", worker_flags=["--threads", "1"])
        cls.lab.__enter__()
        cls.addClassCleanup(cls.lab.__exit__, None, None, None)
        cls.lab.start_worker("w1")

    def near(self, found, expected, what):
        self.assertAlmostEqual(float(found), expected, delta=1e-9 * max(1, abs(expected)), msg=what)

    def check_utilities(self, experiment, model, fold_norm):
        wanted = utilities(self.folder / "models" / model, fold_norm)
        rows = [row for row in self.lab.table(experiment, "utilities") if row["model"].split("@")[0] == model]
        self.assertEqual(len(rows), LAYERS * HEADS * (DIM + 1))
        for row in rows:
            of_head = wanted[int(row["layer"]), int(row["head"])]
            self.near(row["utility"], of_head[int(row["dim"])] if row["dim"] else of_head.mean(), row)
        for row in self.lab.table(experiment, "series"):
            if row["model"].split("@")[0] == model:
                self.assertEqual(row["name"], "utility_per_dim")
                self.near(row["y"], wanted[:, :, int(float(row["x"]))].mean(), row)
        return wanted.mean(2).ravel()

    def scores(self, experiment, model, metric, seed):
        """Score and hits of every head, in order of layer and head."""
        rows = [row for row in self.lab.table(experiment, "head_scores")
                if (row["model"].split("@")[0], row["metric"], row["seed"], row["context_length"]) == (model, metric, str(seed), "")]
        rows.sort(key=lambda row: (int(row["layer"]), int(row["head"])))
        self.assertEqual(len(rows), LAYERS * HEADS)
        return numpy.array([float(row["score"]) for row in rows]), int(rows[0]["samples"])

    def check_test(self, row, values, labels, seed):
        """`row`: by name the row of statistics."""
        layers = numpy.repeat(numpy.arange(LAYERS), HEADS)
        self.near(row("retrieval")["value"], labels.sum(), "retrieval")
        if not labels.any():
            for name in ("T", "null_mean", "p_paper", "p_centred", "cohens_d", "welch_p", "p_bh"):
                self.assertEqual(row(name)["value"], "", name)
                self.assertTrue(row(name)["undefined_because"], name)
            return None
        observed, mean, p_paper, p_centred, without = permutation(values, labels, layers, PERMUTATIONS, seed)
        for name, wanted in (("T", observed), ("null_mean", mean), ("p_paper", p_paper), ("p_centred", p_centred),
                             ("layers_without_both", without)):
            self.near(row(name)["value"], wanted, name)
        a, b = values[labels], values[~labels]
        squares = ((a - a.mean()) ** 2).sum() + ((b - b.mean()) ** 2).sum()
        self.near(row("cohens_d")["value"], observed / numpy.sqrt(squares / (len(values) - 2)), "cohens_d")
        if len(a) > 1:
            welch = stats.ttest_ind(a, b, equal_var=False)
            self.near(row("welch_t")["value"], welch.statistic, "welch_t")
            self.near(row("welch_p")["p"], welch.pvalue, "welch_p")
        return p_centred

    def test_a_study_of_two_models_and_two_seeds(self):
        detect, test = self.lab.submit(f"""name: "utilities" models: ["one", "two"] seeds: [{SEEDS[0]}, {SEEDS[1]}]
            experiments {{ name: "detect" retrieval_detection {{ threshold: 0.1
              needles {{ context_lengths: [150, 220] depths: [0.25, 0.75] samples_per_cell: 3 haystack {{ generated {{}} }} }} }} }}
            experiments {{ name: "utility" utility_test {{ permutations: {PERMUTATIONS} thresholds: {list(THRESHOLDS)}
              heads {{ retrieval {{ experiment: "detect" metric: ARGMAX threshold: 0.1 }} }} }} }}""")
        rows = {(r["model"].split("@")[0], r["name"], r["detector"], r["threshold"] and repr(float(r["threshold"])), r["seed"]): r
                for r in self.lab.table(test, "statistics")}
        layers = numpy.repeat(numpy.arange(LAYERS), HEADS)
        ps, tested = {}, 0
        for model in MODELS:
            values = self.check_utilities(test, model, False)
            for seed in SEEDS:
                for metric in ("argmax", "mass"):
                    scores, samples = self.scores(detect, model, metric, seed)
                    for threshold in THRESHOLDS:
                        labels = scores >= threshold - 1e-12
                        row = lambda name: rows[model, name, metric, repr(threshold), str(seed)]  # noqa: E731
                        ps[model, metric, threshold, seed] = self.check_test(row, values, labels, seed)
                        tested += ps[model, metric, threshold, seed] is not None
                    for name, rank_first in (("partial_spearman", False), ("partial_spearman_rank_first", True)):
                        row = rows[model, name, metric, "", str(seed)]
                        if metric == "mass":  # shares of hits have ties that numpy's rounding breaks
                            self.near(row["value"], partial(values, scores, layers, rank_first), name)
                        self.assertEqual(bool(row["low"]), not rank_first)
                    if metric == "mass":
                        row = rows[model, "partial_spearman", metric, "", str(seed)]
                        drawn = [partial(values[heads], scores[heads], copies, False)
                                 for heads, copies in layer_resamples(layers, 5000, seed)]
                        self.near(row["low"], numpy.percentile(drawn, 2.5), "low")
                        self.near(row["high"], numpy.percentile(drawn, 97.5), "high")
        print(f"{tested} of {len(ps)} labellings have heads")
        self.assertGreater(tested, len(ps) / 2)
        self.check_summaries(rows, ps)

    def check_summaries(self, rows, ps):
        for metric in ("argmax", "mass"):
            for threshold in THRESHOLDS:
                at = (metric, repr(threshold))
                mean = {}
                for model in MODELS:
                    found = [ps[model, metric, threshold, seed] for seed in SEEDS if ps[model, metric, threshold, seed] is not None]
                    row = rows[model, "p_centred", *at, ""]
                    self.assertEqual(int(row["n"]), len(found))
                    if found:
                        mean[model] = numpy.mean(found)
                        self.near(row["p"], mean[model], "mean p")
                    sd = rows[model, "cohens_d_sd", *at, ""]
                    if len(found) == 2:
                        values = [float(rows[model, "cohens_d", *at, str(seed)]["value"]) for seed in SEEDS]
                        self.near(sd["value"], numpy.std(values, ddof=1), "SD")
                    else:
                        self.assertEqual(sd["value"], "")
                for seed in ("", *SEEDS):
                    of_seed = mean if seed == "" else {m: ps[m, metric, threshold, seed] for m in MODELS}
                    defined = sorted(p for p in of_seed.values() if p is not None)
                    for model, p in of_seed.items():
                        if p is not None:
                            wanted = min(len(defined) * q / (defined.index(q) + defined.count(q)) for q in defined if q >= p)
                            self.near(rows[model, "p_bh", *at, str(seed)]["p"], min(1, wanted), "p_bh")

    def test_norms_are_folded_in_and_a_list_says_what_it_lacks(self):
        (test,) = self.lab.submit(FOLDED)
        values = self.check_utilities(test, "one", True)
        rows = {r["name"]: r for r in self.lab.table(test, "statistics") if r["model"].split("@")[0] == "one"}
        labels = numpy.zeros(LAYERS * HEADS, dtype=bool)
        labels[[3, 5, 2 * HEADS + 1]] = True
        self.check_test(rows.__getitem__, values, labels, 42)
        drawn = [difference(values[heads], labels[heads])
                 for heads, _ in layer_resamples(numpy.repeat(numpy.arange(LAYERS), HEADS), 10000, 42) if labels[heads].any()]
        self.near(rows["T"]["low"], numpy.percentile(drawn, 2.5), "low")
        self.near(rows["T"]["high"], numpy.percentile(drawn, 97.5), "high")
        self.assertEqual(rows["partial_spearman"]["undefined_because"], "a listed set has no head scores")
        with Lab(self.folder / "models", worker_flags=["--threads", "1"]) as other:
            for name in ("w1", "w2"):
                other.start_worker(name)
            (again,) = other.submit(FOLDED)
            for table in ("statistics", "utilities", "series"):
                self.assertEqual(self.lab.csv_bytes(test, table), other.csv_bytes(again, table), table)

    def test_what_it_refuses(self):
        done = self.lab.client("submit", self.lab.write_spec("""name: "u" model: "one" utility_test { thresholds: 0.1
            heads { list { head { layer: 0 head: 3 } } } }"""), expect=4)
        self.assertIn("utility_test.thresholds", done.stderr)
        done = self.lab.client("submit", self.lab.write_spec("""name: "u" model: "one" utility_test {
            heads { retrieval { experiment: "detect" } } }"""), expect=4)
        self.assertIn("utility_test.heads.retrieval.experiment", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
