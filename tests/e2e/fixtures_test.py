"""What `ropelab-worker inspect` and the service say of the reference checkpoints, against other implementations' tensors."""

import subprocess
import tempfile
import unittest

import numpy

from harness import BIN, FIXTURES, Lab, need_fixtures, read_safetensors

MODELS = ["llama2_a", "llama3_a", "llama3bf16_a", "stories260K"]
NAMES = ["logits", "attn_probs", "q_pre", "k_pre", "q_rot", "k_rot", "hidden"]
TOLERANCE = {"attn_probs": 5e-5}  # absolute; 2e-4 for the others: the fixtures' own README


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

    def test_inspect_agrees_with_other_implementations(self):
        for model in MODELS:
            with self.subTest(model=model), tempfile.TemporaryDirectory() as folder:
                folder_of_model = FIXTURES / "models" / model
                expected = read_safetensors(folder_of_model / "expected.safetensors")
                ids = ",".join(str(i) for i in expected["input_ids"].reshape(-1))
                out = f"{folder}/out.safetensors"
                subprocess.run([BIN / "ropelab-worker", "inspect", "--model", folder_of_model, "--token-ids", ids,
                                "--dump", ",".join(["input_ids", "inv_freq", *NAMES]), "--out", out, "--dtype", "float32"],
                               check=True, capture_output=True)
                got = read_safetensors(out)
                self.assertTrue((got["input_ids"] == expected["input_ids"].reshape(-1)).all())
                for name in NAMES:
                    self.assertEqual(got[name].shape, expected[name].shape, name)
                    distance = float(numpy.abs(got[name].astype(numpy.float64) - expected[name]).max())
                    print(f"{model:14} {name:11} largest distance {distance:.2e}")
                    self.assertLess(distance, TOLERANCE.get(name, 2e-4), name)

    def test_scores_of_the_service_are_those_of_the_reference_attention(self):
        with Lab(FIXTURES / "models", worker_flags=["--threads", "1"]) as lab:
            lab.start_worker("w1")
            for model in MODELS:
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
                        worst = max(abs(float(row["score"]) - wanted[int(row["layer"]), int(row["head"]), int(row["offset"]) - first])
                                    for row in table)
                        print(f"{model:14} {rows:6} {denominator:10} largest distance of a score {worst:.2e}")
                        self.assertLess(worst, 1e-6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
