"""Training ends in the same bytes however often it is killed, and refuses what it cannot go on with, in words."""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest

from harness import BIN

RECIPE = {
    "name": "tiny", "seed": 5, "steps": 60, "tokens_per_step": 256, "vocabulary": 400, "tokenizer_sentences": 200,
    "shape": {"hidden": 16, "layers": 1, "heads": 2, "kv_heads": 1, "head_dim": 8, "intermediate": 32, "max_positions": 256},
    "heads": {"dropout": [0.2], "gaze": 1, "free": ["L0H1"], "start": 1, "warmup": 4}, "adamw": {"warmup": 3},
    "curriculum": {"lengths": [128, 160], "pass": 0, "every": 5, "samples": 2}, "checkpoints": [0, 10, 20, 30, 40, 50, 60],
}
# A trainer is killed as soon as one of these is there that was not when it began, or is another file.
MOMENTS = [
    "checkpoints/tiny-0000/config.json", "state/model.safetensors", "state/model.safetensors", "tiny/curve.csv",
    "checkpoints/tiny-0020/tokenizer.json", "checkpoints/checkpoints.csv", "state/model.safetensors.*", "tiny/evaluation.csv",
    "tiny/model.safetensors",
]
LEAST_KILLS = 5  # the others may have ended before they were seen
TEMPORARY = re.compile(r"\.[A-Za-z0-9]{6}$")


def command(recipe, out, threads=1):
    return [str(part) for part in (BIN / "ropelab-train", "--recipe", recipe, "--out", out, "--threads", threads)]


def files(out):
    """Name -> bytes of everything but the lock and what a kill left half written."""
    found = {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}
    written = r"(\.json|\.safetensors|\.csv)$"
    return {
        name: text for name, text in found.items()
        if name != "state/lock" and not (TEMPORARY.search(name) and re.search(written, name[:-7]))
    }


def seen(out, pattern):
    found = set()
    for path in out.glob(pattern):
        try:
            found.add((str(path), path.stat().st_ino))
        except FileNotFoundError:
            pass  # a temporary file that has its name by now
    return found


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ropelab-training-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.recipe = cls.write("recipe.json", RECIPE)
        cls.whole = cls.folder / "whole"
        done = cls.train(cls.recipe, cls.whole)
        if done.returncode != 0:
            raise AssertionError(f"training ended with {done.returncode}:\n{done.stderr}")
        cls.expected = files(cls.whole)

    @classmethod
    def write(cls, name, recipe):
        path = cls.folder / name
        path.write_text(recipe if isinstance(recipe, str) else json.dumps(recipe))
        return path

    @staticmethod
    def train(recipe, out, threads=1):
        return subprocess.run(command(recipe, out, threads), capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)

    def kill_at(self, pattern, out):
        """Whether the trainer was still at work when it was killed."""
        before = seen(out, pattern)
        with open(self.folder / "log", "ab") as log:
            child = subprocess.Popen(command(self.recipe, out), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        end = time.monotonic() + 300
        while child.poll() is None and not seen(out, pattern) - before:
            self.assertLess(time.monotonic(), end, f"{pattern} never came")
            time.sleep(0.0005)
        child.kill()
        code = child.wait()
        self.assertIn(code, (0, -9), (self.folder / "log").read_text())
        return code == -9

    def assert_refused(self, done, code, *parts):
        self.assertEqual(done.returncode, code, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)

    def test_writes_the_model_its_checkpoints_and_its_state(self):
        model = ["config.json", "model.safetensors", "tokenizer.json"]
        names = [f"tiny/{name}" for name in [*model, "curve.csv", "evaluation.csv"]]
        for step in RECIPE["checkpoints"]:
            names += [f"checkpoints/tiny-{step:04}/{name}" for name in model]
        self.assertEqual(sorted(self.expected), sorted([*names, "checkpoints/checkpoints.csv", "state/model.safetensors"]))

    def test_ends_in_the_same_bytes_after_kills(self):
        out = self.folder / "killed"
        kills = sum(self.kill_at(moment, out) for moment in MOMENTS)
        self.assertGreaterEqual(kills, LEAST_KILLS)
        done = self.train(self.recipe, out)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = files(out)
        self.assertEqual(sorted(found), sorted(self.expected))
        for name, text in self.expected.items():
            self.assertTrue(found[name] == text, f"{name} differs after {kills} kills")

    def test_leaves_a_finished_training_alone_however_its_recipe_is_spelled(self):
        written = {path: path.stat().st_mtime_ns for path in self.whole.rglob("*.*") if path.is_file()}
        spelled = {**RECIPE, "steps": 6e1, "answer_weight": 1.0, "mix": {"spans": 0.5}}
        for recipe in (self.recipe, self.write("spelled.json", json.dumps(spelled, indent=2, sort_keys=True))):
            done = self.train(recipe, self.whole)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout.endswith("whole/tiny\n"), done.stdout)
        self.assertEqual(files(self.whole), self.expected)
        self.assertEqual({path: path.stat().st_mtime_ns for path in written}, written)

    def test_refuses_a_recipe_by_its_field(self):
        out = self.folder / "never"
        unknown = self.write("unknown.json", {**RECIPE, "step": 7})
        self.assert_refused(self.train(unknown, out), 2, str(unknown), "step is a field that a recipe does not have")
        state = self.write("state.json", {**RECIPE, "name": "state"})
        self.assert_refused(self.train(state, out), 2, str(state), 'name is "state"')
        self.assertFalse(out.exists())

    def test_refuses_a_file_for_a_folder(self):
        path = self.folder / "file"
        path.write_text("mine")
        self.assert_refused(self.train(self.recipe, path), 2, str(path), "give another --out")
        self.assertEqual(path.read_text(), "mine")

    def test_refuses_to_go_on_otherwise_than_it_began(self):
        other = self.write("other.json", {**RECIPE, "seed": 6})
        self.assert_refused(self.train(other, self.whole), 1, "another recipe", "give another --out")
        self.assert_refused(self.train(self.recipe, self.whole, threads=2), 1, "--threads 1", "--threads 2")
        self.assertEqual(files(self.whole), self.expected)


if __name__ == "__main__":
    unittest.main()
