"""checkpoint_sweep and precision_test on a training that never was: models made by hand whose heads look at digits from some
checkpoint on, so that every count, the onset and the utilities are known; against numpy."""

import shutil
import unittest

import numpy

from digit_model import HEADS, LAYERS, head_utilities, write_digit_model
from harness import Lab

COUNTS = [0, 1, 0, 1, 1, 6, 6, 8, 7, 7]  # heads of each checkpoint that look at digits
NEEDLES = """needles { context_lengths: [256, 320] depths: [0.1, 0.5, 0.9] samples_per_cell: 2 haystack { generated {} }
                       code_alphabet: "0123456789" }"""


def sweep(names, tokens=True, more=""):
    points = "".join(f'checkpoints {{ model: "{name}" {f"tokens_seen: {1000 * (i + 1)}" if tokens else ""} }}\n'
                     for i, name in enumerate(names))
    return f'name: "training" checkpoint_sweep {{ {points} detection {{ {NEEDLES} metrics: [ARGMAX, MASS] }} {more} }}'


class Sweeps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab("", worker_flags=["--threads", "1"]).__enter__()
        cls.addClassCleanup(cls.lab.__exit__, None, None, None)
        cls.names = [f"step-{i}" for i in range(len(COUNTS))]
        cls.queries = [write_digit_model(cls.lab.models / name, on, seed=i) for i, (name, on) in enumerate(zip(cls.names, COUNTS))]
        shutil.copytree(cls.lab.models / "step-4", cls.lab.models / "step-4-again")
        cls.lab.start_worker("w1")
        (cls.experiment,) = cls.lab.submit(sweep(cls.names))

    def statistics(self, experiment, **wanted):
        def fits(row):
            return all(row[k] == v if isinstance(v, str) else row[k] != "" and float(row[k]) == v for k, v in wanted.items())

        return [row for row in self.lab.table(experiment, "statistics") if fits(row)]

    def one(self, experiment, **wanted):
        rows = self.statistics(experiment, **wanted)
        self.assertEqual(len(rows), 1, (wanted, rows))
        return rows[0]

    def detection_tasks(self):
        return self.lab.database().execute("SELECT count(*) FROM tasks WHERE kind = 'needle_attention'").fetchone()[0]

    def test_counts_and_utilities_are_those_of_the_weights(self):
        for name, count, query in zip(self.names, COUNTS, self.queries):
            labelled = [(int(r["layer"]), int(r["head"])) for r in self.lab.table(self.experiment, "head_scores")
                        if r["checkpoint"] == name and r["metric"] == "argmax" and r["retrieval"] == "true"]
            self.assertEqual(labelled, [divmod(i, HEADS) for i in range(count)], name)
            row = self.one(self.experiment, name="retrieval", checkpoint=name, detector="argmax", threshold=0.1)
            self.assertEqual(float(row["value"]), count)
            utilities = head_utilities(query)
            self.assertAlmostEqual(float(self.one(self.experiment, name="mean_utility", checkpoint=name)["value"]),
                                   utilities.mean(), 12)
            row = self.one(self.experiment, name="T", checkpoint=name, detector="argmax", threshold=0.1)
            if 0 < count < LAYERS * HEADS:
                flat = utilities.reshape(-1)
                self.assertAlmostEqual(float(row["value"]), flat[:count].mean() - flat[count:].mean(), 12)
            else:
                self.assertEqual(row["value"], "")
                self.assertNotEqual(row["undefined_because"], "")

    def test_curves_onset_and_correlation(self):
        curves = {}
        for row in self.lab.table(self.experiment, "series"):
            curves.setdefault(row["name"], []).append((float(row["x"]), float(row["y"])))
        axis = [1000 * (i + 1) for i in range(len(COUNTS))]
        self.assertEqual(curves["seed_42.argmax.retrieval"], list(zip(axis, COUNTS)))
        smoothed = [numpy.median(COUNTS[min(max(i - 2, 0), len(COUNTS) - 5):][:5]) for i in range(len(COUNTS))]
        self.assertEqual(curves["seed_42.argmax.retrieval_smoothed"], list(zip(axis, smoothed)))
        means = [head_utilities(query).mean() for query in self.queries]
        numpy.testing.assert_allclose([y for _, y in curves["mean_utility"]], means, rtol=1e-12)
        row = self.one(self.experiment, name="pearson", detector="argmax")
        self.assertAlmostEqual(float(row["value"]), numpy.corrcoef(COUNTS, means)[0, 1], 10)
        for name in ("onset", "onset_smoothed", "onset_paper"):
            row = self.one(self.experiment, name=name, detector="argmax")
            self.assertEqual((float(row["value"]), row["checkpoint"]), (6000, "step-5"), name)
        print(f"counts {COUNTS}, smoothed {smoothed}, onset at {row['checkpoint']}")

    def test_a_detection_measures_none_of_it_again(self):
        (experiment,) = self.lab.submit(f'model: "step-7" retrieval_detection {{ {NEEDLES} metrics: [ARGMAX, MASS] }}')
        own = [{k: v for k, v in row.items() if k != "checkpoint"} for row in self.lab.table(experiment, "head_scores")]
        swept = [{k: v for k, v in row.items() if k != "checkpoint"}
                 for row in self.lab.table(self.experiment, "head_scores") if row["checkpoint"] == "step-7"]
        self.assertEqual(own, swept)
        tasks = self.detection_tasks()
        self.assertGreater(tasks, 0)
        (again,) = self.lab.submit(sweep(self.names[5:], tokens=False))
        self.assertEqual(self.detection_tasks(), tasks)
        self.assertEqual(self.statistics(again, name="onset", detector="argmax")[0]["value"], "")  # it starts high

    def test_consecutive_checkpoints_of_equal_weights_stop_it(self):
        done = self.lab.client("submit", self.lab.write_spec(sweep(["step-3", "step-4", "step-4-again"])), "--wait", expect=None)
        self.assertIn(done.returncode, (1, 4), done.stderr)  # refused at once where both hashes are known already
        for part in ("step-4", "step-4-again", "the same weights"):
            self.assertIn(part, done.stdout + done.stderr)

    def test_wrong_specs_are_refused_with_the_field(self):
        for text, words in ((sweep(["step-3"]), ["checkpoint_sweep.checkpoints", "at least two"]),
                            (sweep(["step-3", "nowhere"]), ["checkpoint_sweep.checkpoints[1].model", "nowhere"]),
                            (sweep(["step-3", "step-4"], more="smoothing_window: 2"), ["smoothing_window", "odd"]),
                            ('model: "step-3" ' + sweep(["step-3", "step-4"]), ["model", "leave it out"]),
                            (f'model: "step-3" dtype: FLOAT32 precision_test {{ detection {{ {NEEDLES} }} }}', ["dtype"])):
            done = self.lab.client("submit", self.lab.write_spec(text), expect=4)
            for word in words:
                self.assertIn(word, done.stdout + done.stderr)

    def test_precision(self):
        (experiment,) = self.lab.submit(
            f'model: "step-5" precision_test {{ dtypes: [FLOAT32, BFLOAT16, INT8] detection {{ {NEEDLES} }} }}')
        rows = self.lab.table(experiment, "head_scores")
        scores = {}
        for row in rows:
            if row["context_length"] == "" and row["metric"] == "mass":
                scores.setdefault(row["dtype"], []).append(float(row["score"]))
        self.assertEqual(set(scores), {"FLOAT32", "BFLOAT16", "INT8"})
        for dtype in ("BFLOAT16", "INT8"):
            # Digits stand out far: no rounding moves a head over the threshold.
            row = self.one(experiment, name="jaccard", dtype=dtype, detector="argmax")
            self.assertEqual((float(row["value"]), int(row["n"])), (1, COUNTS[5]))
            self.assertEqual(float(self.one(experiment, name="shared_heads", dtype=dtype, detector="argmax")["value"]), COUNTS[5])
            ranks = [numpy.searchsorted(numpy.sort(scores[d]), scores[d], "left")
                     + numpy.searchsorted(numpy.sort(scores[d]), scores[d], "right") for d in ("FLOAT32", dtype)]
            row = self.one(experiment, name="spearman", dtype=dtype, detector="mass")
            self.assertAlmostEqual(float(row["value"]), numpy.corrcoef(ranks)[0, 1], 10)
        self.assertEqual(self.statistics(experiment, name="jaccard", dtype="FLOAT32"), [])
        utilities = head_utilities(self.queries[5]).reshape(-1)
        for dtype, tolerance in (("FLOAT32", 1e-12), ("BFLOAT16", 0.02), ("INT8", 0.02)):
            row = self.one(experiment, name="T", dtype=dtype, detector="argmax", threshold=0.1)
            self.assertAlmostEqual(float(row["value"]), utilities[:6].mean() - utilities[6:].mean(), delta=tolerance)

    def test_bytes_do_not_depend_on_workers(self):
        tables = ("head_scores", "needle_samples", "series", "statistics")
        before = {name: self.lab.csv_bytes(self.experiment, name) for name in tables}
        with Lab(self.lab.models, worker_flags=["--threads", "1"]) as other:
            for worker in ("w1", "w2"):
                other.start_worker(worker)
            (experiment,) = other.submit(sweep(self.names))
            self.assertEqual({name: other.csv_bytes(experiment, name) for name in tables}, before)


if __name__ == "__main__":
    unittest.main(verbosity=2)
