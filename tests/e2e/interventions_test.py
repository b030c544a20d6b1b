"""Every edit of the forward pass, kind by kind, stage by stage, target by target, against a forward pass in numpy and float64 that applies
the edits as docs/experiments/inspection.md words them; and a spec with edits through the service."""

import pathlib
import subprocess
import tempfile
import unittest

import numpy

from families_test import FULL, NAMES, SIZES, SLIDING, YARN, Model, write_checkpoint
from harness import BIN, FIXTURES, SOURCE, Lab, read_safetensors

TOKENS = 70
TOLERANCE = {"attn_probs": 5e-5}  # of the reference data; all others:
OTHERS = 2e-4
HEADS = [(0, 1), (0, 2), (2, 4), (2, 0)]  # 6 heads on 2 KV heads: 1 and 2 share theirs, 4 and 0 do not
DIMS = [0, 3, 5, 9, 11]                   # of 12; 3 and 9, 5 and 11 are pairs
# (family, fields beyond SIZES, windows)
MODELS = {
    "llama": ("llama", {}, (0, 0, 0)),
    "qwen3": ("qwen3", {"attention_bias": True}, (0, 0, 0)),
    "gemma2": ("gemma2", {"attn_logit_softcapping": 4.0, "final_logit_softcapping": 6.0, "sliding_window": 15, "query_pre_attn_scalar": 20,
                          "layer_types": [FULL, SLIDING, SLIDING]}, (0, 15, 15)),
}
MORE_MODELS = {
    "llama, every head its own key": ("llama", {"num_key_value_heads": 6}, (0, 0, 0)),
    "olmo2": ("olmo2", {}, (0, 0, 0)),
    "qwen2, yarn": ("qwen2", {"rope_scaling": YARN, "rope_theta": 1e6}, (0, 0, 0)),
    "llama, dynamic beyond": ("llama", {"rope_scaling": {"type": "dynamic", "factor": 2.0}, "max_position_embeddings": 24}, (0, 0, 0)),
}


def edit(kind, heads=HEADS, first=0, last=TOKENS - 1, **fields):
    return {"kind": kind, "heads": heads, "first": first, "last": last, **fields}


class Edited(Model):
    """The model under edits, applied in their order within each stage."""

    def __init__(self, folder, windows, edits):
        super().__init__(folder, windows)
        self.edits = edits
        self.size = self.config["head_dim"]
        for one in edits:
            if one["kind"] == "low_rank":
                self.replace(one)

    def group_of(self, head):
        return head * self.kv_heads // self.heads

    def replace(self, one):
        for side in one["matrices"]:
            for layer, row in sorted({(layer, head if side == "q" else self.group_of(head)) for layer, head in one["heads"]}):
                name = f"model.layers.{layer}.self_attn.{side}_proj.weight"
                whole, at = self.weights[name].copy(), slice(row * self.size, (row + 1) * self.size)
                left, values, right = numpy.linalg.svd(whole[at], full_matrices=False)
                whole[at] = left[:, :one["rank"]] * values[:one["rank"]] @ right[:one["rank"]]
                self.weights[name] = whole

    def here(self, layer, *kinds):
        return [one for one in self.edits if one["kind"] in kinds and any(at == layer for at, _ in one["heads"])]

    def multiply(self, layer, stage, q, k, own):
        """q [T, H, D], k [T, G, D] in place; own: {head: keys [T, D]}."""
        for one in self.here(layer, "zero_dims", "scale_dims"):
            if one["stage"] != stage:
                continue
            factor = 0.0 if one["kind"] == "zero_dims" else one["factor"]
            rows = slice(one["first"], one["last"] + 1)
            heads = [head for at, head in one["heads"] if at == layer]
            if one["target"] in ("QUERY", "BOTH"):
                for head in heads:
                    q[rows, head] = self.scaled(q[rows, head], one["dims"], factor)
            if one["target"] in ("KEY", "BOTH"):
                for group in sorted({self.group_of(head) for head in heads}):
                    for keys in [k[:, group]] + [keys for head, keys in own.items() if self.group_of(head) == group]:
                        keys[rows] = self.scaled(keys[rows], one["dims"], factor)

    @staticmethod
    def scaled(rows, dims, factor):
        rows = rows.copy()
        rows[:, dims] *= factor
        return rows

    def attend(self, y, layer, name, out):
        tokens, size = len(y), self.size
        q, k, v = (self.linear(y, f"{name}self_attn.{part}_proj").reshape(tokens, -1, size) for part in "qkv")
        self.multiply(layer, "PROJECTION", q, k, {})
        if self.qk_norm == "all":
            q, k = (self.norm(part.reshape(tokens, -1), f"{name}self_attn.{side}_norm.weight").reshape(tokens, -1, size)
                    for side, part in (("q", q), ("k", k)))
        if self.qk_norm == "head":
            q, k = self.norm(q, name + "self_attn.q_norm.weight"), self.norm(k, name + "self_attn.k_norm.weight")
        self.multiply(layer, "PRE_ROPE", q, k, {})
        frequencies, magnitude = self.rope(tokens)
        angles = (numpy.arange(tokens)[:, None] * frequencies)[:, None]
        cosine, sine = numpy.cos(angles) * magnitude, numpy.sin(angles) * magnitude
        turned = []
        for part in (q, k):
            first, second = part[..., : size // 2], part[..., size // 2:]
            turned.append(numpy.concatenate([first * cosine - second * sine, second * cosine + first * sine], -1))
        q_rot, k_rot = turned
        own = {}  # keys as a head with unrotated pairs sees them
        fastest_first = numpy.argsort(-frequencies, kind="stable")
        for one in self.here(layer, "unrotate"):
            places = fastest_first[numpy.array(one["pairs"]) - 1]
            dims = numpy.concatenate([places, places + size // 2])
            for _, head in (both for both in one["heads"] if both[0] == layer):
                own.setdefault(head, k_rot[:, self.group_of(head)].copy())
                for row in range(one["first"], one["last"] + 1):
                    q_rot[row, head, dims] = q[row, head, dims]
                    own[head][row, dims] = k[row, self.group_of(head), dims]
        self.multiply(layer, "POST_ROPE", q_rot, k_rot, own)
        scale = (self.config.get("query_pre_attn_scalar", 256) if self.config["model_type"] == "gemma2" else size) ** -0.5
        lag = numpy.arange(tokens)[:, None] - numpy.arange(tokens)
        hidden = (lag < 0) | ((lag >= self.windows[layer]) if self.windows[layer] else False)
        attention, mixed = [], []
        for head in range(self.heads):
            group = self.group_of(head)
            logits = self.cap(q_rot[:, head] @ own.get(head, k_rot[:, group]).T * scale, "attn_logit_softcapping", 50.0)
            logits = numpy.where(hidden, -numpy.inf, logits)
            weights = numpy.exp(logits - logits.max(-1, keepdims=True))
            attention.append(weights / weights.sum(-1, keepdims=True))
            mixed.append(attention[-1] @ v[:, group])
        for one in self.here(layer, "zero_head"):
            for _, head in (both for both in one["heads"] if both[0] == layer):
                mixed[head][one["first"]: one["last"] + 1] = 0
        for key, value in (("attn_probs", numpy.stack(attention)), *((key, part.transpose(1, 0, 2)) for key, part in
                           (("q_pre", q), ("k_pre", k), ("q_rot", q_rot), ("k_rot", k_rot)))):
            out[key].append(value)
        return self.linear(numpy.concatenate(mixed, -1), name + "self_attn.o_proj")


def written(one, tokens=TOKENS):
    """An edit in the text format; defaults are left out."""
    heads = " ".join(f"head {{ layer: {layer} head: {head} }}" for layer, head in one["heads"])
    text = f"heads {{ list {{ {heads} }} }} "
    if (one["first"], one["last"]) != (0, tokens - 1):
        text += f"position_range {{ first: {one['first']} last: {one['last']} }} "
    for field in ("dims", "pairs", "rank"):
        if field in one:
            text += f"{field}: {one[field]} "
    if "factor" in one:
        text += f"factor: {one['factor']} "
    if one.get("target", "QUERY") != "QUERY":
        text += f"target: {one['target']} "
    if one.get("stage", "PRE_ROPE") != "PRE_ROPE":
        text += f"stage: {one['stage']} "
    if "matrices" in one:
        text += "matrices: [" + ", ".join({"q": "QUERY", "k": "KEY"}[side] for side in one["matrices"]) + "] "
    return f"interventions {{ {one['kind']} {{ {text}}} }}"


def every_edit():
    yield "zero_head", [edit("zero_head")]
    yield "unrotate", [edit("unrotate", pairs=[1, 2, 5])]
    yield "low_rank", [edit("low_rank", rank=2, matrices="qk")]
    for stage in ("PROJECTION", "PRE_ROPE", "POST_ROPE"):
        for target in ("QUERY", "KEY", "BOTH"):
            where = {"dims": DIMS, "stage": stage, "target": target}
            yield f"zero_dims {stage} {target}", [edit("zero_dims", **where)]
            yield f"scale_dims {stage} {target}", [edit("scale_dims", factor=-1.75, **where)]


# Edits that meet on one head and layer, some at some positions only.
TOGETHER = [
    edit("scale_dims", [(0, 1), (1, 3)], dims=[2, 8], stage="POST_ROPE", target="KEY", factor=2.5),
    edit("unrotate", [(0, 2), (1, 3)], 20, 55, pairs=[1, 4]),
    edit("zero_head", [(1, 5), (2, 0)], 40, 69),
    edit("scale_dims", [(0, 2), (0, 1)], dims=[2, 8, 10], stage="PROJECTION", target="BOTH", factor=0.5),
    edit("zero_dims", [(1, 3)], 0, 33, dims=[1, 7], stage="PRE_ROPE", target="BOTH"),
    edit("unrotate", [(0, 2)], pairs=[6]),
    edit("scale_dims", [(0, 2)], 10, 60, dims=[8, 9], stage="POST_ROPE", target="BOTH", factor=-3.0),
    edit("low_rank", [(2, 3)], rank=3, matrices="k"),
]


class Interventions(unittest.TestCase):
    def inspect(self, folder, ids, edits, expect=0):
        spec, out = folder / "spec.textproto", folder / "out.safetensors"
        dump = ", ".join(f'"{name}"' for name in NAMES)
        spec.write_text(f"inspection {{ token_ids {{ ids: {list(map(int, ids))} }} dump: [{dump}] {' '.join(map(written, edits))} }}")
        done = subprocess.run([BIN / "ropelab-worker", "inspect", "--model", folder, "--spec", spec, "--out", out, "--threads", "1"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, expect, done.stderr)
        return read_safetensors(out) if expect == 0 else done.stderr

    def compare(self, got, wanted, context):
        worst = {name: float(numpy.abs(got[name] - wanted[name]).max()) for name in NAMES}
        for name, value in worst.items():
            self.assertLess(value, TOLERANCE.get(name, OTHERS), f"{context}: {name}")
        return worst

    def run_edits(self, models, cases):
        for number, (model, (family, changes, windows)) in enumerate(models.items()):
            with self.subTest(model=model), tempfile.TemporaryDirectory() as place:
                folder = pathlib.Path(place)
                write_checkpoint(folder, family, changes, "F32", 1, seed=50 + number)
                ids = numpy.random.default_rng(200 + number).integers(0, SIZES["vocab_size"], TOKENS)
                plain = Model(folder, windows).forward(ids)["logits"]
                worst, least = dict.fromkeys(NAMES, 0.0), numpy.inf
                for case, edits in cases:
                    wanted = Edited(folder, windows, edits).forward(ids)
                    found = self.compare(self.inspect(folder, ids, edits), wanted, f"{model}, {case}")
                    worst = {name: max(worst[name], found[name]) for name in NAMES}
                    moved = float(numpy.abs(wanted["logits"] - plain).max())
                    self.assertGreater(moved, 20 * OTHERS, f"{model}, {case}: an edit that is not made would not be noticed")
                    least = min(least, moved)
                print(f"{model:32} {len(cases):2} edits, logits moved by {least:.1e} or more;",
                      " ".join(f"{name} {value:.0e}" for name, value in worst.items()))

    def test_every_kind_stage_and_target_agrees_with_numpy(self):
        self.run_edits(MODELS, list(every_edit()))

    def test_edits_that_meet_agree_with_numpy(self):
        self.run_edits({**MODELS, **MORE_MODELS}, [("together", TOGETHER), ("unrotate", [edit("unrotate", pairs=[2, 3, 6])]),
                                                   ("projection", [edit("zero_dims", dims=DIMS, stage="PROJECTION", target="BOTH")])])

    def test_a_mistake_is_named(self):
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place)
            write_checkpoint(folder, "llama", {}, "F32", 1, seed=1)
            self.assertIn("inspection.interventions[0].zero_dims.dims holds 12",
                          self.inspect(folder, range(TOKENS), [edit("zero_dims", dims=[12])], expect=1))
            self.assertIn("inspection.interventions[1].zero_head.heads.list.head[0] is L3H0",
                          self.inspect(folder, range(TOKENS), [edit("zero_head"), edit("zero_head", [(3, 0)])], expect=1))

    def test_a_spec_with_every_kind_runs_through_the_service(self):
        with tempfile.TemporaryDirectory() as place:
            models = pathlib.Path(place)
            (models / "llama").mkdir()
            write_checkpoint(models / "llama", "llama", {}, "F32", 1, seed=60)
            ids = numpy.random.default_rng(210).integers(0, SIZES["vocab_size"], TOKENS)
            with Lab(models, worker_flags=["--threads", "1"]) as lab:
                lab.start_worker("w1")
                (experiment,) = lab.submit(f"""name: "all edits" model: "llama" inspection {{ token_ids {{ ids: {list(map(int, ids))} }}
                    dump: [{", ".join(f'"{name}"' for name in NAMES)}] {" ".join(map(written, TOGETHER))} }}""")
                out = lab.folder / "tensors.safetensors"
                lab.client("results", experiment, "--artifact", "tensors.safetensors", "-o", out)
                self.compare(read_safetensors(out), Edited(models / "llama", (0, 0, 0), TOGETHER).forward(ids), "service")
                done = lab.client("submit", lab.write_spec("""name: "x" model: "llama" inspection { token_ids { ids: 1 } interventions {
                    zero_dims { heads { list { head { layer: 0 head: 6 } } } dims: 12 positions: QUESTION } } }"""), expect=None)
                self.assertNotEqual(done.returncode, 0)
                for field in ("heads.list.head[0]", "dims[0]", "positions"):
                    self.assertIn("inspection.interventions[0].zero_dims." + field, done.stderr)

    def test_the_shared_spec_runs(self):
        spec = SOURCE.parent / "shared/specs/inspection_interventions.textproto"
        if not spec.is_file() or not (FIXTURES / "models").is_dir():
            self.skipTest(f"no {spec} or no reference data at {FIXTURES}")
        with Lab(FIXTURES / "models", worker_flags=["--threads", "1"]) as lab:
            lab.start_worker("w1")
            (experiment,) = lab.submit(spec.read_text())
            out = lab.folder / "tensors.safetensors"
            lab.client("results", experiment, "--artifact", "tensors.safetensors", "-o", out)
            got = read_safetensors(out)
            edits = [edit("zero_head", [(1, 2)], 0, 7), edit("zero_dims", [(2, 5)], 0, 7, dims=[0, 4], target="QUERY", stage="PRE_ROPE"),
                     edit("unrotate", [(3, 0)], 0, 7, pairs=[1, 2]), edit("low_rank", [(4, 7)], rank=1, matrices="q")]
            folder = FIXTURES / "models" / "stories260K"
            model = Edited.__new__(Edited)
            Model.__init__(model, folder, (0,) * 5)
            model.edits, model.size = edits, model.config["hidden_size"] // model.heads
            model.config["head_dim"] = model.size
            model.replace(edits[-1])
            wanted = model.forward(numpy.array([1, 403, 407, 261, 378, 432, 383, 286]))
            for name in ("logits", "attn_probs"):
                numpy.testing.assert_allclose(got[name], wanted[name], rtol=0, atol=TOLERANCE.get(name, OTHERS), err_msg=name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
