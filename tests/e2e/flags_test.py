"""Every flag of the llama family on checkpoints that this test writes itself: biases, head dimensions that do not divide the hidden
size, grouped queries, tied and untied heads, llama3 scaling, fp32, bf16 and fp16 storage, shards, unaligned data, both spellings of a config.
Held against the numpy implementation."""

import json
import pathlib
import struct
import subprocess
import tempfile
import unittest

import numpy

from harness import BIN, read_safetensors
from independent import Llama

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
BASE = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2,
        "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 96, "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2,
        "torch_dtype": "float32", "tie_word_embeddings": False}
CASES = {
    "attention and mlp bias": ({"attention_bias": True, "mlp_bias": True}, "F32", 1),
    "attention bias alone": ({"attention_bias": True}, "F32", 1),
    "mlp bias alone": ({"mlp_bias": True}, "F32", 1),
    "one KV head": ({"num_key_value_heads": 1}, "F32", 1),
    "every head its own KV head, key missing": ({"num_key_value_heads": None}, "F32", 1),
    "tied": ({"tie_word_embeddings": True}, "F32", 1),
    "llama3 scaling, theta 500000": ({"rope_theta": 500000.0, "rope_scaling": LLAMA3}, "F32", 1),
    "newer spelling": ({"rope_theta": None, "torch_dtype": None, "dtype": "float32",
                        "rope_parameters": {**LLAMA3, "rope_theta": 500000.0}}, "F32", 1),
    "bf16 storage, biases, three shards": ({"attention_bias": True, "mlp_bias": True, "torch_dtype": "bfloat16"}, "BF16", 3),
    "fp16 storage, two shards": ({"torch_dtype": "float16"}, "F16", 2),
}


def write_safetensors(path, tensors, kind):
    """Data in another order than the header, and unaligned: a reader may rely on neither."""
    header, data = {}, b"\0"  # one byte of padding before the first tensor
    for name in reversed(sorted(tensors)):
        values = tensors[name].astype(numpy.float32)
        if kind == "BF16":
            raw = (values.view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes()
        else:
            raw = values.astype(numpy.float16 if kind == "F16" else numpy.float32).tobytes()
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps({"__metadata__": {"format": "pt"}, **{name: header[name] for name in sorted(header)}}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_checkpoint(folder, changes, kind, shards, seed):
    config = {key: value for key, value in {**BASE, **changes}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    draw = numpy.random.default_rng(seed)
    d, m, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    heads = config["num_attention_heads"]
    q, kv = heads * config["head_dim"], config.get("num_key_value_heads", heads) * config["head_dim"]
    shapes = {"model.embed_tokens.weight": (vocabulary, d), "model.norm.weight": (d,)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (vocabulary, d)
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        shapes[name + "input_layernorm.weight"] = shapes[name + "post_attention_layernorm.weight"] = (d,)
        for part, out, into, flag in [("self_attn.q_proj", q, d, "attention_bias"), ("self_attn.k_proj", kv, d, "attention_bias"),
                                      ("self_attn.v_proj", kv, d, "attention_bias"), ("self_attn.o_proj", d, q, "attention_bias"),
                                      ("mlp.gate_proj", m, d, "mlp_bias"), ("mlp.up_proj", m, d, "mlp_bias"),
                                      ("mlp.down_proj", d, m, "mlp_bias")]:
            shapes[name + part + ".weight"] = (out, into)
            if config.get(flag):
                shapes[name + part + ".bias"] = (out,)
    tensors = {name: draw.normal(1.0 if "norm" in name else 0.0, 0.3 if len(shape) == 1 else 1.5 / numpy.sqrt(shape[1]), shape)
               for name, shape in shapes.items()}
    names = sorted(tensors)
    if shards == 1:
        write_safetensors(folder / "model.safetensors", tensors, kind)
        return
    place = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        mine = names[shard::shards]  # a layer's tensors lie in several shards
        write_safetensors(folder / file, {name: tensors[name] for name in mine}, kind)
        place.update({name: file for name in mine})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": place}))


class Flags(unittest.TestCase):
    def test_every_flag_agrees_with_numpy(self):
        for number, (case, (changes, kind, shards)) in enumerate(CASES.items()):
            with self.subTest(case=case), tempfile.TemporaryDirectory() as place:
                folder = pathlib.Path(place)
                write_checkpoint(folder, changes, kind, shards, seed=number)
                ids = [int(i) for i in numpy.random.default_rng(100 + number).integers(0, 96, 100)]
                out = folder / "out.safetensors"
                names = ["logits", "attn_probs", "q_pre", "k_pre", "q_rot", "k_rot", "hidden"]
                subprocess.run([BIN / "ropelab-worker", "inspect", "--model", folder, "--token-ids", ",".join(map(str, ids)),
                                "--dump", ",".join(names), "--out", out, "--dtype", "float32"], check=True, capture_output=True)
                got = read_safetensors(out)
                reference = Llama(folder)
                if "rope_parameters" in changes:
                    reference.config.update(rope_theta=500000.0, rope_scaling=LLAMA3)
                    reference.inv_freq = reference._frequencies()
                wanted = reference.forward(ids)
                worst = {name: float(numpy.abs(got[name] - wanted[name]).max()) for name in names}
                print(f"{case:42}", " ".join(f"{name} {value:.1e}" for name, value in worst.items()))
                for name, value in worst.items():
                    self.assertLess(value, 5e-5 if name == "attn_probs" else 2e-4, name)
                self.assertLess(wanted["attn_probs"][:, :, 50:].max(-1).mean(), 0.95, "attention too sharp to test anything")
                self.assertGreater(wanted["attn_probs"][:, :, 50:].max(-1).mean(), 0.03, "attention too even to test anything")


if __name__ == "__main__":
    unittest.main(verbosity=2)
