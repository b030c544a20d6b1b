"""`ropelab-worker verify`, the parity gate: it holds on every reference checkpoint, fails when something is wrong, and what it
found travels with the weights hash into the provenance of an experiment."""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

import numpy

from harness import BIN, FIXTURES, Lab, need_fixtures, read_safetensors

MODELS = FIXTURES / "models"


def verify(model, cache, *flags):
    return subprocess.run([BIN / "ropelab-worker", "verify", "--model", model, "--cache-dir", cache, *flags],
                          capture_output=True, text=True, timeout=300)


def facts_of(done):
    report = json.loads(done.stdout)
    return report, {fact["name"]: fact for fact in report["facts"]}


def write_safetensors(path, tensors):
    """float32 and int64 arrays; an own writer, as `read_safetensors` is an own reader."""
    kinds = {numpy.dtype(numpy.float32): "F32", numpy.dtype(numpy.int64): "I64"}
    header, data = {}, b""
    for name, array in tensors.items():
        raw = numpy.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": kinds[array.dtype], "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


class Verify(unittest.TestCase):
    def setUp(self):
        need_fixtures()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ropelab-verify-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def copy(self, model):
        target = self.folder / model
        shutil.copytree(MODELS / model, target, copy_function=shutil.copyfile)
        return target

    def change_config(self, model, **fields):
        path = model / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))

    def test_holds_on_every_reference_checkpoint(self):
        names = sorted(path.parent.name for path in MODELS.glob("*/config.json"))
        self.assertGreaterEqual(len(names), 10)
        for name in names:
            with self.subTest(model=name):
                done = verify(MODELS / name, self.folder / "cache", "--json")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                report, facts = facts_of(done)
                self.assertTrue(report["passed"])
                expected = read_safetensors(MODELS / name / "expected.safetensors")
                self.assertLessEqual({f"expected_{tensor}" for tensor in expected if tensor != "input_ids"}, set(facts))
                for size in ("blocks_of_1", "blocks_of_7", "blocks_of_64", "one_block"):
                    self.assertLessEqual(facts[f"scores_in_{size}"]["value"], 5e-5)
                print(f"{name:14} {len(facts)} facts; scores {facts['scores_in_blocks_of_7']['value']:.1e}, "
                      f"layer outputs {facts['layer_outputs']['value']:.1e}, bf16 {facts['bfloat16_logits']['value']:.1e}, "
                      f"expected logits {facts['expected_logits']['value']:.1e}")

    def assert_fails(self, model, *names):
        done = verify(model, self.folder / "cache", "--json")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        report, facts = facts_of(done)
        self.assertFalse(report["passed"])
        failed = {name for name, fact in facts.items() if not fact["passed"]}
        self.assertEqual(failed, set(names))
        return facts

    def test_a_changed_expected_value_is_found_where_it_is(self):
        model = self.copy("llama3_a")
        tensors = {name: array.copy() for name, array in read_safetensors(model / "expected.safetensors").items()}
        tensors["attn_probs"][1, 2, 40, 7] += 1e-3
        write_safetensors(model / "expected.safetensors", tensors)
        fact = self.assert_fails(model, "expected_attn_probs")["expected_attn_probs"]
        self.assertIn("layer 1, head 2, row 40, key 7", fact["where"])
        self.assertAlmostEqual(fact["value"], 1e-3, delta=5e-5)

    def test_another_rope_theta_than_the_weights_were_computed_with(self):
        model = self.copy("llama2_a")
        self.change_config(model, rope_theta=20000.0)
        # Nothing that a checkpoint says of itself can tell: the reference tensors do. Queries and keys before RoPE agree in layer 0
        # alone.
        self.assert_fails(model, "expected_attn_probs", "expected_hidden", "expected_logits", "expected_q_pre", "expected_k_pre",
                          "expected_q_rot", "expected_k_rot")

    def test_kv_heads_in_another_order(self):
        model = self.copy("llama3_a")
        config = json.loads((model / "config.json").read_text())
        groups, dims = config["num_key_value_heads"], config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        self.assertGreater(groups, 1)
        tensors = {name: array.copy() for name, array in read_safetensors(model / "model.safetensors").items()}
        for name, array in tensors.items():
            if ".k_proj." in name or ".v_proj." in name:
                tensors[name] = numpy.roll(array.reshape(groups, dims, -1), 1, axis=0).reshape(array.shape)
        write_safetensors(model / "model.safetensors", tensors)
        facts = self.assert_fails(model, "expected_attn_probs", "expected_hidden", "expected_logits", "expected_q_pre",
                                  "expected_k_pre", "expected_q_rot", "expected_k_rot")
        self.assertTrue(facts["kv_head_mapping"]["passed"])

    def test_one_weight_of_a_norm(self):
        model = self.copy("stories260K")
        tensors = {name: array.copy() for name, array in read_safetensors(model / "model.safetensors").items()}
        tensors["model.layers.4.post_attention_layernorm.weight"] *= numpy.float32(1.01)
        write_safetensors(model / "model.safetensors", tensors)
        self.assert_fails(model, "expected_hidden", "expected_logits")

    def test_what_cannot_be_read_is_the_loaders_error(self):
        model = self.copy("llama2_a")
        weights = model / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-100])
        done = verify(model, self.folder / "cache")
        self.assertEqual(done.returncode, 1)
        self.assertIn("model.safetensors", done.stderr)
        self.assertEqual(list((self.folder / "cache").glob("verification-*")) if (self.folder / "cache").exists() else [], [])

        model = self.copy("llama3_a")
        (model / "expected.safetensors").write_bytes(b"\x10" + bytes(7) + b"not a header....")
        done = verify(model, self.folder / "cache")
        self.assertEqual(done.returncode, 1)
        self.assertIn("expected.safetensors", done.stderr)

        self.assertEqual(verify(self.folder / "nowhere", self.folder / "cache").returncode, 1)
        self.assertEqual(verify(model, self.folder / "cache", "--dtype", "int4").returncode, 2)

    def test_expected_tensors_that_say_nothing_of_this_model(self):
        model = self.copy("llama3_a")
        expected = read_safetensors(model / "expected.safetensors")
        far = {name: array.copy() for name, array in expected.items()}
        far["input_ids"].reshape(-1)[3] += 1 << 32  # a valid id once it is cut to 32 bits
        for tensors, words in [(far, f"entry 3 of input_ids is {far['input_ids'].reshape(-1)[3]}; this model's token ids are 0 to 143"),
                               ({"input_ids": expected["input_ids"]}, "expected.safetensors: holds input_ids alone")]:
            write_safetensors(model / "expected.safetensors", tensors)
            done = verify(model, self.folder / "cache", "--tokens", "8,16")
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)
        self.assertEqual(list((self.folder / "cache").glob("verification-*")) if (self.folder / "cache").exists() else [], [])

    def test_a_report_that_nobody_can_read_is_no_success(self):
        model = self.copy("llama3_a")
        with open("/dev/full", "w") as full:
            done = subprocess.run([BIN / "ropelab-worker", "verify", "--model", model, "--tokens", "8,16", "--json", "--cache-dir",
                                   self.folder / "cache"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr), (1, "ropelab-worker verify: standard output cannot be written\n"))

    def test_one_token_cannot_tell_one_head_from_another(self):
        self.assertEqual(verify(self.copy("llama3_a"), self.folder / "cache", "--tokens", "1").returncode, 2)

    def test_every_scaling_of_rope(self):
        long_context = {"original_max_position_embeddings": 64}
        pairs = 8
        scalings = {
            "linear": {"factor": 4.0},
            "dynamic": {"factor": 2.0},
            "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **long_context},
            "yarn": {"factor": 8.0, **long_context},
            "longrope": {"short_factor": [1 + i / 10 for i in range(pairs)], "long_factor": [1 + i for i in range(pairs)],
                         "factor": 8.0, **long_context},
        }
        for kind, fields in scalings.items():
            with self.subTest(scaling=kind):
                model = self.copy("llama2_a")
                (model / "expected.safetensors").unlink()
                self.change_config(model, rope_scaling={"rope_type": kind, **fields}, **(long_context if kind == "longrope" else {}))
                done = verify(model, self.folder / "cache", "--json", "--tokens", "64,100")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                _, facts = facts_of(done)
                self.assertLess(facts["rope_frequencies"]["value"], 1e-6)
                shutil.rmtree(model)

    def test_sixteen_bit_checks_have_their_own_bounds(self):
        for dtype in ("bfloat16", "float16"):
            with self.subTest(dtype=dtype):
                done = verify(MODELS / "llama3_a", self.folder / "cache", "--dtype", dtype, "--json")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertEqual(facts_of(done)[0]["device"], f"cpu {dtype}")

    def test_the_report_reaches_the_provenance(self):
        models = self.folder / "models"
        models.mkdir()
        for name in ("llama2_a", "llama3_a"):
            shutil.copytree(MODELS / name, models / name, copy_function=shutil.copyfile)
        # llama2_a has a report before the worker starts; llama3_a has none.
        with Lab(models, worker_flags=["--threads", "1"]) as lab:
            self.assertEqual(verify(models / "llama2_a", lab.folder / "cache").returncode, 0)
            lab.start_worker("w1")
            for name, verified in (("llama2_a", True), ("llama3_a", False)):
                (experiment,) = lab.submit(f"""
                    name: "x" model: "{name}" dtype: FLOAT32
                    inspection {{ token_ids {{ ids: [1, 2, 3] }} dump: "logits" }}""")
                provenance = lab.client("provenance", experiment, "--json").stdout
                self.assertEqual('"expected_logits"' in provenance, verified, provenance)

    def test_a_damaged_report_is_ignored_and_named(self):
        models = self.folder / "models"
        shutil.copytree(MODELS / "llama2_a", models / "llama2_a", copy_function=shutil.copyfile)
        with Lab(models, worker_flags=["--threads", "1"]) as lab:
            self.assertEqual(verify(models / "llama2_a", lab.folder / "cache").returncode, 0)
            (report,) = (lab.folder / "cache").glob("verification-*.json")
            report.write_text(report.read_text()[:-40])
            worker = lab.start_worker("w1")
            (experiment,) = lab.submit("""
                name: "x" model: "llama2_a" dtype: FLOAT32
                inspection { token_ids { ids: [1, 2, 3] } dump: "logits" }""")
            self.assertNotIn('"expected_logits"', lab.client("provenance", experiment, "--json").stdout)
            self.assertIn(report.name, worker.log.read_text())


if __name__ == "__main__":
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    unittest.main(verbosity=2)
