"""The geometry demo's printed values, through the service."""

import unittest

import numpy

from harness import Lab, read_safetensors

SPEC = """
name: "rotations"
rope_geometry {
  head_dim: 8 base: 10000 positions: 16 layout: INTERLEAVED
  query: [1.5746411431681302, 0.7432833867028191, -0.9698888175576575, -0.2120044493626771, -0.2867299190012126, 2.3624189202137407, -0.943225489608639, 1.3757948597156504]
  key: [0.12317992062651277, 1.0218538102952426, -0.0027781216332353766, 0.3927701046524877, 0.491156064712792, 0.10953869409072106, 0.6512592984651386, 0.3496303616197618]
  norm_positions: [0, 1, 7, 100, 5000]
  content: REPEATED
}
"""


class Geometry(unittest.TestCase):
    def test_golden_values(self):
        with Lab("") as lab:
            lab.start_worker("w1")
            (experiment,) = lab.submit(SPEC)
            norms = {float(r["x"]): float(r["y"]) for r in lab.table(experiment, "series") if r["name"] == "norm"}
            self.assertEqual(sorted(norms), [0, 1, 7, 100, 5000])
            for position, norm in norms.items():
                self.assertAlmostEqual(norm, 3.530342, delta=5e-7, msg=f"position {position}")
            artifact = lab.folder / "scores.safetensors"
            lab.client("results", experiment, "--artifact", "scores.safetensors", "-o", artifact)
            scores = read_safetensors(artifact)["S"]
            self.assertEqual(scores.shape, (16, 16))
            for n, value in enumerate([0.303207, -0.284970, -0.625391, -0.388297]):
                self.assertAlmostEqual(scores[0, n], value, delta=5e-7)
            self.assertAlmostEqual(scores[5, 0], -0.537215, delta=5e-7)
            stds = [scores.diagonal(k).std() for k in range(-15, 16)]
            self.assertLess(max(stds), 1e-15)
            thetas = [float(r["theta"]) for r in lab.table(experiment, "frequencies")]
            numpy.testing.assert_allclose(thetas, [1.0, 0.1, 0.01, 0.001], rtol=1e-14)
            statistics = {r["name"]: r for r in lab.table(experiment, "statistics")}
            self.assertLess(float(statistics["largest_diagonal_std"]["value"]), 1e-15)
            self.assertLess(float(statistics["largest_identity_error"]["value"]), 1e-14)
            print({name: row["value"] for name, row in statistics.items()})
            self.assertEqual(int(float(statistics["hand_1_nearest_lag"]["value"])), 6)
            self.assertAlmostEqual(float(statistics["hand_1_nearest_distance"]["value"]), 0.2832, delta=5e-5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
