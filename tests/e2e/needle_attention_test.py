"""What heads look at when a needle is asked for, against numpy in float64: every metric of every head from a forward pass that shares
no code with the product, on prompts that independent_needles.py realises; and once more from the attention that `inspect` shows.
INT8 weights likewise, rounded and widened by numpy."""

import json
import pathlib
import subprocess
import tempfile
import unittest

import numpy

import families_test
import independent_needles
from byte_bpe import ByteBpe
from harness import BIN, Lab, read_safetensors

LENGTHS, DEPTHS, SEED = [110, 170], [0.1, 0.75], 42
# family, fields, windows of the three layers
MODELS = {"grouped": ("llama", {}, (0, 0, 0)),
          "sliding": ("gemma2", {"sliding_window": 60, "query_pre_attn_scalar": 7}, (60, 0, 60))}
ATTENTION, LOGITS = 5e-5, 1e-4  # absolute; fp32 against float64
MARGIN = 1e-4  # below it two keys are the largest of a row alike
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def learned_tokenizer():
    stream = independent_needles.Stream(7, 99, 0, 0, 0.0)
    sentences = independent_needles.generated_sentences(stream)
    return ByteBpe.learned(" ".join([next(sentences) for _ in range(60)] + [independent_needles.NEEDLE, independent_needles.QUESTION]), 150)


def rounded(weights):
    """The seven projections of every layer as int8 with a scale a row, widened in fp32; everything else as it is."""
    changed = dict(weights)
    for name, weight in weights.items():
        if not name.endswith(tuple(f"{part}.weight" for part in PROJECTIONS)):
            continue
        stored = weight.astype(numpy.float32)
        scale = numpy.abs(stored).max(1, keepdims=True) / numpy.float32(127)
        whole = numpy.rint(stored / numpy.where(scale > 0, scale, numpy.float32(1))).astype(numpy.float32)
        assert numpy.abs(whole).max() == 127
        changed[name] = (whole * scale).astype(numpy.float64)
    return changed


class Sample:
    """A prompt with its answer, and which of the needle's tokens spell the same as the answer's."""

    def __init__(self, tokenizer, length, depth, index=0):
        tokenize = independent_needles.of_byte_bpe(tokenizer)
        realised = independent_needles.realise(tokenize, SEED, "detection", length, depth, index, bos=1)
        self.prompt, self.spans = realised["ids"], {"NEEDLE": realised["needle"], "CODE": realised["code_span"]}
        code = realised["code"]
        answer, places = tokenize(" " + code)
        self.ids = self.prompt + answer
        _, spans = tokenize(realised["text"])
        spans = [(0, 0), *spans]
        first, last = self.spans["NEEDLE"]
        # Characters of the code that a token covers, wherever it begins.
        start = realised["text"].index(code)
        within = lambda begin, end, at: (max(begin - at, 0), min(end - at, len(code)))
        self.same = []
        for token, (begin, end) in zip(answer, places):
            found = [i for i in range(first, last + 1)
                     if self.prompt[i] == token and within(*spans[i], start) == within(begin, end, 1)]
            self.same.append(found[0] if found else -1)

    def metrics(self, attention, span):
        """Name -> [layers, heads], from [layers, heads, T, T]; and how far the nearest argmax is from falling otherwise."""
        first, last = self.spans[span]
        begin, end = self.spans["NEEDLE"]
        a = len(self.prompt) - 1
        answer = range(a + 1, len(self.ids))
        largest = attention.argmax(-1)
        in_order = numpy.sort(attention[:, :, a:], -1)
        margin = (in_order[..., -1] - in_order[..., -2])[:, :, : len(answer)].min(-1)
        known = [(t, i) for t, i in enumerate(self.same) if i >= 0]
        zero = numpy.zeros(attention.shape[:2])
        return {
            "ARGMAX": ((largest[:, :, a] >= first) & (largest[:, :, a] <= last)).astype(float),
            "MASS": attention[:, :, a, first : last + 1].sum(-1),
            "COPY_PAPER": sum(attention[:, :, row, begin : end + 1].sum(-1) for row in answer) / len(answer),
            "COPY_PAPER_PER_TOKEN": sum((attention[:, :, a + 1 + t, i] for t, i in known), zero) / len(answer),
            "COPY_WU": sum(((largest[:, :, a + t] == i).astype(float) for t, i in known), zero) / len(answer),
        }, margin


class NeedleAttention(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory(prefix="ropelab-e2e-")
        cls.addClassCleanup(place.cleanup)
        cls.folder = pathlib.Path(place.name)
        cls.tokenizer = learned_tokenizer()
        for number, (name, (family, changes, _)) in enumerate(MODELS.items()):
            folder = cls.folder / name
            folder.mkdir()
            fields = {"vocab_size": len(cls.tokenizer.vocabulary), "max_position_embeddings": 256, "bos_token_id": 1, "eos_token_id": 2}
            families_test.write_checkpoint(folder, family, {**changes, **fields}, "F32", 1, seed=number)
            (folder / "tokenizer.json").write_text(cls.tokenizer.json())
        cls.samples = {(length, depth): Sample(cls.tokenizer, length, depth) for length in LENGTHS for depth in DEPTHS}
        cls.lab = Lab(cls.folder, worker_flags=["--threads", "1"]).__enter__()
        cls.addClassCleanup(cls.lab.__exit__, None, None, None)
        cls.lab.start_worker("w1")

    def model(self, name, int8=False):
        model = families_test.Model(self.folder / name, MODELS[name][2])
        if int8:
            model.weights = rounded(model.weights)
        return model

    def inspected(self, name, ids, dump, dtype="float32"):
        out = self.lab.folder / "inspected.safetensors"
        subprocess.run([BIN / "ropelab-worker", "inspect", "--model", self.folder / name, "--token-ids", ",".join(map(str, ids)),
                        "--dump", dump, "--out", out, "--dtype", dtype, "--threads", "1"], check=True, capture_output=True)
        return read_safetensors(out)

    def scores(self, name, span, dtype):
        """(metric, length, depth) -> [layers, heads]."""
        (experiment,) = self.lab.submit(f"""name: "where heads look" model: "{name}" dtype: {dtype} seeds: {SEED}
            retrieval_detection {{ needles {{ context_lengths: {LENGTHS} depths: {DEPTHS} samples_per_cell: 1
                haystack {{ generated {{}} }} }} metrics: [ARGMAX, MASS, COPY_PAPER, COPY_PAPER_PER_TOKEN, COPY_WU]
                span: {span} threshold: 0.1 }}""")
        config = json.loads((self.folder / name / "config.json").read_text())
        found = {}
        for row in self.lab.table(experiment, "head_scores"):
            if row["context_length"] == "" or row["depth"] == "":
                continue
            self.assertEqual(row["samples"], "1")
            key = row["metric"].upper(), int(row["context_length"]), float(row["depth"])
            shape = (config["num_hidden_layers"], config["num_attention_heads"])
            grid = found.setdefault(key, numpy.full(shape, numpy.nan))
            grid[int(row["layer"]), int(row["head"])] = float(row["score"])
        self.assertEqual(len(found), 5 * len(self.samples))
        return found

    def check(self, scores, metrics, margin, length, depth, bound, what):
        worst = 0
        for metric, wanted in metrics.items():
            distance = numpy.abs(scores[metric, length, depth] - wanted)
            if metric in ("ARGMAX", "COPY_WU"):
                distance = distance[margin > MARGIN]
                self.assertEqual(distance.max(initial=0), 0, (what, metric, length, depth))
            else:
                worst = max(worst, distance.max())
                self.assertLess(distance.max(), bound, (what, metric, length, depth))
        return worst

    def test_every_metric_of_every_head(self):
        for name in MODELS:
            model = self.model(name)
            computed = {key: model.forward(sample.ids)["attn_probs"] for key, sample in self.samples.items()}
            inspected = {key: self.inspected(name, sample.ids, "attn_probs")["attn_probs"].astype(numpy.float64)
                         for key, sample in self.samples.items()}
            for span in ("NEEDLE", "CODE"):
                scores, hits, worst, ties = self.scores(name, span, "FLOAT32"), 0, 0, 0
                for (length, depth), sample in self.samples.items():
                    self.assertGreater(len(sample.prompt), length / 2)
                    metrics, margin = sample.metrics(computed[length, depth], span)
                    worst = max(worst, self.check(scores, metrics, margin, length, depth, ATTENTION, name))
                    hits += metrics["ARGMAX"].sum()
                    ties += (margin <= MARGIN).sum()
                    metrics, margin = sample.metrics(inspected[length, depth], span)
                    self.check(scores, metrics, margin + 1, length, depth, 1e-12, (name, "inspect"))
                print(f"{name}, {span}: {hits:.0f} hits, {ties} near ties, masses off by {worst:.1e} at most")
                self.assertGreater(hits, 0, "nothing hits: choose another seed")

    def test_int8_weights_are_numpys(self):
        for name in MODELS:
            model, plain, span = self.model(name, int8=True), self.model(name), "NEEDLE"
            scores, worst, off, moved = self.scores(name, span, "INT8"), 0, 0, 0
            for (length, depth), sample in self.samples.items():
                wanted = model.forward(sample.ids)
                shown = self.inspected(name, sample.ids, "logits,attn_probs", "int8")
                off = max(off, numpy.abs(shown["logits"] - wanted["logits"]).max())
                moved = max(moved, numpy.abs(plain.forward(sample.ids)["logits"] - wanted["logits"]).max())
                metrics, margin = sample.metrics(wanted["attn_probs"], span)
                worst = max(worst, self.check(scores, metrics, margin, length, depth, ATTENTION, (name, "int8")))
            print(f"{name}, int8: logits off by {off:.1e}, moved by {moved:.2f} from fp32, masses off by {worst:.1e}")
            self.assertLess(off, LOGITS)
            self.assertGreater(moved, 10 * LOGITS, "rounding would not be noticed")


if __name__ == "__main__":
    unittest.main(verbosity=2)
