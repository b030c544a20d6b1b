"""Retrieval detections through the real binaries, on planted models whose heads look at one known offset: what they hit follows from
where an independent realisation puts the needles. Labels, counts and agreements are computed here once more; sets of heads and
published scores are taken into other experiments."""

import decimal
import json
import math
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import independent_needles
import numpy
from byte_bpe import ByteBpe
from harness import BIN, Lab, read_safetensors

BOS = 1
LAYERS, HEADS, KV_HEADS = 2, 4, 2
LENGTHS, DEPTHS, SAMPLES, SEEDS = (150, 220), (0.25, 0.75), 3, (42, 7)
THRESHOLDS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
# (layer, head) -> offset; the last position looks at N - 1 - offset.
PLANTED = {"one": {(0, 0): 60, (0, 1): 75, (1, 2): 100, (1, 3): 130}, "two": {(0, 3): 70, (1, 0): 20}}


def plant(folder, name, tokenizer):
    slashes = [part for (layer, head), offset in PLANTED[name].items() for part in ("--slash", f"{layer}:{head}:{offset}")]
    command = [BIN / "ropelab-worker", "plant", "--out", folder / name, "--layers", LAYERS, "--heads", HEADS, "--kv-heads", KV_HEADS,
               "--head-dim", 32, "--vocab", len(tokenizer.vocabulary), "--context", 512, "--dtype", "float32", "--rope-theta", 10000,
               "--strength", 20, "--seed", 7, *slashes]
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
    (folder / name / "tokenizer.json").write_text(tokenizer.json())


def needed(threshold, samples):
    return math.ceil(decimal.Decimal(str(threshold)) * samples)


def ranked(scores, mass):
    return sorted(scores, key=lambda place: (-scores[place], -mass[place], place))


def spearman(first, second):
    def ranks(values):
        values = numpy.asarray(values)
        return numpy.array([(values < v).sum() + ((values == v).sum() + 1) / 2 for v in values])
    return numpy.corrcoef(ranks(first), ranks(second))[0, 1]


class Detection(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        drawn = independent_needles.generated_sentences(independent_needles.Stream(1, 5, 0, 0, 0))
        sample = " ".join(next(drawn) for _ in range(100)) + independent_needles.NEEDLE + independent_needles.QUESTION
        cls.tokenizer = ByteBpe.learned(sample, 60)
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ropelab-detection-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        (cls.folder / "models").mkdir()
        for name in PLANTED:
            plant(cls.folder / "models", name, cls.tokenizer)
        cls.lab = Lab(cls.folder / "models", worker_flags=["--threads", "1"])
        cls.lab.__enter__()
        cls.addClassCleanup(cls.lab.__exit__, None, None, None)
        cls.lab.start_worker("w1")

    def detection(self, metrics="[ARGMAX, MASS, COPY_PAPER, COPY_WU]", threshold=0.1):
        return (f"retrieval_detection {{ needles {{ context_lengths: [{LENGTHS[0]}, {LENGTHS[1]}] depths: [{DEPTHS[0]}, {DEPTHS[1]}] "
                f"samples_per_cell: {SAMPLES} haystack {{ generated {{}} }} }} metrics: {metrics} threshold: {threshold} }}")

    def scores(self, experiment, model, metric, seed, length="", depth=""):
        """Place -> row."""
        return {(int(r["layer"]), int(r["head"])): r for r in self.lab.table(experiment, "head_scores")
                if (r["model"], r["metric"], int(r["seed"]), r["context_length"], r["depth"]) == (model, metric, seed, length, depth)}

    def test_planted_heads_hit_where_the_needle_stands(self):
        (experiment,) = self.lab.submit(f'name: "both" models: ["one", "two"] seeds: [{SEEDS[0]}, {SEEDS[1]}] {self.detection()}')
        tokenize = independent_needles.of_byte_bpe(self.tokenizer)
        grid = [(length, depth, index) for length in LENGTHS for depth in DEPTHS for index in range(SAMPLES)]
        seen = set()
        for seed in SEEDS:
            realised = {cell: independent_needles.realise(tokenize, seed, "detection", *cell, bos=BOS) for cell in grid}
            for model, planted in PLANTED.items():
                argmax = self.scores(experiment, model, "argmax", seed)
                mass = self.scores(experiment, model, "mass", seed)
                self.assertEqual(len(argmax), LAYERS * HEADS)
                for place, offset in planted.items():
                    hits = {}
                    for cell, needle in realised.items():
                        first, last = needle["needle"]
                        hits[cell] = first <= needle["tokens"] - 1 - offset <= last
                    with self.subTest(model=model, seed=seed, place=place):
                        self.assertEqual(int(argmax[place]["hits"]), sum(hits.values()))
                        self.assertEqual(float(argmax[place]["score"]), sum(hits.values()) / len(grid))
                        if offset < min(needle["tokens"] for needle in realised.values()):
                            self.assertAlmostEqual(float(mass[place]["score"]), sum(hits.values()) / len(grid), places=4)
                        self.assertEqual(argmax[place]["retrieval"] == "true", sum(hits.values()) >= needed(0.1, len(grid)))
                        seen.add(argmax[place]["retrieval"])
                        for length in LENGTHS:
                            for depth in DEPTHS:
                                cell = self.scores(experiment, model, "argmax", seed, str(length), str(depth))[place]
                                self.assertEqual(int(cell["hits"]), sum(hits[length, depth, i] for i in range(SAMPLES)))
                                self.assertEqual((int(cell["samples"]), cell["retrieval"], cell["threshold"]), (SAMPLES, "", ""))
                uniform = numpy.mean([(n["needle"][1] - n["needle"][0] + 1) / n["tokens"] for n in realised.values()])
                for place in set(mass) - set(planted):
                    self.assertAlmostEqual(float(mass[place]["score"]), uniform, places=5)
            for row in self.lab.table(experiment, "needle_samples"):
                if int(row["seed"]) == seed:
                    needle = realised[int(row["context_length"]), float(row["depth"]), int(row["sample"])]
                    self.assertEqual((int(row["tokens"]), int(row["needle_first"]), int(row["needle_last"]), row["code"], row["kept"]),
                                     (needle["tokens"], *needle["needle"], needle["code"], "true"))
        self.assertEqual(seen, {"true", "false"}, "the offsets are chosen so that some heads hit and some do not")
        self.check_statistics(experiment)

        with Lab(self.folder / "models", worker_flags=["--threads", "1"]) as other:
            for name in ("w1", "w2", "w3"):
                other.start_worker(name)
            (again,) = other.submit(f'name: "both" models: ["one", "two"] seeds: [{SEEDS[0]}, {SEEDS[1]}] {self.detection()}')
            for table in ("head_scores", "needle_samples", "series", "statistics"):
                self.assertEqual(self.lab.csv_bytes(experiment, table), other.csv_bytes(again, table), table)

    def check_statistics(self, experiment):
        rows = {(r["model"], r["name"], r["detector"], r["threshold"] and repr(float(r["threshold"])), r["seed"]): r
                for r in self.lab.table(experiment, "statistics")}
        for model in PLANTED:
            for seed in SEEDS:
                found = {m: self.scores(experiment, model, m, seed) for m in ("argmax", "mass", "copy_paper", "copy_wu")}
                score = {m: {place: float(r["score"]) for place, r in heads.items()} for m, heads in found.items()}
                hits = {place: int(r["hits"]) for place, r in found["argmax"].items()}
                samples = int(found["argmax"][0, 0]["samples"])
                value = lambda name, detector="", threshold="": rows[model, name, detector, threshold, str(seed)]  # noqa: E731
                for threshold in THRESHOLDS:
                    by_hits = [p for p in hits if hits[p] >= needed(threshold, samples)]
                    by_mass = [p for p in hits if score["mass"][p] >= threshold]
                    self.assertEqual(float(value("retrieval", "argmax", repr(threshold))["value"]), len(by_hits))
                    self.assertEqual(float(value("retrieval", "mass", repr(threshold))["value"]), len(by_mass))
                    self.assertEqual(float(value("retrieval", "copy_wu", repr(threshold))["value"]), len(by_hits))
                    self.assertEqual(float(value("retrieval_share", "mass", repr(threshold))["value"]), len(by_mass) / 8)
                n = sum(h >= needed(0.1, samples) for h in hits.values())
                for first, second in (("argmax", "mass"), ("argmax", "copy_paper"), ("mass", "copy_wu")):
                    a = set(ranked(score[first], score["mass"])[:n])
                    b = set(ranked(score[second], score["mass"])[:n])
                    row = value("jaccard", f"{first} {second}", "0.1")
                    self.assertEqual(int(row["n"]), n)
                    if n > 0:
                        self.assertAlmostEqual(float(row["value"]), len(a & b) / len(a | b), places=12)
                    else:
                        self.assertEqual((row["value"], bool(row["undefined_because"])), ("", True))
                    row = value("spearman", f"{first} {second}")
                    places = sorted(hits)
                    xs, ys = [score[first][p] for p in places], [score[second][p] for p in places]
                    if len(set(xs)) > 1 and len(set(ys)) > 1:
                        self.assertAlmostEqual(float(row["value"]), spearman(xs, ys), places=12)
                    else:
                        self.assertNotEqual(row["undefined_because"], "")
                groups = {}
                for layer, head in hits:
                    if hits[layer, head] >= needed(0.1, samples):
                        groups.setdefault((layer, head * KV_HEADS // HEADS), []).append(head)
                row = value("active_groups", "argmax", "0.1")
                self.assertEqual((float(row["value"]), int(row["n"])), (len(groups), LAYERS * KV_HEADS))
                if groups:
                    full = sum(len(heads) == HEADS // KV_HEADS for heads in groups.values())
                    self.assertAlmostEqual(float(value("retrieval_per_active_group", "argmax", "0.1")["value"]), n / len(groups))
                    self.assertAlmostEqual(float(value("full_groups_share", "argmax", "0.1")["value"]), full / len(groups))
            counts = [float(rows[model, "retrieval", "argmax", "0.1", str(seed)]["value"]) for seed in SEEDS]
            row = rows[model, "retrieval_over_seeds", "argmax", "0.1", ""]
            self.assertAlmostEqual(float(row["value"]), numpy.mean(counts))
            self.assertAlmostEqual(float(row["high"]) - float(row["value"]), numpy.std(counts, ddof=1))
            self.assertAlmostEqual(float(rows[model, "rope_base", "", "", ""]["value"]), 10000)
            self.assertEqual(float(rows[model, "query_heads_per_kv_head", "", "", ""]["value"]), HEADS / KV_HEADS)

    def test_other_experiments_take_what_was_found_and_what_was_published(self):
        published = self.folder / "published.json"
        published.write_text(json.dumps({"0-0": [0.9, 0.7], "0-1": [0.05], "1-2": [[0.2], [0.4]], "1-3": 0.1}))
        self.lab.client("heads", "import", "published", published)
        again = self.lab.client("heads", "import", "published", published)
        self.assertIn("nothing changed", again.stderr)
        (listed,) = [one for one in self.lab.json("heads", "list") if one["name"] == "published"]
        self.assertEqual((listed["name"], listed["heads"], listed["scores"], listed["largest_layer"], listed["largest_head"]),
                         ("published", 4, 6, 1, 3))
        shown = self.lab.json("heads", "show", "published")
        self.assertEqual([(h["layer"], h["head"], round(h["mean"], 12)) for h in shown["heads"]],
                         [(0, 0, 0.8), (1, 2, 0.3), (1, 3, 0.1), (0, 1, 0.05)])
        counts = {c["threshold"]: c["heads"] for c in shown["counts"]}
        self.assertEqual([counts[t] for t in (0.05, 0.1, 0.15, 0.3, 0.35, 0.5)], [4, 3, 2, 2, 1, 1])
        self.assertIn("L0H0", self.lab.client("heads", "show", "published").stdout)

        maps = ("slash_detection {{ threshold: 0.3 prompts {{ uniform_tokens {{ count: 1 tokens: 64 }} }} "
                "maps {{ size: 8 heads {{ {} }} }} }}").format
        detect, found, few, imported = self.lab.submit(f"""
            name: "sets" model: "one"
            experiments {{ name: "detect" {self.detection()} }}
            experiments {{ name: "found" {maps('retrieval { experiment: "detect" threshold: 0.3 }')} }}
            experiments {{ name: "few" {maps('retrieval { experiment: "detect" metric: MASS top: 1 }')} }}
            experiments {{ name: "imported" {maps('imported { name: "published" top: 2 }')} }}""")
        hits = {p: int(r["hits"]) for p, r in self.scores(detect, "one", "argmax", 42).items()}
        mass = {p: float(r["score"]) for p, r in self.scores(detect, "one", "mass", 42).items()}
        wanted = {p for p in hits if hits[p] >= needed(0.3, len(LENGTHS) * len(DEPTHS) * SAMPLES)}
        self.assertTrue(wanted)
        self.assertEqual(self.mapped(found), wanted)
        self.assertEqual(self.mapped(few), {ranked(mass, mass)[0]})
        self.assertEqual(self.mapped(imported), {(0, 0), (1, 2)})
        self.assertEqual(self.lab.json("provenance", imported)["spec_hash"] != "", True)

        (overlap,) = self.lab.json("heads", "overlap", "published", detect, "--top", "2")["overlaps"]
        best = set(ranked({p: float(h) for p, h in hits.items()}, mass)[:2])
        shared = best & {(0, 0), (1, 2)}
        self.assertEqual((overlap["shared"], overlap["top"]), (len(shared), 2))
        self.assertAlmostEqual(overlap["jaccard"], len(shared) / (4 - len(shared)))
        self.assertEqual(set(overlap["heads"]), {f"{layer}-{head}" for layer, head in shared})

    def test_a_file_of_published_size_is_counted(self):
        draw = numpy.random.default_rng(3)
        scores = {f"{layer}-{head}": list(numpy.where(draw.random(500) < 0.8, 0, draw.random(500) ** draw.uniform(0.1, 9)))
                  for layer in range(32) for head in range(32)}
        scores = {key: [0 if value == 0 else float(value) for value in values] for key, values in scores.items()}
        path = self.folder / "whole.json"
        path.write_text(json.dumps(scores))
        self.assertGreater(path.stat().st_size, 3 << 20)
        self.lab.client("heads", "import", "whole", path)
        shown = self.lab.json("heads", "show", "whole")
        means = {key: numpy.mean(values) for key, values in scores.items()}
        for count in shown["counts"]:
            self.assertEqual(count["heads"], sum(mean >= count["threshold"] for mean in means.values()))
        self.assertEqual([f"{h['layer']}-{h['head']}" for h in shown["heads"]], sorted(means, key=means.get, reverse=True))
        self.assertEqual(shown["set"]["scores"], 32 * 32 * 500)

    def mapped(self, experiment):
        target = self.folder / "maps.safetensors"
        self.lab.client("results", experiment, "--artifact", "maps.safetensors", "-o", target)
        names = [name.split(".")[0] for name in read_safetensors(target)]
        return {tuple(int(part) for part in name[1:].split("H")) for name in names}

    def test_what_is_wrong_is_refused_in_words(self):
        bad = self.folder / "bad.json"
        for text, word in (('{"0-0": [NaN]}', "NaN"), ('{"0-0": []}', "the list is empty"), ('{"zero": [1]}', "layer-head"),
                           ('{"0-0": [1], "0-0": [1]}', "twice"), ("{'0-0': array([1])}", "json.dump")):
            bad.write_text(text)
            self.assertIn(word, self.lab.client("heads", "import", "bad", bad, expect=4).stderr)
        bad.write_text('{"0-0": [1' + " " * (32 << 20) + "]}")
        self.assertIn("33554432 bytes", self.lab.client("heads", "import", "bad", bad, expect=2).stderr)
        self.lab.client("heads", "import", "bad", self.folder / "absent.json", expect=2)
        bad.write_text('{"9-0": [1]}')
        self.lab.client("heads", "import", "large", bad)
        bad.write_text('{"0-0": [1]}')
        self.lab.client("heads", "import", "large", bad)
        self.assertIn("several contents", self.lab.client("heads", "show", "large", expect=4).stderr)
        maps = ("slash_detection {{ threshold: 0.3 prompts {{ uniform_tokens {{ count: 1 tokens: 64 }} }} "
                "maps {{ heads {{ {} }} }} }}").format
        digests = {s["heads"] and s["largest_layer"]: s["sha256"] for s in self.lab.json("heads", "list") if s["name"] == "large"}
        for heads, word in (('imported { name: "large" }', "several contents"), ('imported { name: "nobody" }', "known: "),
                            (f'imported {{ name: "large@{digests[9][:12]}" }}', "model one has layers 0 to 1"),
                            (f'imported {{ name: "large@{digests[0]}" top: 2 }}', "these scores are of 1 heads"),
                            ('retrieval { experiment: "detect" }', "submit both as one study")):
            spec = self.lab.write_spec(f'name: "x" model: "one" {maps(heads)}')
            self.assertIn(word, self.lab.client("validate", spec, expect=4).stderr, heads)
        spec = self.lab.write_spec(f'name: "x" model: "one" {self.detection("[MASS, COPY_WU]")}')
        self.assertIn("retrieval_detection.metrics[1]", self.lab.client("validate", spec, expect=4).stderr)
        self.assertIn("e99", self.lab.client("heads", "overlap", f"large@{digests[0]}", "e99", expect=4).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
