"""Equal weights beside different tokenizers, on real workers: text goes only where its tokenizer is, all else anywhere, nothing fails on
the way; a report of the parity gate reaches the server while the worker is connected; messages and docs name only commands that exist."""

import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from byte_bpe import ByteBpe
from harness import BIN, FIXTURES, SOURCE, Lab, need_fixtures

MODEL = "stories260K"
TEXT = "generated { count: 32 tokens: 48 }"
UNIFORM = "uniform_tokens { count: 32 tokens: 48 }"


def spec(prompts, model=MODEL, seed=1):
    return f'name: "placed" model: "{model}" seeds: {seed} slash_detection {{ prompts {{ {prompts} }} threshold: 0.3 }}'


class Placement(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_fixtures()
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ropelab-placement-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)

    def setUp(self):
        self.lab = Lab(self.folder / "none", worker_flags=["--threads", "1"])
        self.lab.__enter__()
        self.addCleanup(self.lab.__exit__, None, None, None)

    def worker(self, name, model, words):
        """A worker whose one model is these weights beside a tokenizer learned from `words`; the tokenizer's hash."""
        root = self.folder / self._testMethodName / name
        shutil.copytree(FIXTURES / "models" / MODEL, root / model)
        text = ByteBpe.learned(words, 8).json()
        (root / model / "tokenizer.json").write_text(text)
        self.lab.models = root
        self.lab.start_worker(name)
        return hashlib.sha256(text.encode()).hexdigest()

    def attempts(self, experiment):
        return [attempt for task in self.lab.json("provenance", experiment)["tasks"] for attempt in task["attempts"]]

    def until(self, holds, what, seconds=30):
        end = time.monotonic() + seconds
        while not holds():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.1)

    def test_text_goes_only_where_its_tokenizer_is(self):
        right = self.worker("right", MODEL, "the harvest of the year " * 20)
        wrong = self.worker("wrong", "namesake", "other words altogether " * 20)
        self.lab.submit(spec(UNIFORM, "namesake", seed=3))  # a name that no spec names is never hashed, and so never equal
        (reads,) = self.lab.submit(spec(TEXT))
        self.assertEqual([(attempt["worker"], attempt["outcome"]) for attempt in self.attempts(reads)], [("right", "finished")] * 4)
        (draws,) = self.lab.submit(spec(UNIFORM))
        self.assertEqual([attempt["outcome"] for attempt in self.attempts(draws)], ["finished"] * 4)

        self.lab.workers["right"].stop()
        (elsewhere,) = self.lab.submit(spec(UNIFORM, seed=2))
        self.assertEqual({attempt["worker"] for attempt in self.attempts(elsewhere)}, {"wrong"})
        (waits,) = self.lab.submit(spec(TEXT, seed=2), wait=False)
        self.until(lambda: "tokenizer" in self.lab.json("show", waits).get("reason", ""), "it says why it waits")
        reason = self.lab.json("show", waits)["reason"]
        for word in (right[:16], wrong[:16], "wrong", "namesake"):
            self.assertIn(word, reason)
        self.lab.workers["right"].start()
        self.lab.client("watch", waits, seconds=60)
        self.assertEqual({attempt["worker"] for attempt in self.attempts(waits)}, {"right"})

    def test_one_name_with_two_tokenizers_is_refused_and_told_apart(self):
        first = self.worker("w1", MODEL, "the harvest of the year " * 20)
        second = self.worker("w2", MODEL, "other words altogether " * 20)
        listed = [model["announcement"]["tokenizer_hash"] for model in self.lab.json("models")]
        self.assertEqual(sorted(listed), sorted([first, second]))
        refused = self.lab.client("submit", self.lab.write_spec(spec(UNIFORM)), expect=4, seconds=60).stderr
        for word in ("different tokenizers", f"{MODEL}@{first[:16]}", f"{MODEL}@{second[:16]}"):
            self.assertIn(word, refused)
        for worker, tokenizer in (("w1", first), ("w2", second)):
            (experiment,) = self.lab.submit(spec(TEXT, f"{MODEL}@{tokenizer[:16]}"))
            self.assertEqual({attempt["worker"] for attempt in self.attempts(experiment)}, {worker})
            (model,) = self.lab.json("provenance", experiment)["models"]
            self.assertEqual(model["announcement"]["tokenizer_hash"], tokenizer)

    def test_a_tokenizer_that_was_exchanged_leaves_its_name_alone(self):
        self.worker("w1", MODEL, "the harvest of the year " * 20)
        (before,) = self.lab.submit(spec(TEXT))
        text = ByteBpe.learned("other words altogether " * 20, 8).json()
        (self.lab.models / MODEL / "tokenizer.json").write_text(text)
        wanted = hashlib.sha256(text.encode()).hexdigest()

        def announced():
            models = self.lab.json("models")
            return [model["announcement"]["tokenizer_hash"] for model in models] == [wanted]

        self.until(announced, "the new tokenizer is announced")
        (after,) = self.lab.submit(spec(TEXT))
        self.assertNotEqual(self.lab.csv_bytes(before, "slash_scores"), self.lab.csv_bytes(after, "slash_scores"))

    def test_a_report_of_the_parity_gate_is_told_while_the_worker_is_connected(self):
        self.worker("w1", MODEL, "the harvest of the year " * 20)
        self.lab.submit(spec(UNIFORM))  # the weights are hashed

        def report():
            (model,) = self.lab.json("models")
            return model["announcement"].get("verification")

        self.assertIsNone(report())
        subprocess.run([BIN / "ropelab-worker", "verify", "--model", self.lab.models / MODEL, "--cache-dir", self.lab.folder / "cache",
                        "--tokens", "16", "40", "--threads", "1"], check=True, capture_output=True)
        self.until(lambda: report() is not None, "the report is announced")
        self.assertTrue(report()["passed"])


class Words(unittest.TestCase):
    def test_messages_and_documents_name_only_commands_that_exist(self):
        known = {}
        for program in ("ropelab", "ropelab-worker"):
            text = subprocess.run([BIN / program, "--help"], capture_output=True, text=True, check=True).stdout
            known[program] = set(re.findall(r"^  ([a-z]+) {2,}\S", text, re.MULTILINE))
            self.assertGreater(len(known[program]), 4)
        files = [path for folder in ("server", "client", "worker") for path in (SOURCE / folder).rglob("*.cc")]
        files += [SOURCE / "README.md", *(SOURCE / "docs").rglob("*.md")]
        named = 0
        for path in files:
            # In backquotes, indented as an example, or at the start of a string's line: what is meant to be typed.
            for program, command in re.findall(r"(?:`|^ {4,}(?:\$ )?|[\"(]|\\n  |/bin/)(ropelab(?:-worker)?) ([a-z]+)\b", path.read_text(), re.MULTILINE):
                if command in ("is", "reads", "cannot", "needs", "says", "program"):  # prose
                    continue
                named += 1
                self.assertIn(command, known[program], f"{path}: {program} {command}")
        self.assertGreater(named, 30)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
