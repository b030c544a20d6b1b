"""Needle prompts through the real binaries against tests/e2e/independent_needles.py: the ids that are fed, where the needle stands,
what several tokenizers keep, and what is refused."""

import json
import pathlib
import random
import shutil
import sys
import tempfile
import unittest

import independent
import independent_needles
from byte_bpe import ByteBpe
from harness import FIXTURES, Lab, need_fixtures
from invented import invented_texts

BOS = 1


def invented_documents(count):
    """Sentences of all lengths with what ends them and what only looks like it."""
    draw = random.Random(7)
    words = sorted({word for text in invented_texts(40) for word in text.lower().split() if word.isalpha()})
    documents = []
    for _ in range(count):
        text = ""
        for _ in range(draw.randint(0, 12)):
            sentence = draw.choices(words, k=draw.randint(1, 45))
            for _ in range(draw.randint(0, 2)):
                sentence.insert(draw.randrange(len(sentence)), draw.choice(["Mr. Ba", "J. Den", "e.g.", "3.5", "(so.)", "oh!"]))
            ending = draw.choice([".", "!", "?", '."', ".)", ""])
            text += " ".join(sentence).capitalize() + ending + draw.choice([" ", "\n", "\n\n", " \r\n\r\n", "\t"])
        documents.append(text)
    return documents


def cells(lengths, depths, samples):
    return [(length, depth, index) for length in lengths for depth in depths for index in range(samples)]


class Needles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_fixtures()
        cls.documents = invented_documents(60)
        drawn = independent_needles.generated_sentences(independent_needles.Stream(1, 5, 0, 0, 0))
        sample = " ".join(cls.documents[:30]) + " ".join(next(drawn) for _ in range(100)) + independent_needles.QUESTION
        learned = ByteBpe.learned(sample, 120).merges
        cls.tokenizers = {"coarse": ByteBpe(learned), "fine": ByteBpe(learned[:25]),
                          "ab": ByteBpe([*learned[:60], ("A", "B")]), "ba": ByteBpe([*learned[:60], ("B", "A")])}
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ropelab-needles-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        for name, tokenizer in cls.tokenizers.items():
            shutil.copytree(FIXTURES / "models/stories260K", cls.folder / "models" / name)
            (cls.folder / "models" / name / "tokenizer.json").write_text(tokenizer.json())
        corpus = cls.folder / "tales.jsonl"
        corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in cls.documents))
        cls.lab = Lab(cls.folder / "models", worker_flags=["--threads", "1"])
        cls.lab.__enter__()
        cls.addClassCleanup(cls.lab.__exit__, None, None, None)
        cls.lab.start_worker("w1")
        cls.lab.client("corpora", "add", "tales", corpus)

    def realised(self, model, *sample, **options):
        tokenize = independent_needles.of_byte_bpe(self.tokenizers[model])
        return independent_needles.realise(tokenize, *sample, bos=BOS, **options)

    def test_feeds_the_ids_that_an_independent_realisation_makes(self):
        grid = cells([100, 220], [0, 0.25, 0.9], 2)
        for haystack, documents in (("generated {}", None), ('corpus { name: "tales" }', self.documents)):
            for model in ("coarse", "fine"):
                with self.subTest(haystack=haystack, model=model):
                    (experiment,) = self.lab.submit(
                        f'name: "x" model: "{model}" seeds: [42, 7] slash_detection {{ threshold: 0.3 prompts {{ needle {{ context_lengths: '
                        f"[220, 100] depths: [0, 0.9, 0.25] samples_per_cell: 2 haystack {{ {haystack} }} }} }} }}")
                    wanted = []
                    for seed in (42, 7):
                        prompts = [self.realised(model, seed, "test", *sample, documents=documents)["ids"] for sample in grid]
                        wanted += [independent.fed_ids_digest(prompts[i:i + 8]) for i in range(0, len(prompts), 8)]
                    tasks = self.lab.json("provenance", experiment)["tasks"]
                    tasks = sorted((t for t in tasks if t["kind"] == "slash_profile"), key=lambda t: int(t.get("index", 0)))
                    self.assertEqual([task["fed_ids_digest"] for task in tasks], wanted)
                    rows = self.lab.table(experiment, "slash_scores")
                    self.assertEqual({row["uniform"] for row in rows}, {""}, "lengths differ, and only the workers know them")

    def detect(self, models, fields, seeds="42", **options):
        named = ", ".join(f'"{model}"' for model in models)
        return self.lab.submit(f'name: "x" models: [{named}] seeds: [{seeds}] retrieval_detection {{ metrics: [ARGMAX, MASS] threshold: 0.1 '
                               f"needles {{ {fields} }} }}", **options)

    def check_rows(self, experiment, models, seeds, grid, dropped=(), **options):
        rows = {(r["model"], int(r["seed"]), int(r["context_length"]), float(r["depth"]), int(r["sample"])): r
                for r in self.lab.table(experiment, "needle_samples")}
        self.assertEqual(len(rows), len(models) * len(seeds) * len(grid))
        for model in models:
            for seed in seeds:
                for sample in grid:
                    row = rows[(model, seed, *sample)]
                    if (seed, sample) in dropped:
                        self.assertEqual((row["kept"], row["tokens"], row["code"]), ("false", "", ""))
                        continue
                    wanted = self.realised(model, seed, "detection", *sample, **options)
                    found = {"kept": row["kept"], "tokens": int(row["tokens"]), "words": int(row["words"]),
                             "depth": float(row["realised_depth"]), "code": row["code"],
                             "needle": (int(row["needle_first"]), int(row["needle_last"]))}
                    self.assertEqual(found, {"kept": "true", **{key: wanted[key] for key in found if key != "kept"}}, (model, seed, sample))

    def test_needles_stand_where_an_independent_realisation_puts_them(self):
        grid = cells([128, 300], [0.1, 0.5], 3)
        for haystack, documents in (("generated {}", None), ('corpus { name: "tales" }', self.documents)):
            with self.subTest(haystack=haystack):
                (experiment,) = self.detect(["coarse", "fine"], "context_lengths: [128, 300] depths: [0.1, 0.5] samples_per_cell: 3 "
                                            f"haystack {{ {haystack} }}", seeds="42, 7")
                self.check_rows(experiment, ["coarse", "fine"], [42, 7], grid, documents=documents)

    def test_several_tokenizers_keep_what_fits_all(self):
        # One tokenizer joins AB, the other BA: with room for three tokens of the code's four letters only codes that hold both fit.
        options = {"alphabet": "AB", "code_length": 4}
        plain = self.realised("ab", 42, "detection", 400, 0.5, 0, **options)["ids"]
        text = independent_needles.NEEDLE.replace("CODE", "BBBB") + independent_needles.QUESTION
        length = len(self.tokenizers["ab"].ids(text))  # BOS in the place of one token
        self.assertEqual(length, len(self.tokenizers["ba"].ids(text)))
        self.assertGreater(len(plain), length)
        grid, models = cells([length, 128], [0.5], 12), ["ab", "ba"]
        dropped = {(seed, sample) for seed in (42, 7) for sample in grid
                   if any(self.realised(model, seed, "detection", *sample, **options) is None for model in models)}
        self.assertTrue(all(sample[0] == length for _, sample in dropped))
        self.assertTrue(0 < len(dropped) < 24, len(dropped))
        fields = (f'context_lengths: [{length}, 128] depths: 0.5 samples_per_cell: 12 haystack {{ generated {{}} }} '
                  'code_alphabet: "AB" code_length: 4')
        (experiment,) = self.detect(models, fields, seeds="42, 7")
        self.check_rows(experiment, models, [42, 7], grid, dropped, **options)
        for row in self.lab.table(experiment, "statistics"):
            if row["name"] == "needles_dropped":
                self.assertEqual(int(float(row["value"])), sum(seed == int(row["seed"]) for seed, _ in dropped))
        lengths = [task for task in self.lab.json("provenance", experiment)["tasks"] if task["kind"] == "text_lengths"]
        self.assertEqual(len(lengths), 2 * 2 * 3)

        with self.subTest("alone, a sample that does not fit fails its task by name"):
            (experiment,) = self.detect(["ab"], fields, expect=1)
            said = json.dumps(self.lab.json("show", experiment))
            self.assertIn("needle and question alone", said)
        with self.subTest("a cell of which nothing is left"):
            (experiment,) = self.detect(models, fields.replace(f"[{length}, 128]", f"[{length - 4}, 128]"), expect=1)
            self.assertIn(f"no sample of context length {length - 4} at depth 0.5 fits every model",
                          json.dumps(self.lab.json("show", experiment)))

    def test_says_what_is_wrong(self):
        def refused(fields):
            return self.lab.client("validate", self.lab.write_spec(
                f'name: "x" model: "coarse" retrieval_detection {{ metrics: ARGMAX needles {{ {fields} }} }}'), expect=4).stderr

        self.assertIn("448", refused("context_lengths: 449 haystack { generated {} }"))
        self.assertIn("retrieval_detection.needles.chat", refused("context_lengths: 128 haystack { generated {} } chat: true"))
        self.assertIn("known: tales", refused('context_lengths: 128 haystack { corpus { name: "tails" } }'))
        small = self.folder / "small.jsonl"
        small.write_text(json.dumps({"text": "One sentence stands here alone. No more."}) + "\n")
        self.lab.client("corpora", "add", "small", small)
        (experiment,) = self.detect(["coarse"], 'context_lengths: 128 depths: 0.5 samples_per_cell: 1 haystack { corpus { name: "small" } }',
                                    expect=1)
        said = json.dumps(self.lab.json("show", experiment))
        self.assertIn("has 31 characters in sentences of 20 to 200 characters in all of its 1 documents", said)
        self.assertIn("a haystack for 128 tokens takes 512", said)


if __name__ == "__main__":
    unittest.main(verbosity=2, argv=[sys.argv[0]])
