"""What the reference checkpoints leave out, on checkpoints that this test writes itself: windows of every family, layer types, biases, soft
caps off, both gelus, untied gemmas, each RoPE scaling below and beyond its length, spellings of transformers 4 and 5, shards and 16-bit
storage. Held against a second implementation in numpy and float64, written from the families' published definitions alone."""

import json
import math
import pathlib
import subprocess
import tempfile
import unittest

import numpy

from flags_test import write_safetensors
from harness import BIN, read_safetensors

TOKENS = 90
NAMES = ["logits", "attn_probs", "q_pre", "k_pre", "q_rot", "k_rot", "hidden"]
SIZES = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2,
         "head_dim": 12, "vocab_size": 96, "max_position_embeddings": 128}
# Which parts a family has: (norms, weight 1 + w, query/key norm, biases when no field says so, tied by default, epsilon)
FAMILIES = {
    "llama": ("before", False, None, (), False, 1e-6),
    "mistral": ("before", False, None, (), False, 1e-6),
    "qwen2": ("before", False, None, ("q", "k", "v"), False, 1e-6),
    "qwen3": ("before", False, "head", (), False, 1e-6),
    "gemma": ("before", True, None, (), True, 1e-6),
    "gemma2": ("both", True, None, (), True, 1e-6),
    "olmo2": ("after", False, "all", (), False, 1e-5),
}
SLIDING, FULL = "sliding_attention", "full_attention"
LINEAR = {"rope_type": "linear", "factor": 3.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 40}
LONG = {"rope_type": "longrope", "short_factor": [1 + 0.1 * i for i in range(6)], "long_factor": [1 + 0.7 * i for i in range(6)]}
# case: (family, fields beyond SIZES, windows of the three layers, storage, shards)
CASES = {
    "mistral, window": ("mistral", {"sliding_window": 20}, (20, 20, 20), "F32", 1),
    "mistral, window of one key": ("mistral", {"sliding_window": 1}, (1, 1, 1), "F32", 1),
    "mistral, window absent": ("mistral", {}, (0, 0, 0), "F32", 1),  # 4096, longer than the prompt
    "qwen2, window off": ("qwen2", {"sliding_window": 20, "use_sliding_window": False, "max_window_layers": 0}, (0, 0, 0), "F32", 1),
    "qwen2, window from layer 1": ("qwen2", {"sliding_window": 20, "use_sliding_window": True, "max_window_layers": 1},
                                   (0, 20, 20), "BF16", 3),
    "qwen3, layer types": ("qwen3", {"sliding_window": 20, "use_sliding_window": True, "max_window_layers": 3,
                                     "layer_types": [SLIDING, FULL, SLIDING]}, (20, 0, 20), "F32", 2),
    "qwen3, biases": ("qwen3", {"attention_bias": True}, (0, 0, 0), "F16", 1),
    "gemma, untied, one KV head": ("gemma", {"tie_word_embeddings": False, "num_key_value_heads": 1}, (0, 0, 0), "F32", 1),
    "gemma, gelu by hidden_act alone": ("gemma", {"hidden_act": "gelu", "hidden_activation": None}, (0, 0, 0), "F32", 1),
    "gemma, exact gelu": ("gemma", {"hidden_activation": "gelu"}, (0, 0, 0), "F32", 1),
    "gemma2, all defaults": ("gemma2", {}, (0, 0, 0), "F32", 1),
    "gemma2, no caps, untied": ("gemma2", {"attn_logit_softcapping": None, "final_logit_softcapping": None, "tie_word_embeddings": False,
                                           "query_pre_attn_scalar": 7, "sliding_window": 20}, (20, 0, 20), "BF16", 2),
    "gemma2, caps, layer types": ("gemma2", {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "sliding_window": 15,
                                             "query_pre_attn_scalar": 20, "layer_types": [FULL, SLIDING, FULL],
                                             "rope_parameters": {SLIDING: {"rope_type": "default", "rope_theta": 3e4},
                                                                 FULL: {"rope_type": "default", "rope_theta": 3e4}}},
                                  (0, 15, 0), "F32", 1),
    "olmo2, biases, shared keys": ("olmo2", {"attention_bias": True}, (0, 0, 0), "F32", 3),
    "olmo2, epsilon absent, tied": ("olmo2", {"tie_word_embeddings": True, "num_key_value_heads": None}, (0, 0, 0), "F32", 1),
    "llama, linear, older name": ("llama", {"rope_scaling": {"type": "linear", "factor": 3.0}}, (0, 0, 0), "F32", 1),
    "llama, linear, newer name": ("llama", {"rope_parameters": {**LINEAR, "rope_theta": 2e4}, "rope_theta": 5.0}, (0, 0, 0), "F32", 1),
    "qwen2, yarn": ("qwen2", {"rope_scaling": YARN, "rope_theta": 1e6}, (0, 0, 0), "F32", 1),
    "qwen3, yarn without rounding": ("qwen3", {"rope_scaling": {**YARN, "truncate": False, "beta_fast": 8, "beta_slow": 2}},
                                     (0, 0, 0), "F32", 1),
    "llama, yarn by magnitudes": ("llama", {"rope_scaling": {**YARN, "mscale": 1.0, "mscale_all_dim": 0.4}}, (0, 0, 0), "F32", 1),
    "llama, yarn, prompt beyond max_position_embeddings": (
        "llama", {"rope_scaling": {"type": "yarn", "factor": 4.0}, "max_position_embeddings": 40}, (0, 0, 0), "F32", 1),
    "llama, dynamic within": ("llama", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, (0, 0, 0), "F32", 1),
    "llama, dynamic beyond": ("llama", {"rope_scaling": {"type": "dynamic", "factor": 2.0}, "max_position_embeddings": 24},
                              (0, 0, 0), "F32", 1),
    "olmo2, longrope short": ("olmo2", {"rope_scaling": {**LONG, "original_max_position_embeddings": 100}}, (0, 0, 0), "F32", 1),
    "llama, longrope long": ("llama", {"rope_scaling": LONG, "original_max_position_embeddings": 32}, (0, 0, 0), "F32", 1),
    "mistral, longrope, own attention factor": (
        "mistral", {"rope_parameters": {**LONG, "original_max_position_embeddings": 32, "attention_factor": 1.3, "rope_theta": 1e5}},
        (0, 0, 0), "F32", 1),
}


class Model:
    """One checkpoint as its family's definition reads it."""

    def __init__(self, folder, windows):
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = {name: tensor.astype(numpy.float64) for shard in sorted(folder.glob("model*.safetensors"))
                        for name, tensor in read_safetensors(shard).items()}
        self.norms, self.one, self.qk_norm, _, self.tied, self.eps = FAMILIES[self.config["model_type"]]
        self.gemma = self.config["model_type"].startswith("gemma")
        self.heads = self.config["num_attention_heads"]
        self.kv_heads = self.config.get("num_key_value_heads") or self.heads
        self.windows = windows

    def rope(self, tokens):
        """Inverse frequencies, and what cos and sin are multiplied by."""
        config, size = self.config, self.config["head_dim"]
        fields = config.get("rope_parameters") or config.get("rope_scaling") or {}
        fields = fields.get(FULL, fields)
        theta = fields.get("rope_theta", config.get("rope_theta", 10000.0))
        kind = fields.get("rope_type", fields.get("type", "default"))
        length = config["max_position_embeddings"]
        original = config.get("original_max_position_embeddings") or fields.get("original_max_position_embeddings") or length
        factor = fields.get("factor") or length / original
        if kind == "dynamic" and tokens > length:
            theta *= (factor * tokens / length - factor + 1) ** (size / (size - 2))
        ladder = theta ** (-numpy.arange(0, size, 2) / size)
        if kind == "linear":
            return ladder / factor, 1.0
        if kind == "longrope":
            stretch = fields["long_factor" if tokens > original else "short_factor"]
            return ladder / numpy.array(stretch), fields.get("attention_factor", math.sqrt(1 + math.log(factor) / math.log(original)))
        if kind == "yarn":
            turns = [size * math.log(original / (beta * 2 * math.pi)) / (2 * math.log(theta))
                     for beta in (fields.get("beta_fast", 32), fields.get("beta_slow", 1))]
            if fields.get("truncate", True):
                turns = [math.floor(turns[0]), math.ceil(turns[1])]
            low, high = max(turns[0], 0), min(turns[1], size - 1)
            slow = numpy.clip((numpy.arange(size // 2) - low) / (high - low), 0, 1)
            magnitude = lambda scale: 0.1 * scale * math.log(factor) + 1
            attention = magnitude(fields["mscale"]) / magnitude(fields["mscale_all_dim"]) if "mscale" in fields else magnitude(1.0)
            return ladder * (1 - slow) + ladder / factor * slow, attention
        return ladder, 1.0

    def norm(self, x, name):
        weight = self.weights[name] + (1 if self.one else 0)
        return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + self.config.get("rms_norm_eps", self.eps)) * weight

    def linear(self, x, name):
        return x @ self.weights[name + ".weight"].T + self.weights.get(name + ".bias", 0.0)

    def activation(self, x):
        if not self.gemma:
            return x / (1 + numpy.exp(-x))
        if self.config.get("hidden_activation") == "gelu":
            return x * 0.5 * (1 + numpy.vectorize(math.erf)(x / math.sqrt(2)))
        return 0.5 * x * (1 + numpy.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))

    def cap(self, x, field, missing):
        bound = self.config.get(field, missing) if self.config["model_type"] == "gemma2" else None
        return x if bound is None else bound * numpy.tanh(x / bound)

    def attend(self, y, layer, name, out):
        tokens, size = len(y), self.config["head_dim"]
        q, k, v = (self.linear(y, f"{name}self_attn.{part}_proj") for part in "qkv")
        if self.qk_norm == "all":
            q, k = self.norm(q, name + "self_attn.q_norm.weight"), self.norm(k, name + "self_attn.k_norm.weight")
        q, k, v = (part.reshape(tokens, -1, size).transpose(1, 0, 2) for part in (q, k, v))
        if self.qk_norm == "head":
            q, k = self.norm(q, name + "self_attn.q_norm.weight"), self.norm(k, name + "self_attn.k_norm.weight")
        frequencies, magnitude = self.rope(tokens)
        angles = numpy.arange(tokens)[:, None] * frequencies
        cosine, sine = numpy.cos(angles) * magnitude, numpy.sin(angles) * magnitude
        turned = []
        for part in (q, k):
            first, second = part[..., : size // 2], part[..., size // 2 :]
            turned.append(numpy.concatenate([first * cosine - second * sine, second * cosine + first * sine], -1))
        scale = (self.config.get("query_pre_attn_scalar", 256) if self.config["model_type"] == "gemma2" else size) ** -0.5
        group = numpy.arange(self.heads) // (self.heads // self.kv_heads)
        logits = self.cap(turned[0] @ turned[1][group].transpose(0, 2, 1) * scale, "attn_logit_softcapping", 50.0)
        lag = numpy.arange(tokens)[:, None] - numpy.arange(tokens)
        hidden = (lag < 0) | ((lag >= self.windows[layer]) if self.windows[layer] else False)
        logits = numpy.where(hidden, -numpy.inf, logits)
        attention = numpy.exp(logits - logits.max(-1, keepdims=True))
        attention /= attention.sum(-1, keepdims=True)
        for key, value in zip(NAMES[1:6], (attention, q, k, *turned)):
            out[key].append(value)
        return self.linear((attention @ v[group]).transpose(1, 0, 2).reshape(tokens, -1), name + "self_attn.o_proj")

    def forward(self, ids):
        out = {name: [] for name in NAMES[1:]}
        embedding = self.weights["model.embed_tokens.weight"]
        x = embedding[ids] * (math.sqrt(self.config["hidden_size"]) if self.gemma else 1)
        for layer in range(self.config["num_hidden_layers"]):
            name = f"model.layers.{layer}."
            out["hidden"].append(x)
            y = x if self.norms == "after" else self.norm(x, name + "input_layernorm.weight")
            y = self.attend(y, layer, name, out)
            x = x + (y if self.norms == "before" else self.norm(y, name + "post_attention_layernorm.weight"))
            before = {"before": "post_attention_layernorm", "both": "pre_feedforward_layernorm", "after": None}[self.norms]
            y = self.norm(x, f"{name}{before}.weight") if before else x
            y = self.linear(self.activation(self.linear(y, name + "mlp.gate_proj")) * self.linear(y, name + "mlp.up_proj"),
                            name + "mlp.down_proj")
            x = x + (y if self.norms == "before" else self.norm(y, name + "post_feedforward_layernorm.weight"))
        out["hidden"].append(x)
        head = embedding if self.config.get("tie_word_embeddings", self.tied) else self.weights["lm_head.weight"]
        logits = self.cap(self.norm(x, "model.norm.weight") @ head.T, "final_logit_softcapping", 30.0)
        return {"logits": logits, **{name: numpy.stack(value) for name, value in out.items()}}


def shapes(config):
    """Names and shapes of the tensors that a family's checkpoint holds."""
    norms, _, qk_norm, biased, tied, _ = FAMILIES[config["model_type"]]
    d, m, size, heads = config["hidden_size"], config["intermediate_size"], config["head_dim"], config["num_attention_heads"]
    q, kv = heads * size, (config.get("num_key_value_heads") or heads) * size
    if config.get("attention_bias"):
        biased = ("q", "k", "v", "o")
    found = {"model.embed_tokens.weight": (config["vocab_size"], d), "model.norm.weight": (d,)}
    if not config.get("tie_word_embeddings", tied):
        found["lm_head.weight"] = (config["vocab_size"], d)
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        for norm in {"before": ["input", "post_attention"], "after": ["post_attention", "post_feedforward"],
                     "both": ["input", "post_attention", "pre_feedforward", "post_feedforward"]}[norms]:
            found[f"{name}{norm}_layernorm.weight"] = (d,)
        for part, out, into in [("q", q, d), ("k", kv, d), ("v", kv, d), ("o", d, q)]:
            found[f"{name}self_attn.{part}_proj.weight"] = (out, into)
            if part in biased:
                found[f"{name}self_attn.{part}_proj.bias"] = (out,)
        for part, out, into in [("gate", m, d), ("up", m, d), ("down", d, m)]:
            found[f"{name}mlp.{part}_proj.weight"] = (out, into)
        if qk_norm:
            found[name + "self_attn.q_norm.weight"] = (size if qk_norm == "head" else q,)
            found[name + "self_attn.k_norm.weight"] = (size if qk_norm == "head" else kv,)
    return found


def write_checkpoint(folder, family, changes, kind, shards, seed):
    config = {"model_type": family, **SIZES, **changes}
    (folder / "config.json").write_text(json.dumps(config))
    draw = numpy.random.default_rng(seed)
    tensors = {}
    for name, shape in sorted(shapes(config).items()):
        centre = (0.0 if FAMILIES[family][1] else 1.0) if "norm" in name else 0.0
        # A gemma's embedding is multiplied by sqrt(d); drawn smaller, its logits stay in range when the matrix is tied.
        spread = 0.3 if len(shape) == 1 else 0.3 if "embed" in name else 1.5 / math.sqrt(shape[1])
        tensors[name] = draw.normal(centre, spread, shape)
    names = sorted(tensors)
    if shards == 1:
        write_safetensors(folder / "model.safetensors", tensors, kind)
        return
    place = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        write_safetensors(folder / file, {name: tensors[name] for name in names[shard::shards]}, kind)
        place.update({name: file for name in names[shard::shards]})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": place}))


class Families(unittest.TestCase):
    def test_every_flag_agrees_with_numpy(self):
        for number, (case, (family, changes, windows, kind, shards)) in enumerate(CASES.items()):
            with self.subTest(case=case), tempfile.TemporaryDirectory() as place:
                folder = pathlib.Path(place)
                write_checkpoint(folder, family, changes, kind, shards, seed=number)
                ids = numpy.random.default_rng(100 + number).integers(0, SIZES["vocab_size"], TOKENS)
                out = folder / "out.safetensors"
                done = subprocess.run([BIN / "ropelab-worker", "inspect", "--model", folder, "--token-ids", ",".join(map(str, ids)),
                                       "--dump", ",".join(NAMES), "--out", out, "--dtype", "float32", "--threads", "1"],
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                got, wanted = read_safetensors(out), Model(folder, windows).forward(ids)
                worst = {name: float(numpy.abs(got[name] - wanted[name]).max()) for name in NAMES}
                print(f"{case:50}", " ".join(f"{name} {value:.1e}" for name, value in worst.items()))
                for name, value in worst.items():
                    self.assertLess(value, 5e-5 if name == "attn_probs" else 2e-4, name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
