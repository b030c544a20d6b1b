"""What `ropelab-worker inspect` and the service say of the reference checkpoints, against other implementations' tensors."""

import json
import subprocess
import tempfile
import unittest

import numpy

from harness import BIN, FIXTURES, Lab, need_fixtures, read_safetensors

NAMES = ["logits", "attn_probs", "q_pre", "k_pre", "q_rot", "k_rot", "hidden"]
TOLERANCE = {"attn_probs": 5e-5}  # absolute; 2e-4 for the others: the fixtures' own README
BLOCK_ROWS = [64, 1, 7, 0]  # of attention; 0: the whole prompt at once


def models():
    return sorted(folder.name for folder in (FIXTURES / "models").iterdir() if (folder / "expected.safetensors").is_file())


def prompts(model):
    """(file's name, sequence, ids, tensors) of every expected*.safetensors; those of a batch have one more axis, which comes first."""
    for file in sorted((FIXTURES / "models" / model).glob("expected*.safetensors")):
        expected = read_safetensors(file)
        ids = expected["input_ids"]
        tensors = {name: expected[name] for name in NAMES if name in expected}
        if ids.ndim == 1:
            yield file.stem, 0, ids, tensors
        else:
            for sequence in range(ids.shape[0]):
                yield file.stem, sequence, ids[sequence], {name: tensor[sequence] for name, tensor in tensors.items()}


def slash_scores(attention, first, last, skip, rows, denominator):
    """[L, H, offsets] by plain loops in double over the reference's attention; EXPERIMENTS.md 1 read literally."""
    layers, heads, n, _ = attention.shape
    scores = numpy.zeros((layers, heads, last - first + 1))
    for offset in range(first, last + 1):
        start = last + skip if rows == "COMMON" else offset + skip
        count = 0
        total = numpy.zeros((layers, heads))
        for i in range(start, n):
            total += attention[:, :, i, i - offset].astype(numpy.float64)
            count += 1
        scores[:, :, offset - first] = total / (n - offset if denominator == "DEFINITION" else count)
    return scores


class Fixtures(unittest.TestCase):
    def setUp(self):
        need_fixtures()
        self.assertTrue(models())

    def compare(self, what, got, expected):
        """Prints the largest distance of every tensor, and holds it to its tolerance."""
        distances = {}
        for name, wanted in expected.items():
            self.assertEqual(got[name].shape, wanted.shape, name)
            distances[name] = float(numpy.abs(got[name].astype(numpy.float64) - wanted).max())
        print(f"{what:44}", " ".join(f"{name} {distance:.1e}" for name, distance in distances.items()))
        for name, distance in distances.items():
            self.assertLess(distance, TOLERANCE.get(name, 2e-4), name)

    def inspect(self, model, ids, names, block_rows):
        with tempfile.TemporaryDirectory() as folder:
            out = f"{folder}/out.safetensors"
            subprocess.run([BIN / "ropelab-worker", "inspect", "--model", FIXTURES / "models" / model, "--token-ids",
                            ",".join(str(i) for i in ids), "--dump", ",".join(["input_ids", *names]), "--out", out,
                            "--dtype", "float32", "--block-rows", str(block_rows)], check=True, capture_output=True)
            return read_safetensors(out)

    def test_inspect_agrees_with_other_implementations(self):
        for model in models():
            for file, sequence, ids, expected in prompts(model):
                # One prompt shows that block sizes make no difference.
                for rows in BLOCK_ROWS if file == "expected" else BLOCK_ROWS[:1]:
                    with self.subTest(model=model, file=file, sequence=sequence, block_rows=rows):
                        got = self.inspect(model, ids, expected, rows)
                        self.assertTrue((got["input_ids"] == ids).all())
                        self.compare(f"{model} {file} {sequence} block rows {rows or 'all'}", got, expected)

    def test_inspection_through_the_service_agrees_too(self):
        with Lab(FIXTURES / "models", worker_flags=["--threads", "1"]) as lab:
            lab.start_worker("w1")
            cases = [(model, *prompt) for model in models() for prompt in prompts(model)]
            specs = [f"""
                experiments {{
                  name: "case{number}" model: "{model}" dtype: FLOAT32
                  inspection {{ token_ids {{ ids: {[int(i) for i in ids]} }} dump: {json.dumps(["input_ids", *expected])} }}
                }}""" for number, (model, _, _, ids, expected) in enumerate(cases)]
            experiments = lab.submit('name: "fixtures"\n' + "".join(specs))
            self.assertEqual(len(experiments), len(cases))
            for experiment, (model, file, sequence, ids, expected) in zip(experiments, cases):
                with self.subTest(model=model, file=file, sequence=sequence):
                    out = lab.folder / f"{experiment}.safetensors"
                    lab.client("results", experiment, "--artifact", "tensors.safetensors", "-o", out)
                    got = read_safetensors(out)
                    self.assertTrue((got["input_ids"] == ids).all())
                    self.compare(f"{model} {file} {sequence} through the service", got, expected)

    def test_scores_of_the_service_are_those_of_the_reference_attention(self):
        with Lab(FIXTURES / "models", worker_flags=["--threads", "1"]) as lab:
            lab.start_worker("w1")
            for model in models():
                expected = read_safetensors(FIXTURES / "models" / model / "expected.safetensors")
                ids = ", ".join(str(i) for i in expected["input_ids"].reshape(-1))
                attention = expected["attn_probs"]
                n = attention.shape[-1]
                for rows, denominator, first, last in [("ALL", "KEPT", 0, n - 5), ("ALL", "DEFINITION", 0, n - 5),
                                                       ("COMMON", "KEPT", 0, n // 2)]:
                    with self.subTest(model=model, rows=rows, denominator=denominator):
                        (experiment,) = lab.submit(f"""
                            name: "scores" model: "{model}" dtype: FLOAT32
                            slash_detection {{
                              prompts {{ token_ids {{ prompts {{ ids: [{ids}] }} }} }}
                              offsets {{ first: {first} last: {last} }} threshold: 0.1 all_offsets: true
                              rows: {rows} denominator: {denominator}
                            }}""")
                        wanted = slash_scores(attention, first, last, 4, rows, denominator)
                        table = lab.table(experiment, "slash_scores")
                        self.assertEqual(len(table), wanted.size)
                        worst = 0
                        for row in table:
                            layer, offset = int(row["layer"]), int(row["offset"]) - first
                            # No score where the layer's window hides the offset from every head.
                            self.assertEqual(row["score"] == "", (wanted[layer, :, offset] == 0).all(), row)
                            if row["score"] != "":
                                worst = max(worst, abs(float(row["score"]) - wanted[layer, int(row["head"]), offset]))
                        print(f"{model:14} {rows:6} {denominator:10} largest distance of a score {worst:.2e}")
                        self.assertLess(worst, 1e-6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
