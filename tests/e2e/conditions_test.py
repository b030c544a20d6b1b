"""Knockouts, patches and sweeps through the real binaries, on a made model that answers at random: a forward pass in numpy and float64
writes every answer under every edit once more, and from the table of outcomes all other tables are worked out here."""

import collections
import copy
import math
import os
import pathlib
import statistics
import tempfile
import unittest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # numpy's small products are ten times slower when threads wait for each other

import numpy

import families_test
import independent
import independent_needles
from byte_bpe import SPECIAL, ByteBpe
from harness import Lab
from interventions_test import Edited, edit

BOS, EOS, ANSWER = 1, 2, 20
DEPTHS, SAMPLES, SEED = (0.25, 0.75), 5, 42
# One letter, which a model that answers at random writes now and then.
CODES = 'code_length: 1 code_alphabet: "aeinorst"'
HEADS = [(0, 1), (1, 4), (2, 2)]  # of 3 layers with 6 heads on 2 KV heads
SIZE, QUERY_HEADS, LAYERS = 16, 6, 3
PERPLEXITY = 1e-5  # relative; fp32 against float64
TABLES = ("comparisons", "conditions", "outcomes", "statistics")
FOREVER = 10**6


def shuffled(values, seed, purpose, counter):
    values = list(values)
    philox = numpy.random.Philox(key=numpy.array([seed, purpose], numpy.uint64), counter=numpy.array([0, *counter], numpy.uint64))
    raw = [int(word) for word in philox.random_raw(len(values) - 1)]
    for i in range(len(values) - 1, 0, -1):
        j = (raw.pop(0) * (i + 1)) >> 64
        values[i], values[j] = values[j], values[i]
    return values


def drawn_heads(named, draw, per_layer):
    """docs/random-numbers.md, purpose 10."""
    others = [(layer, head) for layer in range(LAYERS) for head in range(QUERY_HEADS) if (layer, head) not in named]
    order = shuffled(others, SEED, 10, (0, draw, 0))
    if not per_layer:
        return sorted(order[: len(named)])
    missing = collections.Counter(layer for layer, _ in named)
    found = []
    for layer, head in order:
        if missing[layer] > 0:
            missing[layer] -= 1
            found.append((layer, head))
    return sorted(found)


def random_dims(head, draw, count):
    """docs/random-numbers.md, purpose 13."""
    return sorted(shuffled(range(SIZE), SEED, 13, (draw, *head))[:count])


def mcnemar(only_first, only_second):
    n = only_first + only_second
    tail = sum(math.comb(n, k) for k in range(min(only_first, only_second) + 1)) / 2**n
    return min(1.0, 2 * tail)


def bootstrap(differences):
    """docs/random-numbers.md, purpose 15."""
    differences = numpy.array(differences, float)
    means = []
    for draw in range(10000):
        raw = independent.philox(SEED, 15, draw).random_raw(len(differences))
        means.append(differences[[(int(word) * len(differences)) >> 64 for word in raw]].mean())
    return numpy.quantile(means, [0.025, 0.975])


def listed(heads):
    return "list { " + " ".join(f"head {{ layer: {layer} head: {head} }}" for layer, head in heads) + " }"


class Conditions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        sentences = independent_needles.generated_sentences(independent_needles.Stream(7, 99, 0, 0, 0.0))
        text = " ".join([next(sentences) for _ in range(60)] + [independent_needles.NEEDLE, independent_needles.QUESTION])
        cls.tokenizer = ByteBpe.learned(text, 150)
        place = tempfile.TemporaryDirectory(prefix="ropelab-e2e-")
        cls.addClassCleanup(place.cleanup)
        cls.models = pathlib.Path(place.name)
        (cls.models / "made").mkdir()
        fields = {"vocab_size": len(cls.tokenizer.vocabulary), "max_position_embeddings": 256, "head_dim": SIZE, "bos_token_id": BOS,
                  "eos_token_id": EOS}
        families_test.write_checkpoint(cls.models / "made", "llama", fields, "F32", 1, seed=3)
        (cls.models / "made" / "tokenizer.json").write_text(cls.tokenizer.json())
        cls.bytes_of = {character: byte for byte, character in cls.tokenizer.characters.items()}
        cls.name_of = {i: name for name, i in cls.tokenizer.vocabulary.items()}
        cls.needles, cls.answers = {}, {}
        cls.plain = Edited(cls.models / "made", (0,) * LAYERS, [])
        cls.lab = Lab(cls.models, worker_flags=["--threads", "1"]).__enter__()
        cls.addClassCleanup(cls.lab.__exit__, None, None, None)
        cls.lab.start_worker("w1")

    def edited(self, edits):
        model = copy.copy(self.plain)
        model.edits = edits
        return model

    def needle(self, length, depth, index):
        key = (length, depth, index)
        if key not in self.needles:
            self.needles[key] = independent_needles.realise(
                independent_needles.of_byte_bpe(self.tokenizer), SEED, "test", length, depth, index, bos=BOS, alphabet="aeinorst",
                code_length=1)
        return self.needles[key]

    def text_of(self, ids):
        raw = bytes(self.bytes_of[c] for i in ids for c in self.name_of[i] if self.name_of[i] not in SPECIAL)
        return raw.decode("utf-8", errors="replace").replace("\r\n", "\n").replace("\r", "\n")  # as Python reads what the client prints

    def answer(self, edits, length, depth, index):
        """The text, and how near the nearest choice was to falling otherwise. `edits` are made for a question's place."""
        needle = self.needle(length, depth, index)
        made = edits(needle["question"])
        key = (repr(made), length, depth, index)
        if key not in self.answers:
            model = self.edited(made)
            ids, margin = list(needle["ids"]), math.inf
            while len(ids) < len(needle["ids"]) + ANSWER and ids[-1] != EOS:
                logits = model.forward(numpy.array(ids))["logits"][-1]
                best = numpy.sort(logits)[-2:]
                margin = min(margin, best[1] - best[0])
                ids.append(int(logits.argmax()))
            self.answers[key] = self.text_of(ids[len(needle["ids"]):]), margin
        return self.answers[key]

    def needle_field(self, lengths, samples=SAMPLES):
        return (f"needles {{ context_lengths: {list(lengths)} depths: {list(DEPTHS)} samples_per_cell: {samples} haystack {{ generated {{}} }}"
                f" {CODES} }}")

    def run_spec(self, kind, fields, lengths=(96,), samples=SAMPLES):
        (experiment,) = self.lab.submit(f"""name: "{kind}" model: "made" {kind} {{ heads {{ {listed(HEADS)} }}
            {self.needle_field(lengths, samples)} {fields} }}""")
        return experiment

    def check_outcomes(self, experiment, wanted, columns):
        """`wanted`: what `columns` say of a condition -> its edits. Returns condition -> correct by sample."""
        correct, answered, close = collections.defaultdict(dict), 0, 0
        for row in self.lab.table(experiment, "outcomes"):
            key = tuple(row[column] for column in columns)
            sample = int(row["context_length"]), float(row["depth"]), int(row["sample"])
            self.assertIn(key, wanted)
            self.assertNotIn(sample, correct[key])
            correct[key][sample] = row["correct"] == "true"
            text, margin = self.answer(wanted[key], *sample)
            answered += 1
            if margin < 1e-5:
                close += 1
                continue
            self.assertEqual(row["generated"], text, (key, sample))
            self.assertEqual(correct[key][sample], self.needle(*sample)["code"] in text, (key, sample))
        self.assertEqual(set(correct), set(wanted))
        self.assertLess(close, answered / 20)
        return correct, answered

    def check_conditions(self, experiment, correct, columns):
        """Accuracies on all samples, by length and by cell."""
        seen = 0
        for row in self.lab.table(experiment, "conditions"):
            samples = [right for (length, depth, _), right in correct[tuple(row[c] for c in columns)].items()
                       if row["context_length"] in ("", str(length)) and row["depth"] in ("", repr(depth))]
            self.assertEqual(int(row["samples"]), len(samples), row)
            self.assertAlmostEqual(float(row["accuracy"]), sum(samples) / len(samples), delta=1e-12, msg=row)
            seen += 1
        lengths = {length for length, _, _ in correct[next(iter(correct))]}
        self.assertEqual(seen, len(correct) * (1 + len(lengths) * (1 + len(DEPTHS))))

    def check_views(self, experiment):
        for table in TABLES:
            rows = self.lab.table(experiment, table)
            cursor = self.lab.database().execute(f"SELECT * FROM {table} WHERE experiment = ?", (experiment,))
            self.assertEqual([column[0] for column in cursor.description], ["experiment", *rows[0]], table)
            flags = [i for i, column in enumerate(rows[0]) if column in ("correct", "at_ceiling")]
            stored = []
            for row in cursor:
                values = ["" if v is None else "%.17g" % v if isinstance(v, float) else str(v) for v in row[1:]]
                for i in flags:
                    values[i] = {"0": "false", "1": "true"}[values[i]]
                stored.append([value.replace("\r\n", "\n").replace("\r", "\n") for value in values])
            self.assertEqual(sorted(stored), sorted(list(row.values()) for row in rows), table)

    def weight_rows(self, head):
        rows = self.plain.weights[f"model.layers.{head[0]}.self_attn.q_proj.weight"][head[1] * SIZE:(head[1] + 1) * SIZE]
        return numpy.abs(rows.astype(numpy.float64)).sum(-1)

    def by_utility(self, head, count, highest):
        norms = self.weight_rows(head)
        return sorted(sorted(range(SIZE), key=lambda dim: (-norms[dim] if highest else norms[dim], dim))[:count])

    LOW, HIGH = [6, 7, 14, 15], [0, 1, 8, 9]  # of 16 dimensions, whole pairs

    def test_the_six_conditions_of_a_patch(self):
        experiment = self.run_spec("patch", """dims: 4 target: BOTH stage: POST_ROPE random_dims { draws: 2 }
            controls { layer_matched { draws: 2 } } perplexity { prompts { uniform_tokens { count: 3 tokens: 40 bos: NEVER } } }""")

        def zeroed(heads, dims):
            return lambda _: [edit("zero_dims", [head], 0, FOREVER, dims=dims(head), target="BOTH", stage="POST_ROPE") for head in heads]

        matched = [drawn_heads(HEADS, draw, True) for draw in range(2)]
        wanted = {
            ("baseline", ""): lambda _: [],
            ("lowest_frequency", ""): zeroed(HEADS, lambda _: self.LOW),
            ("highest_frequency", ""): zeroed(HEADS, lambda _: self.HIGH),
            ("lowest_utility", ""): zeroed(HEADS, lambda head: self.by_utility(head, 4, False)),
            ("highest_utility", ""): zeroed(HEADS, lambda head: self.by_utility(head, 4, True)),
            **{("random_dims", str(draw)): zeroed(HEADS, lambda head, draw=draw: random_dims(head, draw, 4)) for draw in range(2)},
            **{("layer_matched_control", str(draw)): zeroed(matched[draw], lambda _: self.LOW) for draw in range(2)},
        }
        columns = ("condition", "draw")
        correct, answered = self.check_outcomes(experiment, wanted, columns)
        self.check_conditions(experiment, correct, columns)
        accuracies = {key: sum(of.values()) / len(of) for key, of in correct.items()}
        self.assertGreater(len(set(accuracies.values())), 2, "the conditions are all alike: nothing was tested")
        self.check_perplexities(experiment, wanted, columns)
        self.check_comparisons(experiment, correct)
        self.check_statistics(experiment, correct)
        print(f"patch: {answered} answers of {len(wanted)} conditions as numpy's; accuracies",
              " ".join(f"{key[0]}{key[1]} {value:.2f}" for key, value in accuracies.items()))

    def check_perplexities(self, experiment, wanted, columns):
        prompts = [independent.uniform_prompt(SEED, s, 40, list(range(len(self.tokenizer.vocabulary)))) for s in range(3)]
        for row in self.lab.table(experiment, "conditions"):
            if row["context_length"] != "":
                self.assertEqual(row["perplexity"], "")
                continue
            model = self.edited(wanted[tuple(row[c] for c in columns)](0))
            nll = 0
            for ids in prompts:
                logits = model.forward(numpy.array(ids))["logits"][:-1]
                log_sum = numpy.log(numpy.exp(logits - logits.max(-1, keepdims=True)).sum(-1)) + logits.max(-1)
                nll += (log_sum - logits[numpy.arange(39), ids[1:]]).sum()
            self.assertAlmostEqual(float(row["perplexity"]) / math.exp(nll / (3 * 39)), 1, delta=PERPLEXITY, msg=row)

    def check_comparisons(self, experiment, correct):
        against_of, tried = collections.Counter(), 0
        for row in self.lab.table(experiment, "comparisons"):
            first = next(of for key, of in correct.items() if key in ((row["condition"], row["draw"]), (row["condition"], "")))
            second = next(of for key, of in correct.items() if key in ((row["against"], row["draw"]), (row["against"], "")))
            against_of[row["condition"], row["against"]] += 1
            samples = list(first)
            differences = [int(first[s]) - int(second[s]) for s in samples]
            self.assertEqual((int(row["only_condition"]), int(row["only_against"]), int(row["samples"])),
                             (differences.count(1), differences.count(-1), len(samples)), row)
            self.assertAlmostEqual(float(row["difference"]), numpy.mean(differences), delta=1e-12)
            self.assertAlmostEqual(float(row["p"]), mcnemar(differences.count(1), differences.count(-1)), delta=1e-12)
            if len(set(differences)) > 1 and tried < 2:  # two are enough: numpy takes a second for each
                tried += 1
                low, high = bootstrap(differences)
                self.assertAlmostEqual(float(row["low"]), low, delta=1e-12)
                self.assertAlmostEqual(float(row["high"]), high, delta=1e-12)
        self.assertEqual(tried, 2)
        # On all samples and on those of the one length.
        self.assertEqual(against_of, {**{(name, "baseline"): 2 for name in ("lowest_frequency", "highest_frequency", "lowest_utility",
                                                                            "highest_utility")},
                                      ("random_dims", "baseline"): 4, ("layer_matched_control", "baseline"): 4,
                                      ("lowest_frequency", "highest_frequency"): 2, ("lowest_frequency", "random_dims"): 4,
                                      ("layer_matched_control", "lowest_frequency"): 4})

    def check_statistics(self, experiment, correct):
        rows = {row["name"]: row for row in self.lab.table(experiment, "statistics")}
        accuracy = {key: numpy.mean(list(of.values())) for key, of in correct.items()}
        effect = accuracy["lowest_frequency", ""] - accuracy["highest_frequency", ""]
        self.assertAlmostEqual(float(rows["frequency_effect"]["value"]), effect, delta=1e-12)
        self.assertAlmostEqual(float(rows["frequency_effect.over_seeds"]["value"]), effect, delta=1e-12)
        gaps = [accuracy["layer_matched_control", str(draw)] - accuracy["lowest_frequency", ""] for draw in range(2)]
        self.assertAlmostEqual(float(rows["head_specificity_gap"]["value"]), statistics.median(gaps), delta=1e-12)
        # Three heads of three groups of three: their keys are those of nine.
        self.assertEqual((float(rows["key_edit_heads"]["value"]), int(rows["key_edit_heads"]["n"])), (9, len(HEADS)))
        drop = (accuracy["baseline", ""] - accuracy["lowest_frequency", ""]) / accuracy["baseline", ""]
        self.assertAlmostEqual(float(rows["recall_drop"]["value"]), drop, delta=1e-12)
        ratio = rows["specificity_ratio"]
        if drop > 0:
            self.assertAlmostEqual(float(ratio["value"]), float(rows["perplexity_rise"]["value"]) / drop, delta=1e-9)
        else:
            self.assertEqual((ratio["value"], ratio["undefined_because"]), ("", "recall does not drop"))
        self.assertEqual(float(rows["needles_kept"]["value"]), len(DEPTHS) * SAMPLES)
        self.assertEqual(float(rows["at_ceiling"]["value"]), 0)

    def test_a_knockout_at_the_question_alone(self):
        experiment = self.run_spec("knockout", "positions: QUESTION controls { random {} }", samples=2)
        wanted = {("baseline", ""): lambda _: [],
                  ("knockout", ""): lambda question: [edit("zero_head", HEADS, question, FOREVER)]}
        for draw in range(10):
            heads = drawn_heads(HEADS, draw, False)
            wanted["random_control", str(draw)] = lambda question, heads=heads: [edit("zero_head", heads, question, FOREVER)]
        columns = ("condition", "draw")
        correct, answered = self.check_outcomes(experiment, wanted, columns)
        self.check_conditions(experiment, correct, columns)
        rows = {row["name"]: row for row in self.lab.table(experiment, "statistics")}
        accuracies = [numpy.mean(list(correct["random_control", str(draw)].values())) for draw in range(10)]
        over_draws = rows["accuracy_over_draws.random_control"]
        for column, value in (("value", statistics.median(accuracies)), ("low", min(accuracies)), ("high", max(accuracies))):
            self.assertAlmostEqual(float(over_draws[column]), value, delta=1e-12)
        worst = int(float(rows["worst_draw.random"]["value"]))
        self.assertEqual(worst, int(numpy.argmin(accuracies)))
        named = {name.rsplit(".", 1)[1] for name in rows if name.startswith("worst_draw.random.")}
        self.assertEqual(named, {f"L{layer}H{head}" for layer, head in drawn_heads(HEADS, worst, False)})
        self.check_views(experiment)
        print(f"knockout: {answered} answers as numpy's; worst draw {worst}: {min(accuracies):.2f}")

    def test_doses_and_lengths(self):
        experiment = self.run_spec("dose_sweep", "dims_shares: [0.25, 1] random_dims { draws: 1 pairs: true }", samples=2)
        columns = ("condition", "dose")

        def zeroed(dims):
            return lambda _: [edit("zero_dims", [head], 0, FOREVER, dims=dims(head), target="QUERY", stage="PRE_ROPE") for head in HEADS]

        def pairs_of(head):
            pairs = shuffled(range(SIZE // 2), SEED, 13, (0, *head))[:2]
            return sorted(pairs + [pair + SIZE // 2 for pair in pairs])

        everything = zeroed(lambda _: list(range(SIZE)))
        wanted = {("baseline", ""): lambda _: [], ("lowest_frequency", "0.25"): zeroed(lambda _: self.LOW),
                  ("random_dims", "0.25"): zeroed(pairs_of), ("lowest_frequency", "1"): everything, ("random_dims", "1"): everything}
        correct, answered = self.check_outcomes(experiment, wanted, columns)
        self.check_conditions(experiment, correct, columns)
        experiment = self.run_spec("context_sweep", "dims_share: 0.25 conditions: LOWEST_FREQUENCY", lengths=(88, 96), samples=2)
        wanted = {("baseline", ""): lambda _: [], ("lowest_frequency", "0.25"): zeroed(lambda _: self.LOW)}
        correct, more = self.check_outcomes(experiment, wanted, columns)
        self.check_conditions(experiment, correct, columns)
        names = {row["name"] for row in self.lab.table(experiment, "statistics")}
        self.assertLessEqual({"accuracy_drop.context_88", "accuracy_drop.context_96", "accuracy_drop"}, names)
        print(f"sweeps: {answered + more} answers as numpy's")

    STUDY = """name: "chain" model: "made" seeds: [42, 7]
        experiments { name: "detect" retrieval_detection { needles { context_lengths: 96 samples_per_cell: 2 haystack { generated {} } } threshold: 0.2 } }
        experiments { name: "knockout" knockout { heads { FOUND } NEEDLES } }
        experiments { name: "patch" patch { heads { FOUND } NEEDLES dims_share: 0.25 random_dims { draws: 1 }
                      controls { layer_matched { draws: 1 shortfall: REPORT_PARTIAL } }
                      perplexity { prompts { generated { count: 9 tokens: 40 } } } } }
        experiments { name: "each" per_head_patch { heads { FOUND } NEEDLES dims_share: 0.25 conditions: LOWEST_FREQUENCY } }
        experiments { name: "dose" dose_sweep { heads { FOUND } NEEDLES dims_shares: [0.25, 0.5] random_dims { draws: 1 } } }
        experiments { name: "coverage" coverage_sweep { heads { FOUND } NEEDLES dims_share: 0.25 } }
        experiments { name: "context" context_sweep { heads { FOUND } NEEDLES dims_share: 0.25 } }
        experiments { name: "rank" low_rank { heads { FOUND } NEEDLES ranks: 2
                      perplexity { prompts { generated { count: 3 tokens: 40 } } } } }"""

    def study(self, lab):
        found = 'retrieval { experiment: "detect" metric: MASS top: 3 }'
        return lab.submit(self.STUDY.replace("FOUND", found).replace("NEEDLES", self.needle_field((96,), 2)))

    def test_bytes_do_not_depend_on_workers(self):
        with Lab(self.models, worker_flags=["--threads", "1"]) as three:
            for name in "abc":
                three.start_worker(name, wait=False)
            for worker in three.workers.values():
                worker.wait_for("ready")
            rows = 0
            here_ids, there_ids = self.study(self.lab), self.study(three)
            for here, there in zip(here_ids[1:], there_ids[1:]):
                for table in TABLES[1:] if here == here_ids[-1] else TABLES:  # low_rank compares nothing
                    self.assertEqual(self.lab.csv_bytes(here, table), three.csv_bytes(there, table), table)
                    rows += len(self.lab.table(here, table))
            print(f"{rows} rows are the same bytes with one worker and three")

    def test_no_head_is_a_failure_that_names_the_detection(self):
        text = self.STUDY.split("experiments { name: \"patch\"")[0]
        text = text.replace("FOUND", 'retrieval { experiment: "detect" metric: MASS threshold: 0.99 }')
        ids = self.lab.submit(text.replace("NEEDLES", self.needle_field((96,), 2)), expect=1)
        shown = self.lab.client("show", ids[-1]).stdout
        self.assertIn('detection "detect" found no retrieval head by mass of model made', shown)
        self.assertIn("at threshold 0.99", shown)

    def test_bad_fields_are_refused(self):
        for kind, fields, field in (("patch", "dims_share: 0.1", "patch.dims_share"),
                                    ("knockout", "positions: QUESTION perplexity { prompts { generated { tokens: 40 } } }",
                                     "knockout.perplexity"),
                                    ("knockout", "controls { random { draws: 3 } }", "knockout.controls[0].random.draws"),
                                    ("coverage_sweep", "coverages: 2", "coverage_sweep.coverages[0]")):
            done = self.lab.client("submit", self.lab.write_spec(f"""name: "x" model: "made" {kind} {{ heads {{ {listed(HEADS)} }}
                {self.needle_field((96,))} {fields} }}"""), expect=None)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(field, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
