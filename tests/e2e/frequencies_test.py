"""frequency_analysis against independent_frequencies.py, on checkpoints of several families: shared keys, biases, query/key norms, soft caps
and sliding windows. Prompts are prefixes of the ids that another implementation was run on, so queries and keys are that implementation's."""

import subprocess
import unittest

import numpy

from harness import BIN, FIXTURES, Lab, need_fixtures, read_safetensors
from independent_frequencies import SKIP, Attention, Figures, pulse, six_of_bands

MODELS = ["llama3_a", "mistral_a", "qwen2_a", "qwen3_a", "gemma2_a", "olmo2_a", "stories260K"]
LENGTHS = [64, 40, 33, 64, 31, 50, 64, 27, 30, 45]  # two blocks of prompts
HEADS = [(0, 1, 1), (0, 3, 0), (2, 2, 20)]
ROWS = [22, 27]
# Queries and keys are fp32 on both sides. Averages of products may cancel, so they are held against the products' own size, phases
# against how far rounding turns a mean vector, shares of variance against 1 and the share. Scores are relative.
# A heat map's entries are products of two vectors alone, off by as much as both implementations' vectors are.
AVERAGE, PRODUCT, SHARE, SCORE, COSINE = 1e-5, 3e-5, 1e-5, 1e-5, 1e-12
TABLES = ("frequencies", "fits", "removal_ratios", "series", "statistics")


def spec(model, ids, more="", lead="", heads=HEADS, lengths=LENGTHS):
    prompts = " ".join(f"prompts {{ ids: {ids[:length]} }}" for length in lengths)
    listed = " ".join(f"head {{ layer: {layer} head: {head} offset: {offset} }}" for layer, head, offset in heads)
    return f"""name: "why" model: "{model}" {lead} frequency_analysis {{ heads {{ list {{ {listed} }} }}
        prompts {{ token_ids {{ {prompts} }} }} {more} }}"""


class Frequencies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_fixtures()
        cls.models = {name: Attention(FIXTURES / "models" / name) for name in MODELS}
        cls.lab = Lab(FIXTURES / "models", worker_flags=["--threads", "1"]).__enter__()
        cls.addClassCleanup(cls.lab.__exit__, None, None, None)
        cls.lab.start_worker("w1")

    def setUp(self):
        self.worst = {}

    def run_one(self, model, more="", **fields):
        (experiment,) = self.lab.submit(spec(model, self.models[model].ids, more, **fields))
        return experiment

    def near(self, got, wanted, size, tolerance, what):
        """`size`: what the tolerance is a share of."""
        off = float(numpy.max(numpy.abs(numpy.asarray(got) - wanted) / size)) / tolerance
        self.worst[what[0]] = max(self.worst.get(what[0], 0), off)
        self.assertLess(off, 1, what)

    def statistics(self, experiment):
        return {row["name"]: row for row in self.lab.table(experiment, "statistics")}

    def heat_maps(self, lab, experiment, name="heat_maps.safetensors"):
        out = lab.folder / f"{experiment}.{name}"
        lab.client("results", experiment, "--artifact", name, "-o", out)
        return out

    def check_pairs(self, model, experiment, average="inp_at_lag"):
        """Returns each head's active pairs, as numpy has them."""
        m, active = self.models[model], {}
        rows = self.lab.table(experiment, "frequencies")
        fits = {(int(row["layer"]), int(row["head"])): row for row in self.lab.table(experiment, "fits")}
        tensors = read_safetensors(self.heat_maps(self.lab, experiment))
        self.assertEqual(set(tensors), {f"L{layer}H{head}.row{row}" for layer, head, _ in HEADS for row in ROWS})
        self.assertEqual((len(rows), len(fits)), (len(HEADS) * m.pairs, len(HEADS)))
        for layer, head, offset in HEADS:
            name = f"{model} L{layer}H{head}"
            wanted = Figures(m, layer, head, offset, LENGTHS, ROWS[0])
            own = [row for row in rows if (row["layer"], row["head"]) == (str(layer), str(head))]
            self.assertEqual([int(row["pair"]) for row in own], list(range(1, m.pairs + 1)))
            got = {column: numpy.array([float(row[column]) for row in own]) for column in
                   ("theta", "amplitude", "phase", "mean_inp", "mean_abs_inp", "inp_at_lag", "std_inp")}
            self.near(got["theta"], m.theta, m.theta, 1e-6, ("theta", name))
            for column in ("amplitude", "mean_inp", "mean_abs_inp", "inp_at_lag", "std_inp"):
                self.near(got[column], getattr(wanted, column), wanted.scale, AVERAGE, (column, name))
            turns = numpy.remainder(got["phase"] - wanted.phase + numpy.pi, 2 * numpy.pi) - numpy.pi
            self.near(turns, 0, wanted.turn, AVERAGE, ("phase", name))
            averages = getattr(wanted, average)
            margin = numpy.abs(averages - 0.1 * averages.max()) / wanted.scale
            sure = margin > 2 * AVERAGE
            active[layer, head] = (averages > 0.1 * averages.max()) & (averages.max() > 0)
            said = numpy.array([row["active"] == "true" for row in own])
            self.assertTrue((said == active[layer, head])[sure].all() and sure.any(), name)
            active[layer, head] = said
            for row in ROWS:
                heat = numpy.mean([m.products(layer, head, n)[:, row - 1, :row] for n in LENGTHS], 0)
                tensor = tensors[f"L{layer}H{head}.row{row}"]
                self.assertEqual((tensor.dtype, tensor.shape), (numpy.float64, (m.pairs, row)))
                self.near(tensor, heat, wanted.scale[:, None], PRODUCT, ("heat map", name))
                logits = numpy.mean([(v := m.vectors(layer, head, n))[2][row - 1] @ v[3][:row].T for n in LENGTHS], 0)
                self.near(tensor.sum(0), logits, wanted.scale.sum(), AVERAGE, ("logit", name))
            fit = fits[layer, head]
            for column in ("r2", "r2_centred", "eta2"):
                value = getattr(wanted, column)
                self.near(float(fit[column]), value, 1 + abs(value), SHARE, (column, name))
            self.assertEqual((fit["offset"], fit["prompts"]), (str(offset), str(len(LENGTHS))))
        return active

    def check_removals(self, model, experiment, removals):
        """`removals`: band -> lists of pairs."""
        m, statistics = self.models[model], self.statistics(experiment)
        rows = {(row["band"], row["removed"], int(row["layer"]), int(row["head"])): row
                for row in self.lab.table(experiment, "removal_ratios")}
        self.assertEqual(len(rows), len(HEADS) * sum(len(lists) for lists in removals.values()))
        boxes = {}
        for band, lists in removals.items():
            for removed in lists:
                for layer, head, offset in HEADS:
                    row, name = rows[band, " ".join(map(str, removed)), layer, head], f"{model} L{layer}H{head} {band}"
                    self.assertEqual(row["offset"], str(offset))
                    if m.window(layer) and offset >= m.window(layer):
                        self.assertEqual([row[column] for column in ("score", "score_removed", "ratio")], [""] * 3, name)
                        continue
                    before = numpy.mean([m.score(layer, head, n, offset) for n in LENGTHS])
                    after = numpy.mean([m.score(layer, head, n, offset, removed) for n in LENGTHS])
                    self.near(float(row["score"]), before, before, SCORE, ("score", name))
                    self.near(float(row["score_removed"]), after, after, SCORE, ("score_removed", name))
                    self.near(float(row["ratio"]), after / before, after / before, 2 * SCORE, ("ratio", name))
                    boxes.setdefault(band, []).append(float(row["ratio"]))
        for band in ("high", "medium", "low"):
            for name, share in (("minimum", 0), ("q1", 25), ("median", 50), ("q3", 75), ("maximum", 100)):
                row, wanted = statistics[f"removal_ratio_{band}_{name}"], numpy.percentile(boxes[band], share)
                self.near(float(row["value"]), wanted, wanted, 1e-14, ("box", model))
                self.assertEqual(int(row["n"]), len(boxes[band]))
            self.assertEqual(float(statistics[f"removed_pairs_{band}"]["value"]), len(removals[band][0]))

    def check_cosines(self, model, experiment, active, length):
        m, statistics, sums = self.models[model], self.statistics(experiment), {}
        for row in self.lab.table(experiment, "series"):
            sums.setdefault(row["name"], []).append((float(row["x"]), float(row["y"])))
        pairs = {f"L{layer}H{head}": active[layer, head] for layer, head, _ in HEADS}
        pairs["union"] = numpy.any(list(active.values()), 0)
        tokens = max(LENGTHS)
        self.assertEqual(set(sums), {f"cosine_sum.{of}" for of, chosen in pairs.items() if chosen.any()})
        thetas = [float(row["theta"]) for row in self.lab.table(experiment, "frequencies")[: m.pairs]]
        for of, chosen in pairs.items():
            self.assertEqual(float(statistics[f"active_pairs.{of}"]["value"]), chosen.sum())
            if not chosen.any():
                self.assertIn("no pair is active", statistics[f"l_min.{of}"]["undefined_because"])
                continue
            wanted, c1, c2, epsilon = pulse(numpy.array(thetas)[chosen], tokens)
            self.assertEqual([x for x, _ in sums[f"cosine_sum.{of}"]], list(range(tokens + 1)))
            self.near([y for _, y in sums[f"cosine_sum.{of}"]], wanted, 1, COSINE, ("cosine", model))
            for name, value in (("c1", c1), ("c2", c2), ("epsilon", epsilon)):
                self.near(float(statistics[f"{name}.{of}"]["value"]), value, 1, COSINE, (name, model))
            self.near(float(statistics[f"epsilon_over_c1.{of}"]["value"]), epsilon / c1, epsilon / c1, COSINE * 100, ("ratio 5.1", model))
            self.near(float(statistics[f"l_min.{of}"]["value"]), epsilon * tokens / c1, epsilon * tokens / c1, COSINE * 100, ("l_min", model))
            verdict = statistics[f"assumption_5_1.{of}"]
            self.assertEqual(float(verdict["value"]), 1 if epsilon <= length * c1 / tokens else 0)
            self.assertEqual(float(verdict["threshold"]), length)

    def test_every_figure_of_every_family(self):
        for model in MODELS:
            with self.subTest(model=model):
                self.worst = {}
                m = self.models[model]
                removals = {band: [pairs] for band, pairs in six_of_bands(m.pairs).items()}
                removals["pair"] = [[pair] for pair in range(1, m.pairs + 1)]
                removals["list"] = [[1, m.pairs], list(range(1, m.pairs + 1))]
                lists = " ".join(f"removals {{ pairs: {pairs} }}" for pairs in removals["list"])
                removals = {band: [pairs for pairs in lists if pairs] for band, lists in removals.items()}
                experiment = self.run_one(model, f"rows: {ROWS} removals {{ bands: true each_pair: true }} {lists} assumption_length: 40")
                active = self.check_pairs(model, experiment)
                self.check_removals(model, experiment, removals)
                self.check_cosines(model, experiment, active, 40)
                shown = ", ".join(f"{what} {off:.2g}" for what, off in sorted(self.worst.items()))
                print(f"{model}: farthest, in tolerances: {shown}")

    def test_active_pairs_by_the_other_averages(self):
        for name, average in (("ABS", "mean_abs_inp"), ("ALL_PAIRS", "mean_inp")):
            for model in ("llama3_a", "qwen3_a"):
                with self.subTest(average=name, model=model):
                    experiment = self.run_one(model, f"rows: {ROWS} active_average: {name}")
                    self.check_pairs(model, experiment, average)

    PLANTED = {1: 3, 2: 9}  # head of layer 0 -> offset

    def test_a_planted_head_is_its_cosines(self):
        with Lab("", worker_flags=["--threads", "1"]) as lab:
            slashes = [part for head, offset in self.PLANTED.items() for part in ("--slash", f"0:{head}:{offset}")]
            subprocess.run([BIN / "ropelab-worker", "plant", "--out", lab.models / "planted", "--layers", "1", "--heads", "4", "--kv-heads",
                            "4", "--head-dim", "64", "--vocab", "64", "--context", "512", "--dtype", "float32", "--rope-theta", "10000",
                            "--strength", "12", "--seed", "5", *slashes], check=True, capture_output=True)
            lab.start_worker("w1")
            heads = " ".join(f"head {{ layer: 0 head: {head} offset: {offset} }}" for head, offset in [*self.PLANTED.items(), (3, 2)])
            prompts = "prompts { uniform_tokens { count: 3 tokens: 200 } }"
            why, detect = lab.submit(f"""name: "s" model: "planted"
                experiments {{ name: "why" frequency_analysis {{ {prompts} heads {{ list {{ {heads} }} }}
                    removals {{ pairs: {list(range(1, 33))} }} }} }}
                experiments {{ name: "detect" slash_detection {{ {prompts} offsets {{ first: 0 last: 9 }} threshold: 0.5 }} }}""")
            fits = {int(row["head"]): row for row in lab.table(why, "fits")}
            for head in self.PLANTED:
                for share in ("r2", "r2_centred", "eta2"):
                    self.assertLess(abs(float(fits[head][share]) - 1), 1e-9, (head, share))
            # q . k of an unplanted head is 0 everywhere: no variance to explain.
            self.assertEqual([fits[3][share] for share in ("r2", "r2_centred", "eta2")], ["", "", ""])
            scores = {(int(row["head"]), int(row["offset"])): row["score"] for row in lab.table(detect, "slash_scores")}
            ratios = {int(row["head"]): row for row in lab.table(why, "removal_ratios")}
            for head, offset in [*self.PLANTED.items(), (3, 2)]:
                row = ratios[head]
                self.assertEqual(row["score"], scores[head, offset], "removing nothing changes no bit")
                uniform = numpy.mean(1 / (numpy.arange(offset + SKIP, 200) + 1.0))
                self.assertLess(abs(float(row["score_removed"]) / uniform - 1), 1e-5, head)
            self.assertEqual(float(ratios[3]["ratio"]), 1, "there was nothing to lose")
            self.assertLess(float(ratios[1]["ratio"]), 0.1)
            for row in lab.table(why, "frequencies"):
                if int(row["head"]) in self.PLANTED:  # logit = scale * sum of A cos(theta (lag - offset))
                    self.assertLess(abs(float(row["amplitude"]) / (12 * 64**0.5) - 1), 1e-5)
                    turn = float(row["phase"]) + float(row["theta"]) * self.PLANTED[int(row["head"])]
                    self.assertLess(abs(numpy.remainder(turn + numpy.pi, 2 * numpy.pi) - numpy.pi), 1e-5)

    def test_without_removing_anything_the_score_is_the_detections(self):
        m = self.models["llama3_a"]
        why = self.run_one("llama3_a", "removals { pairs: [1] }")
        prompts = " ".join(f"prompts {{ ids: {m.ids[:length]} }}" for length in LENGTHS)
        (detect,) = self.lab.submit(f"""name: "d" model: "llama3_a" slash_detection {{ prompts {{ token_ids {{ {prompts} }} }}
            offsets {{ first: 0 last: 20 }} threshold: 0.5 }}""")
        scores = {(row["layer"], row["head"], row["offset"]): row["score"] for row in self.lab.table(detect, "slash_scores")}
        for row in self.lab.table(why, "removal_ratios"):
            self.assertEqual(row["score"], scores[row["layer"], row["head"], row["offset"]])

    def test_views_of_the_database_hold_the_results(self):
        (experiment,) = self.lab.submit("""name: "seeds" model: "qwen2_a" seeds: [42, 3] frequency_analysis { removals { bands: true }
            prompts { uniform_tokens { count: 9 tokens: 32 } } rows: 22
            heads { list { head { layer: 0 head: 1 offset: 2 } head { layer: 2 head: 0 offset: 5 } } } }""")
        for table in TABLES:
            rows = self.lab.table(experiment, table)
            cursor = self.lab.database().execute(f"SELECT * FROM {table} WHERE experiment = ?", (experiment,))
            columns = [column[0] for column in cursor.description]
            self.assertEqual(columns, ["experiment", *rows[0]], table)

            def printed(column, value):
                if value is None:
                    return ""
                if column == "active":
                    return "true" if value else "false"
                return "%.17g" % value if isinstance(value, float) else str(value)

            stored = [[printed(column, value) for column, value in zip(columns[1:], row[1:])] for row in cursor]
            self.assertEqual(sorted(stored), sorted(list(row.values()) for row in rows), table)
        self.assertEqual({row["name"].split(".")[-1] for row in self.lab.table(experiment, "series")}, {"seed3", "seed42"})
        for seed in (3, 42):
            self.assertIn("L0H1.row22", read_safetensors(self.heat_maps(self.lab, experiment, f"heat_maps.qwen2_a.{seed}.safetensors")))

    def test_several_models_have_each_what_they_have_alone(self):
        text = """name: "m" MODELS frequency_analysis { heads { list { head { layer: 2 head: 3 offset: 1 } } } removals { bands: true }
            prompts { token_ids { prompts { ids: [5, 9, 4, 77, 8, 100, 3, 2] } prompts { ids: [9, 8, 7, 6, 5, 4, 3] } } } }"""
        (both,) = self.lab.submit(text.replace("MODELS", 'models: ["qwen2_a", "llama3_a"]'))
        for model in ("qwen2_a", "llama3_a"):
            (alone,) = self.lab.submit(text.replace("MODELS", f'model: "{model}"'))
            for table in TABLES:
                together = [row for row in self.lab.table(both, table) if row["model"] == model]
                self.assertEqual(together, self.lab.table(alone, table), (model, table))
            self.assertEqual(self.heat_maps(self.lab, both, f"heat_maps.{model}.42.safetensors").read_bytes(),
                             self.heat_maps(self.lab, alone).read_bytes())

    STUDY = """name: "why" model: "stories260K"
        experiments { name: "why" frequency_analysis { heads { slash_dominant { experiment: "detect" top: 5 } }
                      prompts { sampled { count: 20 tokens: 48 } } removals { bands: true each_pair: true } removals { pairs: [1, 2] } } }
        experiments { name: "detect" slash_detection { prompts { sampled { count: 20 tokens: 48 } } threshold: THRESHOLD } }"""

    def test_heads_that_a_detection_found(self):
        why, detect = self.lab.submit(self.STUDY.replace("THRESHOLD", "0.15"))
        dominant = [row for row in self.lab.table(detect, "slash_heads") if row["dominant"] == "true"]
        best = sorted(dominant, key=lambda row: -float(row["score"]))[:5]
        self.assertEqual(len(best), 5, "choose another threshold")
        wanted = {(row["layer"], row["head"], row["best_offset"]): row["score"] for row in best}
        ratios = self.lab.table(why, "removal_ratios")
        self.assertEqual({(row["layer"], row["head"], row["offset"]): row["score"] for row in ratios}, wanted)
        self.assertEqual({row["band"] for row in ratios}, {"high", "medium", "low", "pair", "list"})
        statistics = self.statistics(why)
        self.assertEqual((float(statistics["analysed_heads"]["value"]), statistics["analysed_heads"]["n"]), (5, "40"))
        self.assertEqual({name.split(".row")[1] for name in read_safetensors(self.heat_maps(self.lab, why))}, {"48"})

    def test_no_head_found_is_said_so(self):
        for source in ("sampled", "uniform_tokens"):
            why, _ = self.lab.submit(self.STUDY.replace("THRESHOLD", "1").replace("sampled", source))
            statistics = self.statistics(why)
            for name in ("removal_ratio_high_median", "epsilon_over_c1.union"):
                self.assertEqual((statistics[name]["value"], statistics[name]["undefined_because"]), ("", "the set of heads is empty"))
            self.assertEqual(float(statistics["analysed_heads"]["value"]), 0)
            self.assertEqual(self.lab.table(why, "frequencies"), [])
            self.assertEqual(self.lab.json("provenance", why)["tasks"], [])
            self.assertNotIn("heat_maps", self.lab.client("results", why).stdout)

    def test_bytes_do_not_depend_on_workers(self):
        text = self.STUDY.replace("THRESHOLD", "0.15")
        with Lab(FIXTURES / "models", worker_flags=["--threads", "1"]) as three:
            for name in "abc":
                three.start_worker(name, wait=False)
            for worker in three.workers.values():
                worker.wait_for("ready")
            here, there = self.lab.submit(text)[0], three.submit(text)[0]
            self.assertEqual(self.heat_maps(self.lab, here).read_bytes(), self.heat_maps(three, there).read_bytes())
            for table in TABLES:
                self.assertEqual(self.lab.csv_bytes(here, table), three.csv_bytes(there, table), table)

    def test_what_cannot_be_measured_is_refused_by_its_field(self):
        done = self.lab.client("submit", self.lab.write_spec(
            spec("llama3_a", self.models["llama3_a"].ids, heads=[(0, 1, 40)])), expect=4)
        self.assertIn("frequency_analysis.heads", done.stderr + done.stdout)
        self.assertIn("L0H1 at offset 40", done.stderr + done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
