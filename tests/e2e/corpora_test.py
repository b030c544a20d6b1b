"""Prompts from text through the real binaries: which documents are read, which ids are fed, and what happens when documents are
short, gone or malformed. Orders, tokens and sentences are computed here a second time."""

import json
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import time
import unittest

import numpy

import independent
from byte_bpe import ByteBpe
from harness import FIXTURES, SOURCE, Lab, need_fixtures
from invented import invented_texts

MODEL = "stories260K"
SEEDS = [42, 7]
COUNT, TOKENS = 100, 64
CORPUS = f'corpus {{ name: "tales" count: {COUNT} tokens: {TOKENS} }}'


def spec(prompts, seeds=SEEDS, name="from text"):
    listed = ", ".join(str(seed) for seed in seeds)
    return f'name: "{name}" model: "{MODEL}" seeds: [{listed}] slash_detection {{ prompts {{ {prompts} }} threshold: 0.3 }}'


def corpus_order(seed, documents):
    raw = [int(word) for word in independent.philox(seed, 4, 0).random_raw(documents - 1)]
    order = list(range(documents))
    for i in range(documents - 1, 0, -1):
        j = (raw.pop(0) * (i + 1)) >> 64
        order[i], order[j] = order[j], order[i]
    return order


def sentences(seed, sample):
    """The grammar is read from the source, where it stands as data; what is drawn from it is computed here."""
    source = (SOURCE / "worker/measure/generated_text.cc").read_text()
    lists = {name: re.findall(r'"([^"]*)"', body)
             for name, body in re.findall(r"std::string_view k(\w+)\[\] = \{(.*?)\};", source, re.DOTALL)}
    raw = independent.philox(seed, 5, sample)

    def draw(words):
        return words[(int(raw.random_raw()) * len(words)) >> 64]

    plural = {"person": "Persons", "place": "Places", "thing": "Things", "time": "Times", "action": "Actions", "crop": "Crops",
              "adjective": "Adjectives", "animal": "Animals", "manner": "Manners", "weather": "Weathers"}
    while True:
        yield re.sub("<([a-z]+)>", lambda slot: draw(lists[plural[slot.group(1)]]), draw(lists["Templates"]))


class Corpora(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_fixtures()
        cls.texts = invented_texts(300)
        cls.bpe = ByteBpe.learned("\n".join(cls.texts[:60]), 100)
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ropelab-corpora-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.models = cls.folder / "models"
        shutil.copytree(FIXTURES / "models" / MODEL, cls.models / MODEL)
        (cls.models / MODEL / "tokenizer.json").write_text(cls.bpe.json())
        cls.file = cls.folder / "tales.jsonl"
        cls.file.write_text("".join(json.dumps({"title": f"tale {i}", "text": text}) + "\n" for i, text in enumerate(cls.texts)))
        cls.lengths = [len(cls.bpe.ids(text)) for text in cls.texts]

    def lab(self, workers=1, flags=()):
        lab = Lab(self.models, server_flags=flags, worker_flags=["--threads", "1"])
        lab.__enter__()
        self.addCleanup(lab.__exit__, None, None, None)
        for number in range(workers):
            lab.start_worker(f"w{number + 1}")
        return lab

    def add(self, lab, path=None, name="tales"):
        lab.client("corpora", "add", name, path or self.file)

    def fails(self, lab, experiment, *words):
        done = lab.client("watch", experiment, expect=1, seconds=120)
        said = done.stdout + done.stderr + json.dumps(lab.json("show", experiment))
        for word in words:
            self.assertIn(word, said)

    def chosen(self, seed, count=COUNT, tokens=TOKENS):
        """Documents that become prompts, and how many were looked at for them."""
        taken = []
        for read, document in enumerate(corpus_order(seed, len(self.texts)), 1):
            if self.lengths[document] >= tokens - 1:  # BOS is the first
                taken.append(document)
            if len(taken) == count:
                return taken, read
        raise AssertionError("too few long texts")

    @staticmethod
    def digests(lab, experiment, kind="slash_profile"):
        tasks = [task for task in lab.json("provenance", experiment)["tasks"] if task["kind"] == kind]
        return [task["fed_ids_digest"] for task in sorted(tasks, key=lambda task: int(task.get("index", 0)))]

    @staticmethod
    def blocks(prompts):
        return [independent.fed_ids_digest(prompts[i:i + 8]) for i in range(0, len(prompts), 8)]

    @staticmethod
    def tables(lab, experiment):
        return {name: lab.csv_bytes(experiment, name) for name in ("slash_scores", "slash_heads", "statistics")}

    def test_feeds_the_documents_that_numpy_and_another_tokenizer_say(self):
        lab = self.lab()
        self.add(lab)
        (listed,) = lab.json("corpora")
        self.assertEqual((listed["name"], int(listed["documents"])), ("tales", 300))
        (experiment,) = lab.submit(spec(CORPUS))
        wanted = []
        for seed in SEEDS:
            documents, read = self.chosen(seed)
            wanted += self.blocks([[1] + self.bpe.ids(self.texts[d])[:TOKENS - 1] for d in documents])
            rows = {row["name"]: row for row in lab.table(experiment, "statistics") if row["seed"] == str(seed)}
            self.assertEqual(float(rows["corpus_documents_read"]["value"]), read)
            self.assertEqual(float(rows["corpus_skipped"]["value"]), read - COUNT)
            self.assertGreater(read, COUNT)
        self.assertEqual(self.digests(lab, experiment), wanted)
        (corpus,) = lab.json("provenance", experiment)["corpora"]
        self.assertEqual(corpus["sha256"], listed["sha256"])
        alone = self.tables(lab, experiment)

        # Another experiment on fewer prompts measures none of its whole blocks again.
        (smaller,) = lab.submit(spec(CORPUS.replace(str(COUNT), "16"), name="smaller"))
        tasks = lab.json("provenance", smaller)["tasks"]
        self.assertTrue(all(task.get("reused") for task in tasks if task["kind"] == "slash_profile"))

        with self.subTest("two workers"):
            pair = self.lab(workers=2)
            self.add(pair)
            (experiment,) = pair.submit(spec(CORPUS))
            self.assertEqual(self.tables(pair, experiment), alone)
        with self.subTest("a worker killed in the middle"):
            killed = self.lab(workers=2, flags=["--lease-seconds", "3"])
            self.add(killed)
            (experiment,) = killed.submit(spec(CORPUS), wait=False)
            for victim, kind in (("w1", "text_lengths"), ("w2", "slash_profile")):
                self.kill_in_mid_task(killed, victim, kind)
                killed.start_worker(victim + "again")
            killed.client("watch", experiment, seconds=120)
            self.assertEqual(self.tables(killed, experiment), alone)
            attempts = [a for task in killed.json("provenance", experiment)["tasks"] for a in task["attempts"]]
            self.assertGreaterEqual(len([a for a in attempts if a["outcome"] != "finished"]), 2)

    @staticmethod
    def kill_in_mid_task(lab, name, kind):
        """Stops the worker first: what the server then holds for running will never end by itself."""
        worker = lab.workers[name]
        end = time.monotonic() + 60
        while time.monotonic() < end:
            worker.child.send_signal(signal.SIGSTOP)
            time.sleep(0.02)
            ((running,),) = lab.database().execute(
                "SELECT COUNT(*) FROM attempts JOIN tasks ON id = task WHERE outcome = 'running' AND worker = ? AND kind = ?", (name, kind))
            if running > 0:
                worker.kill()
                return
            worker.child.send_signal(signal.SIGCONT)
            time.sleep(0.005)
        raise AssertionError(f"{name} was never seen at a task of kind {kind}")

    def test_feeds_the_sentences_that_the_grammar_says(self):
        lab = self.lab()
        (experiment,) = lab.submit(spec("generated { count: 10 tokens: 200 }", seeds=[5]))
        prompts = []
        for sample in range(10):
            drawn = sentences(5, sample)
            text = [next(drawn) for _ in range(8)]
            while len(self.bpe.ids(" ".join(text))) < 199:
                text += [next(drawn) for _ in range(len(text))]
            text += [next(drawn), next(drawn)]
            prompts.append([1] + self.bpe.ids(" ".join(text))[:199])
        self.assertEqual(self.digests(lab, experiment), self.blocks(prompts))

    def test_says_what_is_wrong(self):
        lab = self.lab()
        self.add(lab)
        with self.subTest("an unknown corpus"):
            said = lab.client("validate", lab.write_spec(spec(CORPUS.replace("tales", "tails"))), expect=4).stderr
            self.assertIn("slash_detection.prompts.corpus.name", said)
            self.assertIn("known: tales", said)
        with self.subTest("too few documents"):
            (experiment,) = lab.submit(spec('corpus { name: "tales" count: 200 tokens: 250 }', seeds=[42]), wait=False)
            long_ones = sum(length >= 249 for length in self.lengths)
            self.fails(lab, experiment, f"{long_ones} of its 300 documents", "200 are needed",
                       f"{300 - long_ones} were skipped as too short")
            self.assertNotIn("loaded", lab.workers["w1"].log.read_text(), "lengths need no weights")
        with self.subTest("a line without the field"):
            holes = self.folder / "holes.jsonl"
            holes.write_text("".join(json.dumps({"text": text} if i != 3 else {"body": text}) + "\n"
                                     for i, text in enumerate(self.texts[:8])))
            self.add(lab, holes, "holes")
            (experiment,) = lab.submit(spec('corpus { name: "holes" count: 8 tokens: 12 }', seeds=[42]), wait=False)
            self.fails(lab, experiment, "document 3 of corpus", 'its field \\"text\\" is missing')
        with self.subTest("a corpus removed from the server's disk"):
            lab.workers["w1"].stop()
            (experiment,) = lab.submit(spec('corpus { name: "tales" count: 8 tokens: 20 }', seeds=[99]), wait=False)
            shutil.rmtree(lab.data / "corpora")
            shutil.rmtree(lab.folder / "cache" / "corpora")
            lab.start_worker("w2")
            (listed,) = [c for c in lab.json("corpora") if c["name"] == "tales"]
            self.fails(lab, experiment, "of corpus " + listed["sha256"][:16])


if __name__ == "__main__":
    unittest.main(verbosity=2, argv=[sys.argv[0]])
