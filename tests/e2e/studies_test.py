"""Every file of studies, small: it runs to its end, those of the slash paper on a trained model and on a planted one, where the answers
are known, those of the retrieval paper on models whose heads look at digits; and its header names tables, artifacts and statistics that
are there."""

import collections
import re
import shutil
import subprocess
import unittest

from digit_model import write_digit_model
from harness import BIN, FIXTURES, SOURCE, Lab, need_fixtures

TOKENS = 96
NEAR, FAR = {(0, 1): 1, (1, 2): 3}, {(0, 2): 20, (1, 0): 57}  # (layer, head) -> planted offset
# What a file says at full size, and what it says here.
SMALLER = [("count: 64", "count: 8"), ("count: 128", "count: 8"), ("tokens: 512", f"tokens: {TOKENS}"), ("block: 128", "block: 32"),
           ("rows: 100", "rows: 40"), ("rows: 426", "rows: 80"), ("pairs: 32", "pairs: 8"), ("pairs: 33", "pairs: 9"),
           ("row426", "row80"), ("row100", "row40")]
# Statistics of planted heads: (name, value, tolerance). Queries and keys are one vector, and it does not hang on the token.
PLANTED = [("mean_r1_Q_dominant", 1, 1e-6), ("mean_r1_K_dominant", 1, 1e-6), ("mean_rank_Q_dominant", 1, 0),
           ("mean_norm_rv_Q_dominant", 0, 1e-6), ("mean_r1_K_vocabulary_dominant", 1, 1e-6), ("mean_rv_W_K_dominant", 0, 1e-6),
           ("ood_ratio_median", 1, 1e-4), ("ood_share_at_threshold", 1, 0)]
BIASED = {"fig_13", "table_12"}  # about what only a model with biases has
STATISTIC = (r"(?<!\.)\b(?:mean_\w+|ood_\w+_\w+|rv_random_\w+|removal_ratio_\w+_\w+|removed_pairs_\w+|low_rank_\w+|control_\w+"
             r"|(?:active_pairs|c1|c2|epsilon_over_c1|l_min)\.\w+|(?:full|bound|assumption|zero|slow|alias|no_high)\.\w+)")


# The retrieval paper's, as patterns.
FEWER = [(r"\[256, 512, 1024\]", "[256, 272, 288]"), (r"context_lengths: (?:512|1024)", "context_lengths: 272"),
         (r"samples_per_cell: \d+", "samples_per_cell: 2"), (r"count: \d+ tokens: \d+", "count: 2 tokens: 64"),
         (r"\[42, 123, 2024\]", "[42, 123]")]
RETRIEVAL_STATISTIC = (r"(?<![\w.])(?:T|cohens_d|welch_t|welch_p|p_paper|p_centred|p_bh|partial_spearman|layers_without_both|retrieval"
                       r"|retrieval_share_over_seeds|retrieval_over_seeds|rope_base|exact_zeros|jaccard|spearman|pearson|onset"
                       r"|active_groups|retrieval_per_active_group|full_groups_share|frequency_effect|mcnemar_p|head_specificity_gap"
                       r"|perplexity_rise|recall_drop|specificity_ratio|lowest_against_random|accuracy_drop|at_ceiling"
                       r"|accuracy_over_draws\.\w+|worst_draw\.\w+)(?![\w])")


class Study:
    """One file made small, and what its run gave."""

    def __init__(self, path, smaller=SMALLER):
        text = path.read_text()
        for at_length, here in smaller:
            text = re.sub(at_length, here, text) if smaller is FEWER else text.replace(at_length, here)
        self.name, self.text = path.stem, text
        head = " ".join(line[1:].strip() for line in text.splitlines() if line.startswith("#"))
        self.to_look_at = head.split("What to look at")[1].split("For the paper's")[0]

    def run(self, lab, model):
        path = lab.write_spec(self.text, f"{self.name}.textproto")
        modelled = ["--set", f"model={model}"] if model else []
        said = lab.client("submit", path, "--wait", *modelled).stdout
        names = re.findall(r'^  name: "(.*)"', self.text, re.M) or [""]
        ids = re.findall(r"^e\d+$", said, re.M)
        assert len(ids) == len(names), (self.name, said)
        self.experiments = dict(zip(names, ids))
        listings = {name: lab.json("results", experiment) for name, experiment in self.experiments.items()}
        self.tables = {table["name"] for listing in listings.values() for table in listing["tables"]}
        self.artifacts = {artifact["name"] for listing in listings.values() for artifact in listing["artifacts"]}
        self.statistics = {name: {row["name"]: row for row in lab.table(experiment, "statistics")}
                           for name, experiment in self.experiments.items()}


class Studies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_fixtures()
        cls.lab = Lab("", worker_flags=["--threads", "1"]).__enter__()
        cls.addClassCleanup(cls.lab.__exit__, None, None, None)
        for model in ("stories260K", "qwen2_a"):
            shutil.copytree(FIXTURES / "models" / model, cls.lab.models / model)
        slashes = [part for (layer, head), offset in (NEAR | FAR).items() for part in ("--slash", f"{layer}:{head}:{offset}")]
        subprocess.run([BIN / "ropelab-worker", "plant", "--out", cls.lab.models / "planted", "--layers", "2", "--heads", "4",
                        "--kv-heads", "2", "--head-dim", "32", "--vocab", "64", "--context", str(TOKENS), *slashes],
                       check=True, capture_output=True)
        cls.lab.start_worker("w1")
        cls.studies = [Study(path) for path in sorted((SOURCE / "studies/slash").glob("*.textproto"))]

    def test_on_a_trained_model_headers_name_what_is_there(self):
        for study in self.studies:
            with self.subTest(study=study.name):
                study.run(self.lab, "qwen2_a" if study.name in BIASED else "" if study.name == "theorem_5_3" else "stories260K")
                for table in re.findall(r"`(\w+)`", study.to_look_at):
                    self.assertIn(table, study.tables)
                for artifact in re.findall(r"\b\w+\.safetensors", study.to_look_at):
                    # No head of this model looks far back: there is nothing to draw.
                    self.assertTrue(artifact in study.artifacts or "LARGE" in study.text, artifact)
                found = {name for rows in study.statistics.values() for name in rows}
                for word in re.findall(STATISTIC, study.to_look_at):
                    self.assertTrue(any(name.startswith(word) for name in found), f"no statistic {word}")
                if study.name not in ("all", "theorem_5_3"):
                    self.assertIn(study.name.replace("_", " ").replace("fig", "figure"), study.text.split("\n")[0].lower())

    def test_on_a_planted_model_the_answers_are_the_planted_ones(self):
        self.checked = collections.Counter()
        for study in self.studies:
            if study.name == "theorem_5_3":
                continue
            with self.subTest(study=study.name):
                study.run(self.lab, "planted")
                for name, experiment in study.experiments.items():
                    self.check_planted(study, name, experiment)
        print(dict(self.checked))
        self.assertEqual(set(self.checked), {"slash_heads", "fits", "conditions", *(name for name, _, _ in PLANTED)})

    def check_planted(self, study, name, experiment):
        far = "far" if "large" in name or ("LARGE" in study.text and study.name not in ("all", "fig_3")) else "near"
        wanted = FAR if far == "far" else NEAR
        listed = {table["name"] for table in self.lab.json("results", experiment)["tables"]}
        if "slash_heads" in listed and not (name.endswith("ood") or name == ""):
            self.checked["slash_heads"] += 1
            best = {(int(row["layer"]), int(row["head"])): int(row["best_offset"])
                    for row in self.lab.table(experiment, "slash_heads") if row["dominant"] == "true"}
            self.assertEqual({place: best.get(place) for place in wanted}, wanted)
            if far == "far":
                self.assertEqual(best, wanted)
        statistics = study.statistics.get(name, {})
        for statistic, value, tolerance in PLANTED:
            if statistic in statistics:
                self.checked[statistic] += 1
                self.assertAlmostEqual(float(statistics[statistic]["value"]), value, delta=tolerance, msg=(statistic, name))
        if "fits" in listed:
            self.checked["fits"] += 1
            rows = self.lab.table(experiment, "fits")
            self.assertGreaterEqual({(int(row["layer"]), int(row["head"])) for row in rows}, set(wanted))
            for row in rows:
                self.assertAlmostEqual(float(row["r2_centred"]), 1, delta=1e-6)
        if "conditions" in listed:
            self.checked["conditions"] += 1
            # Values are zero in a planted model, so no edit of queries and keys moves a loss.
            self.assertEqual(len({row["perplexity"] for row in self.lab.table(experiment, "conditions")}), 1)


class RetrievalStudies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab("", worker_flags=["--threads", "1"]).__enter__()
        cls.addClassCleanup(cls.lab.__exit__, None, None, None)
        write_digit_model(cls.lab.models / "needle-tiny", 3, seed=0, positions=2048)
        cls.studies = [Study(path, FEWER) for path in sorted((SOURCE / "studies/retrieval").glob("*.textproto"))]
        steps = sorted({name for study in cls.studies for name in re.findall(r'"(needle-tiny-\d+)"', study.text)})
        for i, name in enumerate(steps):
            write_digit_model(cls.lab.models / name, min(i, 3), seed=i + 1, positions=2048)
        cls.lab.start_worker("w1")

    def test_headers_name_what_is_there(self):
        self.assertEqual(len(self.studies), 19)
        for study in self.studies:
            with self.subTest(study=study.name):
                study.run(self.lab, "")
                for table in re.findall(r"`(\w+)`", study.to_look_at):
                    self.assertIn(table, study.tables)
                found = {name for rows in study.statistics.values() for name in rows}
                for word in set(re.findall(RETRIEVAL_STATISTIC, study.to_look_at)):
                    self.assertTrue(any(name.startswith(word) for name in found), f"no statistic {word}")
                if study.name != "all":
                    self.assertIn(study.name.replace("_", " ").replace("fig", "figure"), study.text.split("\n")[0].lower())

    def test_heads_that_look_at_digits_are_what_is_found(self):
        study = next(study for study in self.studies if study.name == "table_3")
        study.run(self.lab, "")
        found = [(int(row["layer"]), int(row["head"])) for row in self.lab.table(study.experiments["detect"], "head_scores")
                 if row["retrieval"] == "true" and row["metric"] == "argmax"]
        self.assertEqual(found, [(0, 0), (0, 1), (0, 2)])
        controls = collections.Counter(row["control"] for row in self.lab.table(study.experiments["knockout"], "conditions"))
        self.assertEqual(controls["random"] % 10, 0)
        self.assertGreater(controls["random"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
