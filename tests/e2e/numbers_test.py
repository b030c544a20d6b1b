"""The service's numbers against independent.py: the same specs, computed twice by code that has nothing in common."""

import functools
import importlib
import json
import subprocess
import sys
import tempfile
import unittest

import numpy
from google.protobuf import text_format

import independent
from harness import FIXTURES, SOURCE, Lab, need_fixtures, read_safetensors

MODELS = ["stories260K", "llama3_a"]
TENSORS = {"logits": 2e-4, "attn_probs": 5e-5, "q_pre": 2e-4, "k_pre": 2e-4, "q_rot": 2e-4, "k_rot": 2e-4, "hidden": 2e-4,
           "inv_freq": 1e-7, "input_ids": 0}  # largest absolute distances of fp32


def generated_messages(folder):
    """Python's own classes of the proto files, made in `folder`."""
    files = sorted((SOURCE / "proto").rglob("*.proto"))
    subprocess.run(["protoc", "-I", SOURCE / "proto", "--python_out", folder, *files], check=True, capture_output=True)
    sys.path.insert(0, folder)
    return [importlib.import_module(f"ropelab.v1.{name}_pb2") for name in ("spec", "measurement", "reading")]


def slash(model, prompts, more="", head=""):
    return f'name: "numbers" model: "{model}" {head} slash_detection {{ prompts {{ {prompts} }} {more} }}'


class Numbers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_fixtures()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.spec, cls.measurement, cls.reading = generated_messages(folder.name)
        cls.models = {name: independent.Llama(FIXTURES / "models" / name) for name in MODELS}
        cls.lab = Lab(FIXTURES / "models", worker_flags=["--threads", "1"]).__enter__()
        cls.addClassCleanup(cls.lab.__exit__, None, None, None)
        cls.lab.start_worker("w1")
        cls.worst = {}

    @classmethod
    def tearDownClass(cls):
        for what, distance in cls.worst.items():
            print(f"{what:28} largest distance {distance:.2e}")

    @staticmethod
    @functools.lru_cache(maxsize=64)
    def attention(model, ids):
        return Numbers.models[model].forward(ids)["attn_probs"]

    def uniform_prompts(self, model, count, tokens, seed=42, bos=True, special=True):
        model = self.models[model]
        allowed = [i for i in range(model.vocabulary) if special or i not in model.special]
        return [independent.uniform_prompt(seed, s, tokens, allowed, model.bos if bos else None) for s in range(count)]

    def near(self, what, got, wanted, absolute, relative=0.0):
        """At least one of the two must hold, entry by entry; remembers the largest distance, to be printed."""
        got, wanted = numpy.asarray(got, float), numpy.asarray(wanted, float)
        self.assertEqual(got.shape, wanted.shape, what)
        distance = numpy.abs(got - wanted)
        self.worst[what] = max(self.worst.get(what, 0.0), float(distance.max()))
        self.assertTrue((distance <= numpy.maximum(absolute, relative * numpy.abs(wanted))).all(), f"{what}: {distance.max()}")

    def check_slash(self, experiment, model, prompts, first, last, threshold, skip=4, rows="ALL", denominator="KEPT", seed=42):
        """Every row of the three tables for one seed, whose prompts are given as ids."""
        attention = [self.attention(model, tuple(ids)) for ids in prompts]
        mean, error = independent.over_prompts(
            [independent.slash_scores(a, first, last, skip, rows, denominator) for a in attention])
        even = {n: independent.uniform_scores(n, first, last, skip, rows, denominator) for n in set(map(len, prompts))}
        even = numpy.mean([even[len(ids)] for ids in prompts], 0)

        table = {(int(row["layer"]), int(row["head"]), int(row["offset"]) - first): row
                 for row in self.lab.table(experiment, "slash_scores") if row["seed"] == str(seed)}
        self.assertEqual(list(table), list(numpy.ndindex(mean.shape)))
        score, stderr, uniform = (numpy.array([float(row[name]) for row in table.values()]).reshape(mean.shape)
                                  for name in ("score", "stderr", "uniform"))
        self.near("score", score, mean, 1e-6)
        self.near("standard error", stderr, error, 1e-7, relative=1e-3)
        self.near("uniform score", uniform, numpy.broadcast_to(even, mean.shape), 1e-12)
        self.assertEqual({(row["rows"], row["reachable"], row["prompts"]) for row in table.values()},
                         {(rows, "true", str(len(prompts)))})
        self.assertGreater(numpy.abs(mean - threshold).min(), 1e-7, "choose another threshold: a score is on this one")
        dominant = mean >= threshold
        self.assertEqual([row["dominant"] for row in table.values()], ["true" if d else "false" for d in dominant.flat])

        heads = [row for row in self.lab.table(experiment, "slash_heads") if row["seed"] == str(seed)]
        self.assertEqual([(int(row["layer"]), int(row["head"])) for row in heads], list(numpy.ndindex(mean.shape[:2])))
        for row in heads:
            at = int(row["layer"]), int(row["head"])
            best = int(row["best_offset"]) - first
            self.assertGreater(mean[at][best], mean[at].max() - 1e-6)
            self.assertEqual(best, score[at].argmax(), "the smallest offset of a tie")
            for name in ("score", "stderr"):
                self.assertEqual(row[name], table[(*at, best)][name])
            self.assertEqual(row["dominant_offsets"], " ".join(str(first + o) for o in numpy.flatnonzero(dominant[at])))
            self.assertEqual(row["dominant"], "true" if dominant[at].any() else "false")

        small = numpy.mean([independent.slash_scores(a, 0, 9, skip, "ALL", denominator) for a in attention], 0)
        statistics = {row["name"]: row for row in self.lab.table(experiment, "statistics") if row["seed"] == str(seed)}
        for name, scores in (("dominant_heads", mean), ("control_small_offsets", small)):
            wanted = int((scores >= threshold).any(-1).sum())
            self.assertEqual(int(statistics[name]["value"]), wanted, name)
            self.assertEqual(int(statistics[name]["n"]), mean[..., 0].size)
            self.assertEqual(float(statistics[name]["threshold"]), threshold)

    def tasks(self, experiment, kind="slash_profile"):
        """Key, fed ids' digest and measurement of each task, the measurement as the database holds it."""
        found = []
        for task in self.lab.json("provenance", experiment)["tasks"]:
            if task["kind"] == kind:
                ((body,),) = self.lab.database().execute("SELECT body FROM measurements WHERE key = ?", (task["key"],))
                found.append((task, self.measurement.Measurement.FromString(body)))
        return found

    def test_uniform_tokens(self):
        for model in MODELS:
            for skip, rows, denominator, bos, special in [(4, "ALL", "KEPT", True, True), (0, "ALL", "KEPT", False, False),
                                                          (7, "ALL", "DEFINITION", True, False), (0, "COMMON", "KEPT", True, True),
                                                          (4, "COMMON", "KEPT", False, True), (7, "COMMON", "KEPT", True, False)]:
                with self.subTest(model=model, skip=skip, rows=rows, denominator=denominator, bos=bos, special=special):
                    (experiment,) = self.lab.submit(slash(model, f"""uniform_tokens {{ count: 12 tokens: 96
                        bos: {"ALWAYS" if bos else "NEVER"} special_tokens: {str(special).lower()} }}""",
                        f"skip_first: {skip} rows: {rows} denominator: {denominator}"))
                    prompts = self.uniform_prompts(model, 12, 96, bos=bos, special=special)
                    self.check_slash(experiment, model, prompts, 0, 4, 0.1, skip, rows, denominator)

    def test_two_seeds_are_two_results(self):
        seeds = [123, 2**63 - 1]
        (experiment,) = self.lab.submit(slash("stories260K", "uniform_tokens { count: 12 tokens: 48 }", head=f"seeds: {seeds}"))
        for seed in seeds:
            self.check_slash(experiment, "stories260K", self.uniform_prompts("stories260K", 12, 48, seed, bos=False), 0, 4, 0.1,
                             seed=seed)

    def test_large_regime(self):
        for model, tokens, rows in [("stories260K", 512, "ALL"), ("llama3_a", 512, "COMMON"), ("llama3_a", 100, "ALL")]:
            with self.subTest(model=model, tokens=tokens, rows=rows):
                (experiment,) = self.lab.submit(slash(model, f"uniform_tokens {{ count: 3 tokens: {tokens} bos: ALWAYS }}",
                                                      f"regime: LARGE rows: {rows}"))
                first, last, threshold = independent.large_regime(tokens)
                text = self.lab.json("provenance", experiment)["resolved_spec_text"]
                resolved = text_format.Parse(text, self.spec.ExperimentSpec()).slash_detection
                self.assertEqual((resolved.offsets.first, resolved.offsets.last, resolved.threshold), (first, last, threshold))
                self.check_slash(experiment, model, self.uniform_prompts(model, 3, tokens), first, last, threshold, rows=rows)

    def test_prompts_of_different_lengths(self):
        lengths = [40, 96, 17, 200, 33, 64, 96, 128, 50, 77, 300]
        for model in MODELS:
            prompts = [self.uniform_prompts(model, i + 1, n, seed=9)[i] for i, n in enumerate(lengths)]
            typed = " ".join(f"prompts {{ ids: {ids} }}" for ids in prompts)
            (experiment,) = self.lab.submit(slash(model, f"token_ids {{ {typed} }}", "offsets { first: 1 last: 9 } threshold: 0.07"))
            self.check_slash(experiment, model, prompts, 1, 9, 0.07)

    def test_sampled_tokens(self):
        for model in MODELS:
            for temperature in (1.0, 0.5, 0.01):
                with self.subTest(model=model, temperature=temperature):
                    (experiment,) = self.lab.submit(
                        slash(model, f"sampled {{ count: 12 tokens: 96 temperature: {temperature} }}", "rows: COMMON"))
                    prompts = {}
                    for task, _ in self.tasks(experiment, "sampling"):
                        bodies = self.lab.database().execute("SELECT body FROM readings WHERE task = ? ORDER BY sequence",
                                                             (task["task"],))
                        block = [self.reading.Reading.FromString(body).sampled_tokens for (body,) in bodies]
                        prompts |= {one.sample: list(one.ids.ids) for one in block}
                        self.assertEqual(task["fed_ids_digest"], independent.fed_ids_digest([one.ids.ids for one in block]))
                    self.assertEqual(sorted(prompts), list(range(12)))
                    # Each drawn token is held to the logits after the tokens before it, the service's own.
                    compared = close = 0
                    for sample, ids in prompts.items():
                        self.assertEqual((ids[0], len(ids)), (self.models[model].bos, 96))
                        logits = self.models[model].forward(ids[:-1])["logits"]
                        choices, margins = independent.sampling_choices(logits, 42, sample, temperature)
                        sure = numpy.array(margins) > 1e-5
                        self.assertTrue((numpy.array(choices) == ids[1:])[sure].all(), f"sample {sample}")
                        compared, close = compared + sure.sum(), close + (~sure).sum()
                    print(f"{model:12} temperature {temperature}: {compared} tokens as drawn, {close} too close to call")
                    self.assertLess(close, 12)
                    if temperature == 1.0:
                        self.check_slash(experiment, model, [prompts[s] for s in range(12)], 0, 4, 0.1, rows="COMMON")

    def test_inspection(self):
        for model in MODELS:
            (ids,) = self.uniform_prompts(model, 1, 64, seed=7, bos=False)
            (experiment,) = self.lab.submit(f"""name: "numbers" model: "{model}"
                inspection {{ token_ids {{ ids: {ids} }} dump: {json.dumps(list(TENSORS))} }}""")
            out = self.lab.folder / f"{model}.safetensors"
            self.lab.client("results", experiment, "--artifact", "tensors.safetensors", "-o", out)
            got = read_safetensors(out)
            wanted = self.models[model].forward(ids) | {"inv_freq": self.models[model].inv_freq, "input_ids": ids}
            for name, tolerance in TENSORS.items():
                self.near(f"{name} of {model}", got[name], wanted[name], tolerance)
            ((task, _),) = self.tasks(experiment, "inspection")
            self.assertEqual(task["fed_ids_digest"], independent.fed_ids_digest([ids]))

    def test_narrow_types(self):
        for model in MODELS:
            prompts = self.uniform_prompts(model, 12, 96)
            wanted = numpy.mean([independent.slash_scores(self.attention(model, tuple(ids)), 0, 4, 4, "ALL", "KEPT")
                                 for ids in prompts], 0)
            for dtype, tolerance in [("BFLOAT16", 5e-3), ("FLOAT16", 5e-4)]:
                (experiment,) = self.lab.submit(
                    slash(model, "uniform_tokens { count: 12 tokens: 96 bos: ALWAYS }", head=f"dtype: {dtype}"))
                got = [float(row["score"]) for row in self.lab.table(experiment, "slash_scores")]
                self.near(f"score in {dtype} of {model}", numpy.reshape(got, wanted.shape), wanted, tolerance)

    def test_hashes_and_digests(self):
        (experiment,) = self.lab.submit(slash("llama3_a", "uniform_tokens { count: 12 tokens: 64 bos: ALWAYS special_tokens: false }",
                                              "offsets { first: 3 last: 20 } threshold: 0.05", 'tags: ["a", "b"] priority: BATCH'))
        provenance = self.lab.json("provenance", experiment)
        spec = text_format.Parse(provenance["resolved_spec_text"], self.spec.ExperimentSpec())
        self.assertEqual(provenance["spec_hash"], independent.canonical_hash(spec))
        prompts = self.uniform_prompts("llama3_a", 12, 64, special=False)
        tasks = self.tasks(experiment)
        self.assertEqual({(m.slash_profile.prompts.samples.first_sample, m.slash_profile.prompts.samples.count) for _, m in tasks},
                         {(0, 8), (8, 4)})
        for task, measurement in tasks:
            self.assertEqual(task["key"], independent.canonical_hash(measurement))
            samples = measurement.slash_profile.prompts.samples
            block = prompts[samples.first_sample : samples.first_sample + samples.count]
            self.assertEqual(task["fed_ids_digest"], independent.fed_ids_digest(block))

    def test_bytes_do_not_depend_on_workers_and_whole_blocks_are_shared(self):
        specs = [slash("stories260K", "uniform_tokens { count: 28 tokens: 96 }", "rows: COMMON"),
                 slash("llama3_a", "sampled { count: 12 tokens: 64 }", "skip_first: 7")]
        tables = ["slash_scores", "slash_heads", "statistics"]
        bytes_of = lambda lab: [lab.csv_bytes(lab.submit(spec)[0], table) for spec in specs for table in tables]
        with Lab(FIXTURES / "models", worker_flags=["--threads", "1"]) as two:
            two.start_worker("a", wait=False)
            two.start_worker("b")
            two.workers["a"].wait_for("ready")
            self.assertEqual(bytes_of(two), bytes_of(self.lab))
            used = {row[0] for row in two.database().execute("SELECT worker FROM attempts WHERE outcome = 'finished'")}
            self.assertEqual(used, {"a", "b"})

            keys = {}
            for count in (8, 12):
                (experiment,) = two.submit(slash("stories260K", f"uniform_tokens {{ count: {count} tokens: 80 }}"))
                keys[count] = {t["key"]: t["reused"] for t in two.json("provenance", experiment)["tasks"]}
            self.assertTrue(keys[8].keys() < keys[12].keys())
            self.assertEqual({key: reused for key, reused in keys[12].items()}, {key: key in keys[8] for key in keys[12]})


if __name__ == "__main__":
    unittest.main(verbosity=2)
