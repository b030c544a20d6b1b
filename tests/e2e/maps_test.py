"""Average attention maps against independent.py, and studies whose experiments take heads from each other."""

import time
import unittest

import numpy

import independent
from harness import FIXTURES, Lab, need_fixtures, read_safetensors

TOKENS, COUNT = 90, 12
SOURCE = f"uniform_tokens {{ count: {COUNT} tokens: {TOKENS} bos: NEVER }}"


def detection(name, model, more="", head=""):
    return f'name: "{name}" model: "{model}" {head} slash_detection {{ prompts {{ {SOURCE} }} {more} }}'


def study(model, threshold=0.05, heads='slash_dominant { experiment: "detect" top: 3 }'):
    maps = detection("maps", model, f"maps {{ heads {{ {heads} }} size: 16 }}")
    return f'name: "study" experiments {{ {maps} }} experiments {{ {detection("detect", model, f"threshold: {threshold}")} }}'


class Maps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_fixtures()
        cls.lab = Lab(FIXTURES / "models", worker_flags=["--threads", "1"]).__enter__()
        cls.addClassCleanup(cls.lab.__exit__, None, None, None)
        cls.lab.start_worker("w1")

    def file(self, lab, experiment, name="maps.safetensors"):
        out = lab.folder / f"{experiment}.{name}"
        lab.client("results", experiment, "--artifact", name, "-o", out)
        return out

    def mean_attention(self, model):
        model = independent.Llama(FIXTURES / "models" / model)
        prompts = [independent.uniform_prompt(42, s, TOKENS, list(range(model.vocabulary))) for s in range(COUNT)]
        return numpy.mean([model.forward(ids)["attn_probs"] for ids in prompts], 0)

    def near(self, got, wanted):
        """A cell may be one probability: exp of an fp32 logit, which is known to some 2e-5 on any instruction set, and so
        is the probability, relatively. 1e-7 absolute will also do."""
        self.assertLess((numpy.abs(got - wanted) - 5e-5 * numpy.abs(wanted)).max(), 1e-7)

    def check(self, experiment, mean, heads, size):
        tensors = read_safetensors(self.file(self.lab, experiment))
        self.assertEqual(set(tensors), {f"L{l}H{h}.{part}" for l, h in heads for part in ("map", "diagonals")})
        cell = numpy.arange(TOKENS) * size // TOKENS if TOKENS > size else numpy.arange(TOKENS)
        cells = min(size, TOKENS)
        series = {(row["name"], float(row["x"])): row["y"] for row in self.lab.table(experiment, "series")}
        self.assertEqual(len(series), len(heads) * TOKENS)
        rows, keys = numpy.tril_indices(TOKENS)
        for layer, head in heads:
            sums, counts = numpy.zeros((cells, cells)), numpy.zeros((cells, cells))
            numpy.add.at(sums, (cell[rows], cell[keys]), mean[layer, head][rows, keys])
            numpy.add.at(counts, (cell[rows], cell[keys]), 1)
            got = tensors[f"L{layer}H{head}.map"]
            self.assertTrue((numpy.isnan(got) == (counts == 0)).all())
            wanted = sums[counts > 0] / counts[counts > 0]
            self.near(got[counts > 0], wanted)
            diagonals = tensors[f"L{layer}H{head}.diagonals"]
            for offset in range(TOKENS):
                wanted = numpy.diagonal(mean[layer, head], -offset).mean()
                self.near(diagonals[offset], wanted)
                self.assertEqual(float(series[f"diagonal.L{layer}H{head}", float(offset)]), diagonals[offset])

    def test_listed_heads(self):
        for model in ("stories260K", "llama3_a"):
            mean = self.mean_attention(model)
            for size in (7, 256):
                with self.subTest(model=model, size=size):
                    (experiment,) = self.lab.submit(detection("maps", model, f"""maps {{ size: {size} heads {{ list {{
                        head {{ layer: 1 head: 3 }} head {{ layer: 0 head: 2 }} }} }} }}"""))
                    self.check(experiment, mean, [(0, 2), (1, 3)], size)

    def test_heads_that_another_experiment_found(self):
        maps, detect = self.lab.submit(study("stories260K"))
        rows = [row for row in self.lab.table(detect, "slash_heads") if row["dominant"] == "true"]
        best = sorted(rows, key=lambda row: (-float(row["score"]), int(row["layer"]), int(row["head"])))[:3]
        self.assertEqual(len(best), 3, "choose another threshold")
        self.check(maps, self.mean_attention("stories260K"), sorted((int(r["layer"]), int(r["head"])) for r in best), 16)
        statistics = {row["name"]: row for row in self.lab.table(maps, "statistics")}
        self.assertEqual(statistics["mapped_heads"]["value"], "3")

    def test_no_head_found_is_no_map(self):
        maps, _ = self.lab.submit(study("llama3_a", threshold=0.99))
        self.assertEqual(self.lab.table(maps, "series"), [])
        statistics = {row["name"]: row for row in self.lab.table(maps, "statistics")}
        self.assertEqual(statistics["mapped_heads"]["value"], "0")

    def test_seeds_have_files_of_their_own(self):
        (experiment,) = self.lab.submit(detection("maps", "llama3_a", """maps { size: 8 heads { list { head { layer: 0 head: 0 } } } }""",
                                                  head="seeds: [3, 4]"))
        names = {row["name"] for row in self.lab.table(experiment, "series")}
        self.assertEqual(names, {"diagonal.L0H0.seed3", "diagonal.L0H0.seed4"})
        three, four = (read_safetensors(self.file(self.lab, experiment, f"maps.llama3_a.{seed}.safetensors")) for seed in (3, 4))
        self.assertFalse(numpy.array_equal(three["L0H0.diagonals"], four["L0H0.diagonals"]))

    def test_bytes_do_not_depend_on_workers(self):
        with Lab(FIXTURES / "models", worker_flags=["--threads", "1"]) as two:
            two.start_worker("a", wait=False)
            two.start_worker("b")
            two.workers["a"].wait_for("ready")
            here, there = self.lab.submit(study("stories260K"))[0], two.submit(study("stories260K"))[0]
            self.assertEqual(self.file(self.lab, here).read_bytes(), self.file(two, there).read_bytes())
            for table in ("series", "slash_scores", "statistics"):
                self.assertEqual(self.lab.csv_bytes(here, table), two.csv_bytes(there, table), table)

    def test_an_experiment_waits_for_its_heads_and_fails_with_their_source(self):
        with Lab(FIXTURES / "models") as lab:
            lab.start_worker("w").stop()  # the models are known, and nobody is there to measure
            maps, detect = lab.submit(study("llama3_a"), wait=False)
            reason = f"waiting for experiment detect ({detect})"
            end = time.monotonic() + 20
            while reason not in lab.client("show", maps).stdout and time.monotonic() < end:
                time.sleep(0.1)
            self.assertIn(reason, lab.client("show", maps).stdout)
            lab.client("cancel", detect)
            end = time.monotonic() + 20
            while "failed" not in lab.client("show", maps).stdout and time.monotonic() < end:
                time.sleep(0.1)
            shown = lab.client("show", maps).stdout
            self.assertIn(f"experiment detect ({detect}), from which its heads come, is cancelled", shown)

    def test_a_waiting_experiment_goes_on_after_the_server_was_killed(self):
        with Lab(FIXTURES / "models") as lab:
            lab.start_worker("w").stop()
            maps, detect = lab.submit(study("llama3_a"), wait=False)
            lab.server.kill()
            lab.start_server(lab.address)
            lab.start_worker("v")
            lab.client("watch", maps, seconds=120)
            self.assertIn("done", lab.client("show", maps).stdout)
            self.assertIn("done", lab.client("show", detect).stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
