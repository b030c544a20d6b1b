"""A planted model at 32 768 tokens: exactly the planted heads are found, in less memory than one N x N matrix (4 GiB) by far."""

import subprocess
import unittest

from harness import BIN, Lab, peak_memory_bytes

PLANTED = {(1, 500), (3, 1234), (4, 5000), (6, 2999)}  # (head, offset) of layer 0


class Planted(unittest.TestCase):
    def test_found_exactly_within_memory(self):
        with Lab("", keep=False) as lab:
            models = lab.folder / "models"
            slashes = [part for head, offset in sorted(PLANTED) for part in ("--slash", f"0:{head}:{offset}")]
            subprocess.run([BIN / "ropelab-worker", "plant", "--out", models / "planted", "--layers", "1", "--heads", "8",
                            "--kv-heads", "8", "--head-dim", "64", "--vocab", "256", "--context", "32768", "--dtype", "float32",
                            "--rope-theta", "10000", "--strength", "12", "--seed", "7", *slashes], check=True)
            lab.models = models
            worker = lab.start_worker("w1")
            (experiment,) = lab.submit("""
                name: "long" model: "planted"
                slash_detection { prompts { uniform_tokens { count: 1 tokens: 32768 } }
                                  offsets { first: 500 last: 5000 } regime: LARGE rows: COMMON }""", seconds=900)
            peak = peak_memory_bytes(worker.child.pid)
            found = {(int(r["head"]), int(r["offset"])) for r in lab.table(experiment, "slash_scores") if r["dominant"] == "true"}
            self.assertEqual(found, PLANTED)
            for row in lab.table(experiment, "slash_heads"):
                wanted = dict(PLANTED).get(int(row["head"]))
                if wanted is not None:
                    self.assertEqual(int(row["best_offset"]), wanted)
                self.assertEqual(row["dominant"], "true" if wanted is not None else "false")
                self.assertEqual(row["stderr"], "", "one prompt has no standard error")
            print(f"found {sorted(found)}; the worker's peak memory was {peak / 2**30:.2f} GiB")
            self.assertLess(peak, 1.5 * 2**30)


if __name__ == "__main__":
    unittest.main(verbosity=2)
