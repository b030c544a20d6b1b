"""ood_test against independent.py: ratios of the heads that a detection found, on prompts of another kind; a planted head keeps its slash."""

import subprocess
import unittest

import numpy

import independent
from harness import BIN, FIXTURES, Lab, need_fixtures

THRESHOLDS = {"stories260K": 0.12, "llama3_a": 0.055}


def typed(prompts):
    return "token_ids { " + " ".join(f"prompts {{ ids: {ids} }}" for ids in prompts) + " }"


def spec(model, prompts, other, more=""):
    return f"""name: "off" model: "{model}" ood_test {{
        detection {{ prompts {{ {prompts} }} {more} }}
        {f"out_of_distribution {{ {other} }}" if other else ""} }}"""


class OodTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_fixtures()
        cls.models = {name: independent.Llama(FIXTURES / "models" / name) for name in THRESHOLDS}
        cls.lab = Lab(FIXTURES / "models", worker_flags=["--threads", "1"]).__enter__()
        cls.addClassCleanup(cls.lab.__exit__, None, None, None)
        cls.lab.start_worker("w1")

    def prompts(self, model, count, tokens, seed):
        allowed = list(range(self.models[model].vocabulary))
        return [independent.uniform_prompt(seed, s, tokens, allowed) for s in range(count)]

    def means(self, model, prompts):
        attention = [self.models[model].forward(ids)["attn_probs"] for ids in prompts]
        return numpy.mean([independent.slash_scores(a, 0, 4, 4, "ALL", "KEPT") for a in attention], 0)

    def statistics(self, experiment):
        return {row["name"]: row for row in self.lab.table(experiment, "statistics")}

    def test_ratios_boxes_and_shares(self):
        for model, threshold in THRESHOLDS.items():
            with self.subTest(model=model):
                inside, outside = self.prompts(model, 9, 64, 5), self.prompts(model, 12, 96, 42)
                (experiment,) = self.lab.submit(spec(model, typed(inside), "uniform_tokens { count: 12 tokens: 96 bos: NEVER }",
                                                     f"threshold: {threshold}"))
                found, other = self.means(model, inside), self.means(model, outside)
                self.assertGreater(numpy.abs(found - threshold).min(), 1e-7, "choose another threshold")
                heads = [at for at in numpy.ndindex(found.shape[:2]) if found[at].max() >= threshold]
                self.assertGreater(len(heads), 2, "choose another threshold")
                rows = self.lab.table(experiment, "ood_ratios")
                self.assertEqual([(int(r["layer"]), int(r["head"])) for r in rows], heads)
                ratios = []
                for row, at in zip(rows, heads):
                    best = int(row["offset"])
                    self.assertGreater(found[at][best], found[at].max() - 1e-6)
                    for name, wanted in (("score_id", found[at][best]), ("score_ood", other[at][best]),
                                         ("ratio", other[at][best] / found[at][best])):
                        self.assertLess(abs(float(row[name]) / wanted - 1), 1e-5, (name, at))
                    ratios.append(float(row["ratio"]))
                statistics = self.statistics(experiment)
                box = numpy.percentile(ratios, [0, 25, 50, 75, 100])
                for name, wanted in zip(("minimum", "q1", "median", "q3", "maximum"), box):
                    self.assertAlmostEqual(float(statistics[f"ood_ratio_{name}"]["value"]), wanted, 14)
                reach = 1.5 * (box[3] - box[1])
                outliers = [not box[1] - reach <= ratio <= box[3] + reach for ratio in ratios]
                self.assertEqual([row["outlier"] for row in rows], ["true" if o else "false" for o in outliers])
                self.assertEqual(int(statistics["ood_ratio_outliers"]["value"]), sum(outliers))
                scores = numpy.array([float(row["score_ood"]) for row in rows])
                for name, least in (("ood_share_at_threshold", threshold), ("ood_share_at_half_threshold", threshold / 2)):
                    self.assertAlmostEqual(float(statistics[name]["value"]), (scores >= least).mean(), 15)
                    self.assertEqual(int(statistics[name]["n"]), len(heads))
                print(f"{model}: {len(heads)} heads, ratios {box.round(3)}, {sum(outliers)} outliers")

    def test_nothing_dominant_is_said_so(self):
        (experiment,) = self.lab.submit(spec("llama3_a", "uniform_tokens { count: 9 tokens: 64 }", "", "threshold: 0.99"))
        self.assertEqual(self.lab.table(experiment, "ood_ratios"), [])
        for name, row in self.statistics(experiment).items():
            if name.startswith("ood_"):
                self.assertEqual(row["value"], "")
                self.assertIn("no head is slash-dominant", row["undefined_because"])
        stages = {task["stage"] for task in self.lab.json("provenance", experiment)["tasks"] if "stage" in task}
        self.assertLessEqual(len(stages), 1)

    def test_tasks_are_shared_with_slash_detections(self):
        source = "uniform_tokens { count: 16 tokens: 80 bos: NEVER }"
        (detection,) = self.lab.submit(f'name: "d" model: "stories260K" slash_detection {{ prompts {{ {source} }} }}')
        (experiment,) = self.lab.submit(spec("stories260K", "sampled { count: 8 tokens: 64 }", source, "threshold: 0.1"))
        measured = {task["key"] for task in self.lab.json("provenance", detection)["tasks"]}
        reused = {task["key"] for task in self.lab.json("provenance", experiment)["tasks"] if task["reused"]}
        self.assertEqual(len(measured), 2)
        self.assertTrue(measured <= reused, "the second half was measured by the detection")

    def test_bytes_do_not_depend_on_workers(self):
        text = spec("stories260K", "sampled { count: 24 tokens: 96 }", "uniform_tokens { count: 20 tokens: 96 }")
        tables = ["ood_ratios", "slash_heads", "slash_scores", "statistics"]
        with Lab(FIXTURES / "models", worker_flags=["--threads", "1"]) as two:
            two.start_worker("a", wait=False)
            two.start_worker("b")
            two.workers["a"].wait_for("ready")
            (here,), (there,) = self.lab.submit(text), two.submit(text)
            for table in tables:
                self.assertEqual(self.lab.csv_bytes(here, table), two.csv_bytes(there, table), table)


class PlantedOodTest(unittest.TestCase):
    def test_a_planted_head_keeps_its_slash(self):
        with Lab("") as lab:
            subprocess.run([BIN / "ropelab-worker", "plant", "--out", lab.models / "planted", "--layers", "1", "--heads", "4",
                            "--kv-heads", "4", "--head-dim", "64", "--vocab", "256", "--context", "512", "--dtype", "float32",
                            "--rope-theta", "10000", "--strength", "12", "--seed", "7", "--slash", "0:1:3", "--slash", "0:2:60"],
                           check=True, capture_output=True)
            lab.start_worker("w1")
            (experiment,) = lab.submit(spec("planted", "sampled { count: 8 tokens: 256 }", "uniform_tokens { count: 9 tokens: 512 }",
                                            "offsets { first: 0 last: 100 } rows: COMMON threshold: 0.5"))
            rows = lab.table(experiment, "ood_ratios")
            self.assertEqual([(row["head"], row["offset"]) for row in rows], [("1", "3"), ("2", "60")])
            for row in rows:
                self.assertAlmostEqual(float(row["ratio"]), 1, 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
