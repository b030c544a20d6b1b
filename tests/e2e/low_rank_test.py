"""low_rank against independent.py: projections replaced by numpy's SVD, losses of a float64 forward pass, draws of numpy's Philox."""

import copy
import math
import unittest

import numpy

import independent
from harness import FIXTURES, Lab, need_fixtures, read_safetensors

MODELS = ["llama2_a", "llama3_a", "qwen2_a", "stories260K"]  # all keys of their own, shared keys, biases, trained
HEADS = {"llama2_a": [(1, 0), (0, 3), (2, 2)], "llama3_a": [(0, 0), (0, 1), (2, 2)], "qwen2_a": [(1, 1), (2, 3)],
         "stories260K": [(0, 2), (1, 7), (4, 0), (4, 1)]}
LENGTHS = [40, 2, 33, 17, 48, 8, 30, 21, 25]  # two blocks
PERPLEXITY = 1e-5  # relative; fp32 against float64
RISE = 2e-5        # absolute
LOGITS = 2e-4      # absolute
TABLES = ("conditions", "statistics")


def edited(model, heads, rank, matrices):
    """The model with the projections of these heads replaced; a KV head's rows once."""
    other = copy.copy(model)
    other.weights = dict(model.weights)
    rows = {"q": sorted(heads), "k": sorted({(layer, head * model.kv_heads // model.heads) for layer, head in heads})}
    for side in matrices:
        for layer, own in rows[side]:
            name = f"model.layers.{layer}.self_attn.{side}_proj.weight"
            whole = other.weights[name].copy()
            at = slice(own * model.head_dim, (own + 1) * model.head_dim)
            left, values, right = numpy.linalg.svd(whole[at], full_matrices=False)
            whole[at] = left[:, :rank] * values[:rank] @ right[:rank]
            other.weights[name] = whole
    return other


def perplexity(model, prompts):
    nll = tokens = 0
    for ids in prompts:
        logits = model.forward(ids)["logits"][:-1]
        largest = logits.max(-1)
        log_sum = largest + numpy.log(numpy.exp(logits - largest[:, None]).sum(-1))
        nll += (log_sum - logits[numpy.arange(len(ids) - 1), ids[1:]]).sum()
        tokens += len(ids) - 1
    return math.exp(nll / tokens)


def saved(model, heads, rank, matrices):
    keys = {(layer, head * model.kv_heads // model.heads) for layer, head in heads}
    count = (len(heads) if "q" in matrices else 0) + (len(keys) if "k" in matrices else 0)
    d, head_dim = model.hidden, model.head_dim
    return count * (d * head_dim - rank * (d + head_dim))


def shuffled(model, avoided, seed, draw):
    """The other heads, in the order that docs/random-numbers.md gives a draw."""
    heads = [(layer, head) for layer in range(model.layers) for head in range(model.heads) if (layer, head) not in avoided]
    raw = [int(word) for word in independent.philox(seed, 10, draw).random_raw(len(heads))]
    for i in range(len(heads) - 1, 0, -1):
        j = (raw.pop(0) * (i + 1)) >> 64
        heads[i], heads[j] = heads[j], heads[i]
    return heads


def layer_matched(model, named, seed, draw):
    missing = {layer: sum(1 for other, _ in named if other == layer) for layer in range(model.layers)}
    drawn = []
    for layer, head in shuffled(model, named, seed, draw):
        if missing[layer] > 0:
            missing[layer] -= 1
            drawn.append((layer, head))
    return drawn


def listed(heads):
    return "list { " + " ".join(f"head {{ layer: {layer} head: {head} }}" for layer, head in heads) + " }"


def spec(model, heads, ranks, prompts, more=""):
    return f"""name: "low rank" model: "{model}" low_rank {{ heads {{ {heads} }} ranks: {ranks}
        perplexity {{ prompts {{ {prompts} }} }} {more} }}"""


class LowRank(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_fixtures()
        cls.models = {name: independent.Llama(FIXTURES / "models" / name) for name in MODELS}
        cls.lab = Lab(FIXTURES / "models", worker_flags=["--threads", "1"]).__enter__()
        cls.addClassCleanup(cls.lab.__exit__, None, None, None)
        cls.lab.start_worker("w1")

    def prompts(self, model, lengths=LENGTHS, seed=5):
        allowed = list(range(self.models[model].vocabulary))
        return [independent.uniform_prompt(seed, s, tokens, allowed) for s, tokens in enumerate(lengths)]

    def typed(self, prompts):
        return "token_ids { " + " ".join(f"prompts {{ ids: {ids} }}" for ids in prompts) + " }"

    def rows(self, experiment):
        """Rows by (control, draw, rank)."""
        rows = {(row["control"], row["draw"], row["rank"]): row for row in self.lab.table(experiment, "conditions")}
        self.assertEqual(len(rows), len(self.lab.table(experiment, "conditions")))
        return rows

    def statistics(self, experiment):
        return {(row["name"], row["detector"], row["threshold"]): row for row in self.lab.table(experiment, "statistics")}

    def check_rows(self, model, rows, prompts, sets, ranks, matrices, context=""):
        """`sets`: (control, draw) -> heads."""
        m = self.models[model]
        baseline = perplexity(m, prompts)
        wanted = {}
        row = rows.pop(("", "", ""))
        self.assertEqual((row["condition"], row["target"], row["heads"], row["saved_parameters"]), ("baseline", "", "", ""))
        as_it_is = row["perplexity"]
        worst = abs(float(as_it_is) / baseline - 1)
        for (control, draw), heads in sets.items():
            for rank in ranks:
                key, what = (control, draw, str(rank)), (model, control, draw, rank)
                row = rows.pop(key)
                if rank == m.head_dim:
                    wanted[key] = baseline
                    self.assertEqual(row["perplexity"], as_it_is, "a full rank is the model as it is, bit for bit")
                else:
                    wanted[key] = perplexity(edited(m, heads, rank, matrices), prompts)
                worst = max(worst, abs(float(row["perplexity"]) / wanted[key] - 1))
                self.assertLess(worst, PERPLEXITY, what)
                self.assertEqual((row["condition"], int(row["heads"]), int(row["samples"])), ("low_rank", len(heads), len(prompts)), what)
                self.assertEqual(int(row["saved_parameters"]), saved(m, heads, rank, matrices), what)
                self.assertEqual(row["target"], {"qk": "both", "q": "query", "k": "key"}[matrices], what)
                self.assertEqual(row["context_length"], context, what)
                self.assertEqual({row[column] for column in ("detector", "stage", "positions", "dims", "dose", "coverage", "layer",
                                                             "head", "depth", "accuracy")}, {""}, what)
        self.assertEqual(rows, {}, "rows that nobody asked for")
        return baseline, wanted, worst

    def test_every_condition_of_every_model(self):
        for model in MODELS:
            with self.subTest(model=model):
                m, named, prompts = self.models[model], HEADS[model], self.prompts(model)
                ranks = [2, m.head_dim]
                (experiment,) = self.lab.submit(spec(model, listed(named), ranks, self.typed(prompts), """controls { random {} }
                    controls { layer_matched { draws: 2 shortfall: REPORT_PARTIAL } }"""))
                sets = {("", ""): named}
                for draw in range(10):
                    sets["random", str(draw)] = shuffled(m, named, 42, draw)[: len(named)]
                for draw in range(2):
                    sets["layer_matched", str(draw)] = layer_matched(m, named, 42, draw)
                rows = self.rows(experiment)
                baseline, wanted, worst = self.check_rows(model, dict(rows), prompts, sets, ranks, "qk")
                self.check_statistics(model, experiment, named, sets, baseline, wanted)
                print(f"{model}: perplexity {baseline:.3f}, rank 2 {wanted['', '', '2']:.3f}, worst {worst:.1e} relative")

    def check_statistics(self, model, experiment, named, sets, baseline, wanted):
        m, statistics = self.models[model], self.statistics(experiment)
        for (control, draw, rank), value in wanted.items():
            if control == "":
                row = statistics["low_rank_perplexity_rise", "named", rank]
                self.assertAlmostEqual(float(row["value"]), value / baseline - 1, delta=RISE)
                self.assertEqual((row["low"], row["high"], int(row["n"])), ("", "", len(LENGTHS)))
        for control in ("random", "layer_matched"):
            draws = [heads for (of, _), heads in sets.items() if of == control]
            for rank in {key[2] for key in wanted}:
                rises = [value / baseline - 1 for key, value in wanted.items() if key[0] == control and key[2] == rank]
                row = statistics["low_rank_perplexity_rise", control, rank]
                for column, figure in (("value", numpy.mean(rises)), ("low", min(rises)), ("high", max(rises))):
                    self.assertAlmostEqual(float(row[column]), figure, delta=RISE, msg=(control, rank, column))
                self.assertEqual(int(row["n"]), len(draws))
            heads = statistics["low_rank_heads", control, ""]
            self.assertEqual((float(heads["value"]), int(heads["n"])), (len(draws[0]), m.layers * m.heads - len(named)))
            keys = {(layer, head * m.kv_heads // m.heads) for layer, head in named}
            shared = {}
            for layer, head in (head for draw in draws for head in draw):
                if (layer, head * m.kv_heads // m.heads) in keys:
                    name = f"low_rank_shares_key.L{layer}H{head}"
                    shared[name] = shared.get(name, 0) + 1
            found = {name: float(row["value"]) for (name, of, _), row in statistics.items()
                     if name.startswith("low_rank_shares_key") and of == control}
            self.assertEqual(found, shared)

    def test_one_matrix_alone(self):
        for model in ("llama3_a", "qwen2_a"):
            for matrix, side in (("QUERY", "q"), ("KEY", "k")):
                with self.subTest(model=model, matrix=matrix):
                    named, prompts = HEADS[model], self.prompts(model, [24] * 9)
                    (experiment,) = self.lab.submit(spec(model, listed(named), [2], self.typed(prompts), f"matrices: {matrix}"))
                    sets = {("", ""): named}
                    for draw in range(10):
                        sets["random", str(draw)] = shuffled(self.models[model], named, 42, draw)[: len(named)]
                    self.check_rows(model, self.rows(experiment), prompts, sets, [2], side, context="24")

    STUDY = """name: "saving" model: "stories260K" seeds: [42, 7]
        experiments { name: "saved" low_rank { heads { slash_dominant { experiment: "detect" CHOICE } } ranks: 1
                      perplexity { prompts { uniform_tokens { count: 4 tokens: 32 bos: NEVER } } } } }
        experiments { name: "detect" slash_detection { prompts { sampled { count: 20 tokens: 48 } } threshold: THRESHOLD } }"""

    def study(self, lab, threshold, choice=""):
        return lab.submit(self.STUDY.replace("THRESHOLD", str(threshold)).replace("CHOICE", choice))

    def test_heads_that_a_detection_found_and_controls_outside_all_of_them(self):
        m = self.models["stories260K"]
        experiment, detect = self.study(self.lab, 0.2, "top: 2")
        for seed in (42, 7):
            rows = [row for row in self.lab.table(detect, "slash_heads") if row["dominant"] == "true" and row["seed"] == str(seed)]
            found = {(int(row["layer"]), int(row["head"])): float(row["score"]) for row in rows}
            self.assertTrue(4 < len(found) < 30, f"choose another threshold: {len(found)} heads")
            named = sorted(found, key=lambda head: (-found[head], head))[:2]
            sets = {("", ""): named}
            for draw in range(10):
                sets["random", str(draw)] = shuffled(m, found, seed, draw)[:2]
            own = {key: row for row in self.lab.table(experiment, "conditions") if row["seed"] == str(seed)
                   for key in [(row["control"], row["draw"], row["rank"])]}
            prompts = self.prompts("stories260K", [32] * 4, seed)
            self.check_rows("stories260K", own, prompts, sets, [1], "qk", context="32")

    def test_no_head_found_is_the_baseline_alone(self):
        experiment, _ = self.study(self.lab, 1)
        rows = self.lab.table(experiment, "conditions")
        self.assertEqual([(row["condition"], row["seed"]) for row in rows], [("baseline", "7"), ("baseline", "42")])
        for row in self.lab.table(experiment, "statistics"):
            if row["name"] == "low_rank_perplexity_rise":
                self.assertEqual((row["value"], row["undefined_because"]), ("", "the set of heads is empty"))
            else:
                self.assertEqual((row["name"], float(row["value"])), ("low_rank_heads", 0))

    def test_views_of_the_database_hold_the_results(self):
        model = "llama3_a"
        (experiment,) = self.lab.submit(spec(model, listed(HEADS[model]), [1, 5], "uniform_tokens { count: 9 tokens: 32 }"))
        for table in TABLES:
            rows = self.lab.table(experiment, table)
            cursor = self.lab.database().execute(f"SELECT * FROM {table} WHERE experiment = ?", (experiment,))
            columns = [column[0] for column in cursor.description]
            self.assertEqual(columns, ["experiment", *rows[0]], table)

            def printed(value):
                if value is None:
                    return ""
                return "%.17g" % value if isinstance(value, float) else str(value)

            stored = [[printed(value) for value in row[1:]] for row in cursor]
            self.assertEqual(sorted(stored), sorted(list(row.values()) for row in rows), table)

    def test_an_inspection_shows_the_edited_model(self):
        for model in MODELS:
            with self.subTest(model=model):
                ids = self.prompts(model, [24])[0]
                (experiment,) = self.lab.submit(f"""name: "look" model: "{model}" inspection {{ token_ids {{ ids: {ids} }}
                    dump: ["logits", "q_pre", "k_pre"]
                    interventions {{ low_rank {{ heads {{ {listed(HEADS[model])} }} rank: 2 }} }} }}""")
                out = self.lab.folder / f"{model}.safetensors"
                self.lab.client("results", experiment, "--artifact", "tensors.safetensors", "-o", out)
                tensors = read_safetensors(out)
                wanted = edited(self.models[model], HEADS[model], 2, "qk").forward(ids)
                for name in ("logits", "q_pre", "k_pre"):
                    numpy.testing.assert_allclose(tensors[name], wanted[name], rtol=0, atol=LOGITS, err_msg=f"{model} {name}")
                plain = self.models[model].forward(ids)["logits"]
                self.assertGreater(numpy.abs(wanted["logits"] - plain).max(), 10 * LOGITS, "the edit would not be noticed")

    def test_needles_without_a_haystack_are_refused_by_their_field(self):
        for text, field in ((spec("llama2_a", listed([(0, 0)]), [2], "needle {}"), "low_rank.perplexity.prompts.needle"),
                            (spec("llama2_a", listed([(0, 0)]), [2], "uniform_tokens { count: 1 tokens: 8 }", "needles {}"),
                             "low_rank.needles")):
            done = self.lab.client("submit", self.lab.write_spec(text), expect=None)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(field, done.stderr)

    def test_bytes_do_not_depend_on_workers(self):
        with Lab(FIXTURES / "models", worker_flags=["--threads", "1"]) as three:
            for name in "abc":
                three.start_worker(name, wait=False)
            for worker in three.workers.values():
                worker.wait_for("ready")
            here, there = self.study(self.lab, 0.2)[0], self.study(three, 0.2)[0]
            for table in TABLES:
                self.assertEqual(self.lab.csv_bytes(here, table), three.csv_bytes(there, table), table)


if __name__ == "__main__":
    unittest.main(verbosity=2)
