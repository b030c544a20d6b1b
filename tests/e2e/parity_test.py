"""Sizes and spellings at random: what real configs leave out (head_dim, num_key_value_heads, rope fields), odd widths, one KV head, prompts
of one and two tokens and beyond the window, matrices stored under both tied names, leftovers of older files. Against families_test.py's
second implementation, whose own cases hold one shape and vary the flags."""

import json
import pathlib
import random
import subprocess
import tempfile
import unittest

import numpy

from families_test import FAMILIES, FULL, NAMES, SLIDING, Model, shapes
from flags_test import write_safetensors
from harness import BIN, read_safetensors

CHECKPOINTS = 21  # three of each family
HEAD_DIM_LEFT_OUT = {"qwen3": 128, "gemma": 256, "gemma2": 256}  # the others: hidden size by heads


def windows(draw, family, fields, layers):
    """Fields that say how far each layer sees, and what they mean."""
    width = draw.choice([1, 3, 8])
    if family == "mistral":
        fields.update(draw.choice([{"sliding_window": None}, {"sliding_window": width}, {}]))
        return [fields.get("sliding_window") or 0] * layers
    if family in ("qwen2", "qwen3"):
        used, first = draw.random() < 0.7, draw.randrange(layers + 1)
        fields.update(use_sliding_window=used, sliding_window=width, max_window_layers=first)
        slides = [used and layer >= first for layer in range(layers)]
    elif family == "gemma2":
        fields.update(sliding_window=width)
        slides = [layer % 2 == 0 for layer in range(layers)]
    else:
        return [0] * layers
    if draw.random() < 0.5:  # as transformers 5 spells it out
        fields["layer_types"] = [SLIDING if slide else FULL for slide in slides]
    return [width if slide else 0 for slide in slides]


def checkpoint(draw, family):
    """What stands in config.json, the same with nothing left out, and each layer's window."""
    kv_heads, layers = draw.choice([1, 1, 2, 3]), draw.choice([1, 2, 4])
    heads = kv_heads * draw.choice([1, 2, 5])
    spelling = draw.choice(["given", "absent"] if family == "olmo2" else ["given", "absent", "null"])
    size = draw.choice([2, 6, 10, 32])
    width = draw.choice([5, 12, 33])  # another than heads times head_dim
    if spelling != "given":
        size, width = (HEAD_DIM_LEFT_OUT[family], width) if family in HEAD_DIM_LEFT_OUT else (size, heads * size)
    fields = {"model_type": family, "hidden_size": width, "intermediate_size": draw.choice([1, 19, 40]), "num_hidden_layers": layers,
              "num_attention_heads": heads, "vocab_size": draw.choice([5, 61, 130]), "max_position_embeddings": 64}
    if spelling != "absent":
        fields["head_dim"] = size if spelling == "given" else None
    if kv_heads != heads or draw.random() < 0.5:
        fields["num_key_value_heads"] = kv_heads
    if draw.random() < 0.5:
        fields["tie_word_embeddings"] = draw.random() < 0.5
    if draw.random() < 0.5:
        fields["rms_norm_eps"] = 1e-3
    if family not in ("mistral", "qwen2"):
        fields["attention_bias"] = draw.random() < 0.4
    fields.update(draw.choice([{}, {"rope_theta": 5e5, "rope_scaling": None}, {"rope_parameters": {"rope_theta": 700.0}},
                               {"rope_theta": 1e6, "rope_scaling": {"type": "linear", "factor": 4}}]))
    fields["bos_token_id"] = draw.choice([1, None, 128000])  # read, and of no matter here
    seen = windows(draw, family, fields, layers)
    return fields, {**fields, "head_dim": size}, seen


def weights(draw, config):
    generator = numpy.random.default_rng(draw.randrange(1 << 30))
    one_plus = FAMILIES[config["model_type"]][1]
    tensors = {}
    for name, shape in shapes(config).items():
        spread = 0.3 if len(shape) == 1 or "embed" in name else shape[1] ** -0.5
        tensors[name] = generator.normal(1.0 if "norm" in name and not one_plus else 0.0, spread, shape)
    if "lm_head.weight" not in tensors and draw.random() < 0.5:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    if draw.random() < 0.5:
        tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = generator.normal(0.0, 1.0, config["head_dim"] // 2)
    return tensors


def store(draw, folder, tensors):
    """In one file, or each tensor in a shard of its own luck."""
    kind, shards = draw.choice(["F32", "BF16", "F16"]), draw.choice([1, 2, 4])
    if shards == 1:
        write_safetensors(folder / "model.safetensors", tensors, kind)
        return
    place = {name: f"model-{draw.randrange(shards)}.safetensors" for name in tensors}
    for file in set(place.values()):
        write_safetensors(folder / file, {name: tensors[name] for name in tensors if place[name] == file}, kind)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 0}, "weight_map": place}))


class Parity(unittest.TestCase):
    def test_random_checkpoints_agree_with_numpy(self):
        for seed in range(CHECKPOINTS):
            draw = random.Random(seed)
            fields, config, seen = checkpoint(draw, list(FAMILIES)[seed % len(FAMILIES)])
            with self.subTest(seed=seed, config=fields), tempfile.TemporaryDirectory() as place:
                folder = pathlib.Path(place)
                (folder / "config.json").write_text(json.dumps(fields))
                store(draw, folder, weights(draw, config))
                ids = [draw.randrange(config["vocab_size"]) for _ in range(draw.choice([1, 2, 7, 40, 64]))]
                out = folder / "out.tensors"
                done = subprocess.run([BIN / "ropelab-worker", "inspect", "--model", folder, "--token-ids", ",".join(map(str, ids)),
                                       "--dump", ",".join(NAMES), "--out", out, "--threads", "1"], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                model = Model(folder, seen)
                model.config = config
                got, wanted = read_safetensors(out), model.forward(numpy.array(ids))
                worst = {name: float(numpy.abs(got[name] - wanted[name]).max()) for name in NAMES}
                print(f"{seed:3} {config['model_type']:8}", " ".join(f"{name} {value:.1e}" for name, value in worst.items()))
                for name, value in worst.items():
                    self.assertEqual(got[name].shape, wanted[name].shape, name)
                    self.assertLess(value, 5e-5 if name == "attn_probs" else 2e-4, name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
