"""rank_analysis against independent_ranks.py, on checkpoints of several families: shared keys, biases, query/key norms, norms that are 1 + w
or stand behind the block. Prompts are prefixes of the ids that another implementation was run on, so queries, keys and hidden states
are that implementation's; everything else is computed from the weights."""

import unittest

import numpy

from harness import FIXTURES, Lab, need_fixtures, read_safetensors
from independent_ranks import Checkpoint, rank, relative, shares

MODELS = ["llama3_a", "qwen2_a", "qwen3_a", "gemma2_a", "olmo2_a", "stories260K"]
LENGTHS = [64, 40, 33, 64, 21, 50, 64, 17, 30, 45]  # two blocks of prompts
HEADS = [(0, 1), (0, 3), (2, 2)]
BINS, RANDOM, ENERGY = 200, 100, 0.9
# Relative. The reference's own queries and keys are fp32; a relative variation divides by a mean that is small beside its terms.
SHARE, WEIGHTS, VARIATION, RANDOM_VARIATION = 1e-5, 1e-6, 1e-5, 1e-5
# fp32 may put a running share that is this near to the energy on its other side.
RANK_MARGIN = 1e-6


def spec(model, lengths=LENGTHS, heads=HEADS, more="", lead="", ids=None):
    prompts = " ".join(f"prompts {{ ids: {ids[:length]} }}" for length in lengths)
    listed = " ".join(f"head {{ layer: {layer} head: {head} }}" for layer, head in heads)
    return f"""name: "ranks" model: "{model}" {lead} rank_analysis {{ heads {{ list {{ {listed} }} }}
        prompts {{ token_ids {{ {prompts} }} }} energy: {ENERGY} {more} }}"""


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_fixtures()
        cls.models = {name: Checkpoint(FIXTURES / "models" / name) for name in MODELS}
        cls.lab = Lab(FIXTURES / "models", worker_flags=["--threads", "1"]).__enter__()
        cls.addClassCleanup(cls.lab.__exit__, None, None, None)
        cls.lab.start_worker("w1")

    def run_one(self, model, **fields):
        (experiment,) = self.lab.submit(spec(model, ids=self.models[model].ids, **fields))
        return experiment

    def rows(self, experiment, table, first="matrix"):
        return {(row[first], int(row["layer"]), row["head"]): row for row in self.lab.table(experiment, table)}

    def statistics(self, experiment):
        return {row["name"]: row for row in self.lab.table(experiment, "statistics")}

    def near(self, got, wanted, tolerance, what):
        self.worst = max(getattr(self, "worst", 0), abs(float(got) / wanted - 1) / tolerance)
        self.assertLess(abs(float(got) / wanted - 1), tolerance, what)

    def check_means(self, row, matrices, what, tolerance=SHARE):
        """r1 and rank of `row` are the means over the prompts' matrices."""
        all_shares = [shares(matrix) for matrix in matrices]
        self.near(row["r1"], numpy.mean([share[0] for share in all_shares]), tolerance, what)
        ranks = [rank(share, ENERGY) for share in all_shares]
        self.assertGreater(min(margin for _, margin in ranks), RANK_MARGIN, f"{what}: choose another energy")
        self.assertAlmostEqual(float(row["rank"]), numpy.mean([found for found, _ in ranks]), 12, what)

    def check_prompts(self, model, experiment, residual=False):
        m, spectra, norms = self.models[model], self.rows(experiment, "spectra"), self.rows(experiment, "norms", "side")
        q, k, hidden = (m.expected[name].astype(numpy.float64) for name in ("q_pre", "k_pre", "hidden"))
        for layer in range(m.layers):
            h = hidden[layer] if residual else m.normed(layer, hidden[layer])
            row = spectra["H", layer, ""]
            self.check_means(row, [h[:n] for n in LENGTHS], (model, "H", layer))
            self.assertEqual((row["prompts"], row["dominant"]), (str(len(LENGTHS)), ""))
            for head in range(m.heads):
                for side, matrix in (("Q", q[layer, head]), ("K", k[layer, m.kv(head)])):
                    row, what = spectra[side, layer, str(head)], (model, side, layer, head)
                    self.check_means(row, [matrix[:n] for n in LENGTHS], what)
                    self.assertEqual((row["prompts"], row["dominant"]), (str(len(LENGTHS)), self.is_dominant(layer, head)))
                    lengths = numpy.linalg.norm(matrix, axis=-1)
                    self.near(norms[side, layer, str(head)]["rv"], numpy.mean([relative(lengths[:n], 0) for n in LENGTHS]),
                              VARIATION, what)
                    self.assertEqual(norms[side, layer, str(head)]["dominant"], self.is_dominant(layer, head))

    def is_dominant(self, layer, head):
        return "true" if (layer, head) in HEADS else "false"

    def check_weights(self, model, experiment):
        m, spectra = self.models[model], self.rows(experiment, "spectra")
        for layer in range(m.layers):
            for head in range(m.heads):
                for side, own in (("q", head), ("k", m.kv(head))):
                    row = spectra[f"W_{side.upper()}", layer, str(head)]
                    self.check_means(row, [m.projection(layer, side, own)[0]], (model, side, layer, head), WEIGHTS)
                    self.assertEqual(row["prompts"], "")

    def check_vocabulary(self, model, experiment, seed=42, norm_weight=True):
        m, spectra, alignment = self.models[model], self.rows(experiment, "spectra"), self.rows(experiment, "alignment")
        self.assertEqual(len(alignment), 2 * m.heads)
        variations = m.random_variations(seed, RANDOM, norm_weight)
        histograms = {}
        for row in self.lab.table(experiment, "series"):
            histograms.setdefault(row["name"], []).append((float(row["x"]), int(float(row["y"]))))
        self.assertEqual(len(histograms), 2 * m.heads)
        for side in "qk":
            vectors = m.vocabulary_vectors(side)
            for head in range(m.heads):
                own, what = (head if side == "q" else m.kv(head)), (model, side, head)
                self.check_means(spectra[f"{side.upper()}_vocabulary", 0, str(head)], [vectors[own]], what)
                row, wanted = alignment[f"W_{side.upper()}", 0, str(head)], m.alignment(side, own, ENERGY, norm_weight)
                self.near(row["r1"], wanted["r1"], SHARE, what)
                self.near(row["mean_norm"], wanted["mean_norm"], SHARE, what)
                self.near(row["rv"], wanted["rv"], VARIATION, what)
                if wanted["margin"] > RANK_MARGIN:
                    self.assertAlmostEqual(float(row["rank"]), wanted["rank"], 12, what)
                else:  # one token may fall on the other side
                    self.assertLess(abs(float(row["rank"]) - wanted["rank"]), 1.5 / m.vocabulary, what)
                if wanted["bias_norm"] is None:
                    self.assertEqual((row["bias_norm"], row["bias_ratio"]), ("", ""), what)
                else:
                    self.near(row["bias_norm"], wanted["bias_norm"], WEIGHTS, what)
                    self.near(row["bias_ratio"], wanted["bias_norm"] / wanted["mean_norm"], SHARE, what)
                for column, share in (("rv_random_q1", 25), ("rv_random_median", 50), ("rv_random_q3", 75)):
                    self.near(row[column], numpy.percentile(variations, share), RANDOM_VARIATION, what)
                self.check_histogram(histograms[f"cosine.W_{side.upper()}.L0H{head}"], wanted["cosines"], what)

    def check_histogram(self, rows, cosines, what):
        edges = numpy.linspace(-1, 1, BINS + 1)
        counts, _ = numpy.histogram(numpy.clip(cosines, -1, 1), edges)
        self.assertEqual(len(rows), BINS)
        numpy.testing.assert_allclose([x for x, _ in rows], (edges[1:] + edges[:-1]) / 2, rtol=0, atol=1e-15)
        got = numpy.array([y for _, y in rows])
        self.assertEqual(got.sum(), len(cosines), what)
        # A cosine on an edge may fall into either bin.
        on_edge = numpy.abs(cosines[:, None] - edges).min(-1) < 1e-6
        self.assertLessEqual(numpy.abs(got - counts).sum(), 2 * on_edge.sum(), what)

    def check_averages(self, model, experiment):
        m, statistics = self.models[model], self.statistics(experiment)

        def check(name, rows, column):
            found = [float(row[column]) for row in rows]
            row = statistics[name]
            self.assertEqual(int(row["n"]), len(found), name)
            self.near(row["value"], numpy.mean(found), 1e-12, name)

        spectra = self.lab.table(experiment, "spectra")
        for matrix in ("Q", "K", "W_Q", "W_K", "Q_vocabulary", "K_vocabulary"):
            rows = [row for row in spectra if row["matrix"] == matrix]
            for figure in ("r1", "rank"):
                check(f"mean_{figure}_{matrix}_all", rows, figure)
                check(f"mean_{figure}_{matrix}_dominant", [row for row in rows if row["dominant"] == "true"], figure)
        layers = {str(layer) for layer, _ in HEADS}
        rows = [row for row in spectra if row["matrix"] == "H"]
        check("mean_r1_H_all", rows, "r1")
        check("mean_rank_H_dominant", [row for row in rows if row["layer"] in layers], "rank")
        alignment = self.lab.table(experiment, "alignment")
        figures = [("aligned_r1", "r1"), ("aligned_rank", "rank"), ("rv", "rv"), ("norm", "mean_norm")]
        if model == "qwen2_a":
            figures.append(("bias_norm", "bias_norm"))
        for matrix in ("W_Q", "W_K"):
            rows = [row for row in alignment if row["matrix"] == matrix]
            for name, column in figures:
                check(f"mean_{name}_{matrix}_all", rows, column)
                check(f"mean_{name}_{matrix}_dominant", [row for row in rows if row["dominant"] == "true"], column)
        for side in "QK":
            rows = [row for row in self.lab.table(experiment, "norms") if row["side"] == side]
            check(f"mean_norm_rv_{side}_dominant", [row for row in rows if row["dominant"] == "true"], "rv")
            check(f"mean_norm_rv_{side}_all", rows, "rv")
        row = statistics["rv_random_median"]
        self.assertEqual([row["value"], row["low"], row["high"]],
                         [alignment[0][f"rv_random_{part}"] for part in ("median", "q1", "q3")])
        variations = m.random_variations(42, RANDOM, True)
        self.near(statistics["rv_random_mean"]["value"], numpy.mean(variations), 1e-4, "rv_random_mean")
        self.assertEqual(float(statistics["dominant_heads"]["value"]), len(HEADS))

    def test_every_figure_of_every_family(self):
        for model in MODELS:
            with self.subTest(model=model):
                self.worst = 0
                experiment = self.run_one(model)
                self.check_prompts(model, experiment)
                self.check_weights(model, experiment)
                self.check_vocabulary(model, experiment)
                self.check_averages(model, experiment)
                print(f"{model}: the farthest figure is {self.worst:.2g} of its tolerance away")

    def test_the_residual_and_the_cone_without_the_norms_weight(self):
        for model in ("gemma2_a", "olmo2_a", "llama3_a"):
            with self.subTest(model=model):
                experiment = self.run_one(model, more="hidden_stage: RESIDUAL norm_weight: false", lead="seeds: 7")
                self.check_prompts(model, experiment, residual=True)
                self.check_vocabulary(model, experiment, seed=7, norm_weight=False)

    def view(self, lab, experiment, name="views.safetensors"):
        out = lab.folder / f"{experiment}.{name}"
        lab.client("results", experiment, "--artifact", name, "-o", out)
        return out

    def test_views_are_the_first_rows_of_the_first_prompt(self):
        for model in ("qwen3_a", "gemma2_a"):
            with self.subTest(model=model):
                m, rows = self.models[model], 12
                experiment = self.run_one(model, more=f"vocabulary: false block: {rows}")
                tensors = read_safetensors(self.view(self.lab, experiment))
                names = {f"L{layer}H{head}.{part}" for layer, head in HEADS for part in "qk"}
                self.assertEqual(set(tensors), names | {f"L{layer}.h" for layer, _ in HEADS})
                for layer, head in HEADS:
                    hidden = m.normed(layer, m.expected["hidden"][layer].astype(numpy.float64))[:rows, : m.head_dim]
                    for name, wanted in ((f"L{layer}H{head}.q", m.expected["q_pre"][layer, head, :rows]),
                                         (f"L{layer}H{head}.k", m.expected["k_pre"][layer, m.kv(head), :rows]),
                                         (f"L{layer}.h", hidden)):
                        self.assertEqual(tensors[name].dtype, numpy.float32)
                        numpy.testing.assert_allclose(tensors[name], wanted, rtol=0, atol=2e-4, err_msg=f"{model} {name}")
                self.assertEqual({row["name"] for row in self.lab.table(experiment, "statistics") if "vocabulary" in row["name"]}, set())

    def test_hidden_states_are_viewed_along_their_principal_directions(self):
        for model in ("qwen3_a", "gemma2_a"):
            m = self.models[model]
            experiment = self.run_one(model, more="vocabulary: false block: 12 hidden_view: PCA")
            tensors = read_safetensors(self.view(self.lab, experiment))
            for layer in {layer for layer, _ in HEADS}:
                h = m.normed(layer, m.expected["hidden"][layer].astype(numpy.float64))[: LENGTHS[0]]
                centred = h - h.mean(0)
                _, _, directions = numpy.linalg.svd(centred, full_matrices=False)
                largest = numpy.take_along_axis(directions, numpy.abs(directions).argmax(-1)[:, None], -1)
                wanted = centred[:12] @ (directions * numpy.sign(largest)).T[:, : m.head_dim]
                # A direction is known to the hidden state's fp32 rounding over the gap to the next one's singular value.
                numpy.testing.assert_allclose(tensors[f"L{layer}.h"], wanted, rtol=0, atol=1e-3, err_msg=f"{model} {layer}")

    def test_several_models_have_each_what_they_have_alone(self):
        models = ["qwen2_a", "llama3_a"]
        text = """name: "m" MODELS rank_analysis { heads { list { head { layer: 2 head: 3 } } } block: 5
            prompts { token_ids { prompts { ids: [5, 9, 4, 77, 8, 100, 3, 2] } prompts { ids: [9, 8, 7, 6, 5] } } } }"""
        (both,) = self.lab.submit(text.replace("MODELS", 'models: ["qwen2_a", "llama3_a"]'))
        for model in models:
            (alone,) = self.lab.submit(text.replace("MODELS", f'model: "{model}"'))
            for table in ("spectra", "alignment", "norms", "series", "statistics"):
                together = [row for row in self.lab.table(both, table) if row["model"] == model]
                self.assertEqual(together, self.lab.table(alone, table), (model, table))
            self.assertEqual(self.view(self.lab, both, f"views.{model}.42.safetensors").read_bytes(),
                             self.view(self.lab, alone).read_bytes())

    def test_views_of_the_database_hold_the_results(self):
        (experiment,) = self.lab.submit(self.SEEDS.replace("MODEL", "qwen2_a"))
        for table in ("spectra", "alignment", "norms", "series", "statistics"):
            rows = self.lab.table(experiment, table)
            cursor = self.lab.database().execute(f"SELECT * FROM {table} WHERE experiment = ?", (experiment,))
            columns = [column[0] for column in cursor.description]
            self.assertEqual(columns, ["experiment", *rows[0]], table)

            def printed(column, value):
                if value is None:
                    return ""
                if column == "dominant":
                    return "true" if value else "false"
                return "%.17g" % value if isinstance(value, float) else str(value)

            stored = [[printed(column, value) for column, value in zip(columns[1:], row[1:])] for row in cursor]
            self.assertEqual(sorted(stored), sorted(list(row.values()) for row in rows), table)

    def test_of_the_vocabulary_seeds_move_the_random_vectors_alone(self):
        (experiment,) = self.lab.submit(self.SEEDS.replace("MODEL", "llama3_a"))
        alignment = self.lab.table(experiment, "alignment")
        by_seed = [[row for row in alignment if row["seed"] == seed] for seed in ("3", "42")]
        for three, other in zip(*by_seed):
            self.assertEqual({column for column in three if three[column] != other[column]},
                             {"seed", "rv_random_median", "rv_random_q1", "rv_random_q3"})
        weights = [row for row in self.lab.table(experiment, "spectra") if row["prompts"] == ""]
        for row in weights:
            del row["seed"]
        self.assertEqual(len(weights), 2 * (2 * 3 * 4 + 2 * 4))
        self.assertEqual(weights[: len(weights) // 2], weights[len(weights) // 2 :])
        tasks = self.lab.json("provenance", experiment)["tasks"]
        self.assertEqual(len(tasks), 1 + 2 * (1 + 2), "the projections are measured once")
        for seed in (3, 42):
            self.assertIn("L0H1.q", read_safetensors(self.view(self.lab, experiment, f"views.llama3_a.{seed}.safetensors")))

    SEEDS = """name: "seeds" model: "MODEL" seeds: [42, 3] rank_analysis { heads { list { head { layer: 0 head: 1 } } } block: 4
        prompts { uniform_tokens { count: 9 tokens: 32 } } }"""
    STUDY = """name: "why" model: "stories260K"
        experiments { name: "ranks" rank_analysis { heads { slash_dominant { experiment: "detect" } } block: 8
                      prompts { sampled { count: 20 tokens: 48 } } } }
        experiments { name: "detect" slash_detection { prompts { sampled { count: 20 tokens: 48 } } threshold: THRESHOLD } }"""

    def test_heads_that_a_detection_found(self):
        ranks, detect = self.lab.submit(self.STUDY.replace("THRESHOLD", "0.15"))
        found = {(row["layer"], row["head"]) for row in self.lab.table(detect, "slash_heads") if row["dominant"] == "true"}
        self.assertTrue(0 < len(found) < 40, "choose another threshold")
        rows = [row for row in self.lab.table(ranks, "spectra") if row["matrix"] == "Q" and row["dominant"] == "true"]
        self.assertEqual({(row["layer"], row["head"]) for row in rows}, found)
        self.assertEqual(float(self.statistics(ranks)["dominant_heads"]["value"]), len(found))
        tensors = read_safetensors(self.view(self.lab, ranks))
        self.assertEqual({name for name in tensors if name.endswith(".q")}, {f"L{layer}H{head}.q" for layer, head in found})

    def test_no_head_found_is_said_so(self):
        ranks, _ = self.lab.submit(self.STUDY.replace("THRESHOLD", "1"))
        statistics = self.statistics(ranks)
        for name in ("mean_r1_Q_dominant", "mean_rank_H_dominant", "mean_aligned_r1_W_K_dominant", "mean_norm_rv_K_dominant"):
            self.assertEqual((statistics[name]["value"], statistics[name]["undefined_because"]), ("", "the set of heads is empty"))
        self.assertNotEqual(statistics["mean_r1_Q_all"]["value"], "")
        self.assertNotIn("views.safetensors", self.lab.client("results", ranks).stdout)

    def test_bytes_do_not_depend_on_workers(self):
        text = self.STUDY.replace("THRESHOLD", "0.15")
        with Lab(FIXTURES / "models", worker_flags=["--threads", "1"]) as three:
            for name in "abc":
                three.start_worker(name, wait=False)
            for worker in three.workers.values():
                worker.wait_for("ready")
            here, there = self.lab.submit(text)[0], three.submit(text)[0]
            self.assertEqual(self.view(self.lab, here).read_bytes(), self.view(three, there).read_bytes())
            for table in ("spectra", "alignment", "norms", "series", "statistics"):
                self.assertEqual(self.lab.csv_bytes(here, table), three.csv_bytes(there, table), table)


if __name__ == "__main__":
    unittest.main(verbosity=2)
