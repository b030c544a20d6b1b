"""Bad input is refused at the door or fails its own experiment, with a sentence that names the thing and the remedy."""

import json
import shutil
import struct
import subprocess
import unittest

from harness import BIN, FIXTURES, Lab, need_fixtures


def uniform(model, prompts="count: 2 tokens: 64", more=""):
    return f"""name: "bad input" model: "{model}"
               slash_detection {{ prompts {{ uniform_tokens {{ {prompts} }} }} {more} }}"""


class BadInput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_fixtures()
        cls.lab = Lab("", server_flags=["--lease-seconds", "3"], worker_flags=["--threads", "1"]).__enter__()
        cls.models = cls.lab.folder / "models"
        for name in ["good", "truncated", "lying", "nan", "stranger"]:
            shutil.copytree(FIXTURES / "models/stories260K", cls.models / name)
            for path in [cls.models / name, *(cls.models / name).iterdir()]:
                path.chmod(0o755)
        weights = cls.models / "truncated/model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1000])
        weights = cls.models / "lying/model.safetensors"
        data = bytearray(weights.read_bytes())
        data[:8] = struct.pack("<Q", 1 << 40)
        weights.write_bytes(data)
        weights = cls.models / "nan/model.safetensors"
        data = bytearray(weights.read_bytes())
        data[-4:] = struct.pack("<f", float("nan"))
        weights.write_bytes(data)
        config = cls.models / "stranger/config.json"
        text = json.loads(config.read_text())
        text["model_type"] = "mamba"
        config.write_text(json.dumps(text))
        cls.lab.models = cls.models
        cls.lab.start_worker("w1")

    @classmethod
    def tearDownClass(cls):
        cls.lab.__exit__(None, None, None)

    def refused(self, spec, *words, exit_code=4, name="spec.textproto"):
        path = self.lab.write_spec(spec, name)
        for command in ("validate", "submit"):
            done = self.lab.client(command, path, expect=exit_code)
            for word in words:
                self.assertIn(word, done.stderr + done.stdout, f"{command}: {spec}")
        print(done.stderr.strip())

    def fails(self, spec, *words):
        path = self.lab.write_spec(spec)
        done = self.lab.client("submit", path, "--wait", expect=None, seconds=60)
        self.assertIn(done.returncode, (1, 4), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr + done.stdout)
        print(done.stderr.strip())

    def test_unknown_model(self):
        self.refused(uniform("no-such-model"), "no-such-model", "good")

    def test_unknown_family(self):
        self.refused(uniform("stranger"), "mamba", "llama")

    def test_truncated_weights(self):
        self.fails(uniform("truncated"), "model.safetensors")

    def test_header_longer_than_the_file(self):
        self.fails(uniform("lying"), "model.safetensors")

    def test_weights_that_are_not_numbers(self):
        self.fails(uniform("nan"), "model.safetensors", "NaN")

    def test_prompt_longer_than_the_model(self):
        self.refused(uniform("good", "count: 2 tokens: 513"), "slash_detection.prompts.uniform_tokens.tokens", "513", "512")

    def test_offsets_beyond_the_prompt(self):
        self.refused(uniform("good", more="offsets { first: 0 last: 64 }"), "slash_detection.offsets.last", "64")

    def test_unknown_field_in_text(self):
        self.refused(uniform("good", more="treshold: 0.1"), "treshold", "spec.textproto:", exit_code=2)

    def test_unknown_field_in_json(self):
        spec = {"name": "j", "model": "good", "slash_detection": {"treshold": 0.1}}
        self.refused(json.dumps(spec), "treshold", exit_code=2, name="spec.json")

    def test_number_that_is_not_finite(self):
        self.refused(uniform("good", more="threshold: nan"), "slash_detection.threshold", "nan")

    def test_typed_unspecified(self):
        self.refused(uniform("good", more="rows: UNSPECIFIED"), "slash_detection.rows", "UNSPECIFIED")

    def test_needles_that_a_model_cannot_take(self):
        self.refused('name: "k" model: "good" retrieval_detection {}', "retrieval_detection.needles", "no tokenizer.json",
                     "model good takes at most 512", "haystack")

    def test_part_that_is_not_built(self):
        self.refused("""name: "c" model: "good" slash_detection { prompts { corpus { name: "books" } } }""",
                     "slash_detection.prompts.corpus")

    def test_results_that_are_not_there(self):
        done = self.lab.client("show", "e999999", expect=4)
        self.assertIn("e999999", done.stderr)
        done = self.lab.client("show", "nonsense", expect=4)
        self.assertIn("nonsense", done.stderr)

    def test_no_server(self):
        done = subprocess.run([BIN / "ropelab", "--server", "127.0.0.1:1", "list"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("127.0.0.1:1", done.stderr)

    def test_second_server_on_the_port_or_the_database(self):
        other = self.lab.folder / "other-data"
        done = subprocess.run([BIN / "ropelab-server", "--data-dir", other, "--listen", self.lab.address, "--metrics", "127.0.0.1:0"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(self.lab.address, done.stderr)
        done = subprocess.run([BIN / "ropelab-server", "--data-dir", self.lab.data, "--listen", "127.0.0.1:0", "--metrics",
                               "127.0.0.1:0"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(str(self.lab.server.child.pid), done.stderr)

    def test_server_goes_on_after_all_that(self):
        (experiment,) = self.lab.submit(uniform("good"))
        self.assertEqual(len(self.lab.table(experiment, "slash_heads")), 40)


class TooLittleMemory(unittest.TestCase):
    def test_says_how_much_is_needed(self):
        need_fixtures()
        with Lab(FIXTURES / "models", worker_flags=["--threads", "1", "--memory-limit", "1100000"]) as lab:
            lab.start_worker("w1")
            spec = lab.write_spec(uniform("stories260K", "count: 1 tokens: 512"))
            done = lab.client("submit", spec, "--wait", expect=None, seconds=60)
            self.assertIn(done.returncode, (1, 4))
            self.assertIn("memory", done.stderr)
            print(done.stderr.strip())


class Cancel(unittest.TestCase):
    def test_a_cancelled_experiment_ends_its_watch_and_frees_the_worker(self):
        need_fixtures()
        with Lab(FIXTURES / "models", worker_flags=["--threads", "1"]) as lab:
            lab.start_worker("w1")
            (experiment,) = lab.submit(uniform("stories260K", "count: 100000 tokens: 512"), wait=False)
            watch = subprocess.Popen([BIN / "ropelab", "--server", lab.address, "watch", experiment],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            lab.client("cancel", experiment)
            out, err = watch.communicate(timeout=30)
            self.assertEqual(watch.returncode, 1, out + err)
            (second,) = lab.submit(uniform("stories260K"), seconds=60)
            self.assertEqual(lab.json("show", experiment)["state"], "cancelled")
            self.assertEqual(lab.json("show", second)["state"], "done")


if __name__ == "__main__":
    unittest.main(verbosity=2)
