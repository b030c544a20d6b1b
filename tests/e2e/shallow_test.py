"""A transformer of two layers that must learn a slash, through the service: the theorem's levels, the settings that must fail, the same
trajectory as independent_shallow.py's, the same bytes whoever trains it.
"""

import time
import unittest

import independent_shallow
from harness import SOURCE, Lab

FIGURES = ["min_slash", "mean_slash", "feature_share", "loss"]


def shallow(name, fields, head=""):
    return f'name: "{name}" {head} shallow_training {{ {fields} }}'


def study(**experiments):
    return 'name: "shallow"\n' + "\n".join(f"experiments {{ {shallow(name, fields)} }}" for name, fields in experiments.items())


def statistics(lab, experiment):
    return {row["name"]: row for row in lab.table(experiment, "statistics")}


def value(rows, name):
    assert rows[name]["value"], f"{name}: {rows[name]['undefined_because']}"
    return float(rows[name]["value"])


class Theorem(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lab = Lab("", worker_flags=["--threads", "1"]).__enter__()
        cls.addClassCleanup(cls.lab.__exit__, None, None, None)
        cls.lab.start_worker("w1")

    def test_both_stages_reach_the_levels_at_every_offset(self):
        experiments = self.lab.submit(study(one="", two="offset: 2", three="offset: 3",
                                            fast="stage1 { learning_rate: 100 steps: 2 } stage2 { steps: 0 }"))
        for offset, experiment in enumerate(experiments[:3], start=1):
            rows = statistics(self.lab, experiment)
            self.assertLessEqual(value(rows, "full.steps_to_slash"), 50)
            self.assertAlmostEqual(value(rows, "full.steps_to_slash"), 13, delta=3)
            self.assertLessEqual(value(rows, "full.steps_to_slash"), value(rows, "bound.stage1_steps"))
            self.assertLessEqual(value(rows, "full.fresh_loss"), 0.01)
            self.assertGreaterEqual(value(rows, "full.fresh_feature_share"), 0.93)
            self.assertLessEqual(value(rows, "full.scaled_loss_relative_to_fresh"), 2)
            self.assertLessEqual(value(rows, "full.shifted_loss_relative_to_fresh"), 2)
            self.assertLess(value(rows, "assumption.epsilon_over_c1"), 1e-12)
            self.assertEqual({row["seed"] for row in rows.values()}, {"42"})
            print(f"offset {offset}:", {name: rows[name]["value"] for name in (
                "full.steps_to_slash", "bound.stage1_steps", "full.stage2_steps_to_feature", "full.stage2_steps_to_loss",
                "bound.stage2_steps", "full.start_loss", "full.stage1_end_loss", "full.fresh_loss", "full.fresh_feature_share",
                "full.scaled_loss_relative_to_fresh", "full.shifted_loss_relative_to_fresh")})
        self.assertIn(value(statistics(self.lab, experiments[3]), "full.steps_to_slash"), (1, 2))

    def test_counter_experiments_fail_as_they_must(self):
        for offset in (1, 3):
            (experiment,) = self.lab.submit(shallow("counter", f"offset: {offset} stage2 {{ steps: 0 }} counter_experiments: true"))
            rows = statistics(self.lab, experiment)
            for name in ("zero", "slow"):
                self.assertLess(value(rows, f"{name}.highest_min_slash"), 0.05)
                self.assertEqual(value(rows, f"{name}.fails"), 1)
            self.assertLessEqual(value(rows, "alias.highest_min_slash"), 0.5)
            self.assertEqual(value(rows, "alias.fails"), 1)
            bands = {name: value(rows, f"{name}.steps_to_slash") for name in ("no_high", "no_medium", "no_low", "no_high_medium")}
            print(f"offset {offset}: {bands} {rows['alias.highest_min_slash']['value']}")
            for name in ("no_high", "no_medium", "no_low"):
                self.assertAlmostEqual(bands[name], 20, delta=6)
                self.assertAlmostEqual(value(rows, f"{name}.steps_ratio"), bands[name] / value(rows, "full.steps_to_slash"))
            self.assertAlmostEqual(bands["no_high_medium"], 135, delta=40)

    def compare(self, fields, end, **run):
        (experiment,) = self.lab.submit(shallow("numbers", fields, f"seeds: {run['seed']}"))
        rows, ends = independent_shallow.train(**run)
        series = {}
        for row in self.lab.table(experiment, "series"):
            series.setdefault(row["name"], []).append((float(row["x"]), float(row["y"])))
        worst = {"first": 0, "all": 0}
        first_of_stage = {*range(6), *range(run["steps"][0], run["steps"][0] + 6)}
        for figure in FIGURES:
            points = series[f"seed_{run['seed']}.full.{figure}"]
            self.assertEqual([x for x, _ in points], list(range(len(rows))))
            for step, (_, y) in enumerate(points):
                distance = abs(y - rows[step][figure]) / abs(rows[step][figure])
                worst["all"] = max(worst["all"], distance)
                if step in first_of_stage:
                    worst["first"] = max(worst["first"], distance)
        self.assertLess(worst["first"], 1e-9)
        self.assertLess(worst["all"], end)
        found = statistics(self.lab, experiment)
        for law, (loss, half_square) in ends.items():
            worst[law] = abs(value(found, f"full.{law}_loss") / loss - 1)
            self.assertLess(worst[law], end)
            self.assertAlmostEqual(value(found, f"full.{law}_loss_relative"), loss / half_square, delta=end)
        print(f"{fields}: largest relative distances {worst}")

    def test_the_trajectory_is_that_of_numpy(self):
        self.compare("stage1 { steps: 50 } stage2 { steps: 100 }", end=1e-10,
                     features=4, pairs=32, offset=1, rates=(1, 10), steps=(50, 100), seed=42)
        self.compare("features: 3 pairs: 33 offset: 3 stage1 { steps: 20 } stage2 { steps: 30 }", end=1e-10,
                     features=3, pairs=33, offset=3, rates=(1, 10), steps=(20, 30), seed=7)
        theta = [2.5, 1.25, 1.0, 0.3]
        self.compare(f"features: 2 pairs: 8 offset: 2 frequencies {{ list {{ theta: {theta} }} }} stage1 {{ steps: 30 }} "
                     "stage2 { steps: 30 learning_rate: 3 }", end=1e-10,
                     features=2, pairs=8, offset=2, rates=(1, 3), steps=(30, 30), seed=3, theta=theta)

    def test_cancelling_stops_between_two_steps(self):
        (endless,) = self.lab.submit(shallow("endless", "stage1 { steps: 10000 } stage2 { steps: 10000 }"), wait=False)
        end = time.monotonic() + 60
        while self.lab.json("show", endless)["state"] != "running":
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        self.lab.client("cancel", endless)
        began = time.monotonic()
        self.lab.submit(shallow("short", "pairs: 4 stage1 { steps: 1 } stage2 { steps: 1 }"))
        self.assertLess(time.monotonic() - began, 20)  # the endless one takes a minute at least

    def test_what_cannot_be_trained_is_refused_and_costs_are_told(self):
        refused = self.lab.client("submit", self.lab.write_spec(shallow("x", "pairs: 32 offset: 3")), expect=4).stderr
        for words in ("shallow_training.pairs", "32", "30 or 33"):
            self.assertIn(words, refused)
        told = self.lab.client("validate", self.lab.write_spec(shallow("x", "counter_experiments: true"))).stdout
        print(told)
        self.assertIn("8", told)
        study_file = self.lab.client("validate", SOURCE / "studies/slash/theorem_5_3.textproto").stdout
        self.assertEqual(study_file.count("shallow_training"), 4)


class SameBytes(unittest.TestCase):
    SPEC = shallow("bytes", "pairs: 16 stage1 { steps: 50 } counter_experiments: true", "seeds: [1, 2]")

    def trained_by(self, workers, kill=False):
        with Lab("", server_flags=["--lease-seconds", "2"], worker_flags=["--threads", "1"]) as lab:
            for worker in range(workers):
                lab.start_worker(f"w{worker}")
            (experiment,) = lab.submit(self.SPEC, wait=False)
            if kill:
                end = time.monotonic() + 60
                while int(lab.json("show", experiment).get("tasks_done", 0)) < 1:
                    self.assertLess(time.monotonic(), end)
                    time.sleep(0.02)
                lab.workers["w0"].kill()
                lab.server.kill()
                lab.start_server(lab.address)
                lab.start_worker("w0")
            lab.client("watch", experiment)
            self.assertEqual(lab.json("show", experiment)["state"], "done")
            attempts = lab.database().execute("SELECT worker, outcome, count(*) FROM attempts GROUP BY 1, 2").fetchall()
            print(attempts)
            self.assertEqual(any(outcome != "finished" for _, outcome, _ in attempts), kill)
            if not kill:
                self.assertEqual(len(attempts), workers)
            return [lab.csv_bytes(experiment, table) for table in ("series", "statistics")]

    def test_one_worker_or_three_and_after_a_kill(self):
        one = self.trained_by(1)
        self.assertGreater(len(one[0]), 100000)
        self.assertEqual(self.trained_by(3), one)
        self.assertEqual(self.trained_by(3, kill=True), one)


if __name__ == "__main__":
    unittest.main(verbosity=2)
