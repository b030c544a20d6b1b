"""A second implementation, in numpy and float64, of what ropelab computes: a llama forward pass from a checkpoint in Hugging
Face's form, the random streams of docs/random-numbers.md, and slash scores as docs/experiments/slash_detection.md defines them.
It shares no code with the product and was written from the documents alone, so that agreement means something.
"""

import hashlib
import json
import math
import struct

import numpy

from harness import read_safetensors


class Llama:
    """A llama checkpoint; its weights as they are stored, every operation on them in float64."""

    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = {name: tensor.astype(numpy.float64) for shard in sorted(folder.glob("model*.safetensors"))
                        for name, tensor in read_safetensors(shard).items()}
        self.layers = self.config["num_hidden_layers"]
        self.heads = self.config["num_attention_heads"]
        self.kv_heads = self.config.get("num_key_value_heads") or self.heads
        self.hidden = self.config["hidden_size"]
        self.head_dim = self.config.get("head_dim") or self.hidden // self.heads
        self.vocabulary = self.config["vocab_size"]
        self.bos = self.config["bos_token_id"]
        self.special = sorted({self.config["bos_token_id"], self.config["eos_token_id"]})
        self.inv_freq = self._frequencies()

    def _frequencies(self):
        """Hugging Face's values are fp32: the ladder is rounded once, then scaled as llama3 scaling does."""
        exponents = numpy.arange(0, self.head_dim, 2, dtype=numpy.float64) / self.head_dim
        ladder = (1.0 / self.config.get("rope_theta", 10000.0) ** exponents).astype(numpy.float32).astype(numpy.float64)
        scaling = self.config.get("rope_scaling")
        if scaling is None:
            return ladder
        assert scaling["rope_type"] == "llama3"
        length, factor = scaling["original_max_position_embeddings"], scaling["factor"]
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        scaled = []
        for frequency in ladder:
            turns = length * frequency / (2 * math.pi)
            keep = min(max((turns - low) / (high - low), 0.0), 1.0)  # 1: a fast pair stays, 0: a slow one is slowed by `factor`
            scaled.append(keep * frequency + (1 - keep) * frequency / factor)
        return numpy.array(scaled, numpy.float32).astype(numpy.float64)

    def _norm(self, x, name):
        return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + self.config["rms_norm_eps"]) * self.weights[name]

    def _linear(self, x, name):
        """A projection as Hugging Face stores it, [out, in], with its bias where the checkpoint has one."""
        return x @ self.weights[name + ".weight"].T + self.weights.get(name + ".bias", 0.0)

    def _rotate(self, x):
        """x is [heads, T, D]; dimension j is paired with j + D/2."""
        angles = numpy.arange(x.shape[1])[:, None] * self.inv_freq
        cosine, sine = numpy.cos(angles), numpy.sin(angles)
        first, second = numpy.split(x, 2, axis=-1)
        return numpy.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)

    def forward(self, ids):
        """The tensors of one prompt, named and shaped as docs/experiments/inspection.md says."""
        tokens = len(ids)
        out = {"hidden": [], "q_pre": [], "k_pre": [], "q_rot": [], "k_rot": [], "attn_probs": []}
        x = self.weights["model.embed_tokens.weight"][numpy.asarray(ids)]
        future = numpy.triu(numpy.ones((tokens, tokens), bool), 1)
        for layer in range(self.layers):
            name = f"model.layers.{layer}."
            out["hidden"].append(x)
            y = self._norm(x, name + "input_layernorm.weight")
            q, k, v = (
                self._linear(y, f"{name}self_attn.{p}_proj").reshape(tokens, heads, self.head_dim).transpose(1, 0, 2)
                for p, heads in (("q", self.heads), ("k", self.kv_heads), ("v", self.kv_heads)))
            q_rot, k_rot = self._rotate(q), self._rotate(k)
            group = numpy.arange(self.heads) * self.kv_heads // self.heads
            logits = q_rot @ k_rot[group].transpose(0, 2, 1) / math.sqrt(self.head_dim)
            logits[:, future] = -math.inf
            attention = numpy.exp(logits - logits.max(-1, keepdims=True))
            attention /= attention.sum(-1, keepdims=True)
            mixed = (attention @ v[group]).transpose(1, 0, 2).reshape(tokens, -1)
            x = x + self._linear(mixed, name + "self_attn.o_proj")
            y = self._norm(x, name + "post_attention_layernorm.weight")
            gate = self._linear(y, name + "mlp.gate_proj")
            up = self._linear(y, name + "mlp.up_proj")
            x = x + self._linear(gate / (1 + numpy.exp(-gate)) * up, name + "mlp.down_proj")
            for key, value in (("q_pre", q), ("k_pre", k), ("q_rot", q_rot), ("k_rot", k_rot), ("attn_probs", attention)):
                out[key].append(value)
        out["hidden"].append(x)
        head = "model.embed_tokens.weight" if self.config.get("tie_word_embeddings", False) else "lm_head.weight"
        tensors = {key: numpy.stack(value) for key, value in out.items()}
        tensors["logits"] = self._norm(x, "model.norm.weight") @ self.weights[head].T
        return tensors


def philox(seed, purpose, sample):
    """Key and counter as arrays: numpy reads lists of large numbers through doubles."""
    return numpy.random.Philox(key=numpy.array([seed, purpose], numpy.uint64),
                               counter=numpy.array([0, 0, sample, 0], numpy.uint64))


def uniform_prompt(seed, sample, tokens, allowed, bos=None):
    start = [] if bos is None else [bos]
    raw = philox(seed, 1, sample).random_raw(tokens - len(start))
    return start + [allowed[(int(word) * len(allowed)) >> 64] for word in raw]


def sampling_choices(logits, seed, sample, temperature):
    """What would be drawn after each prefix, from the logits at its end, and how near the draw was to falling otherwise."""
    draws = numpy.random.Generator(philox(seed, 2, sample)).random(len(logits))
    choices, margins = [], []
    for row, u in zip(logits, draws):
        if temperature == 0:
            choices.append(int(row.argmax()))
            largest = numpy.sort(row)[-2:]
            margins.append(largest[1] - largest[0])
        else:
            running = numpy.cumsum(numpy.exp((row - row.max()) / temperature))
            choices.append(int(numpy.argmax(running > u * running[-1])))
            margins.append(numpy.abs(running / running[-1] - u).min())
    return choices, margins


def counted_rows(tokens, offset, last, skip, rows):
    return range((last if rows == "COMMON" else offset) + skip, tokens)


def slash_scores(attention, first, last, skip, rows, denominator):
    """[L, H, offsets] of one prompt's [L, H, T, T]."""
    tokens = attention.shape[-1]
    scores = numpy.empty((*attention.shape[:2], last - first + 1))
    for offset in range(first, last + 1):
        counted = numpy.array(counted_rows(tokens, offset, last, skip, rows))
        entries = attention[:, :, counted, counted - offset]
        scores[:, :, offset - first] = entries.sum(-1) / (tokens - offset if denominator == "DEFINITION" else len(counted))
    return scores


def uniform_scores(tokens, first, last, skip, rows, denominator):
    """What attention of 1 / (i + 1) would score on the same entries."""
    even = 1 / (numpy.arange(tokens)[:, None] + 1.0) * numpy.ones(tokens)
    return slash_scores(even[None, None], first, last, skip, rows, denominator)[0, 0]


def over_prompts(scores):
    """Mean and standard error of [prompts, ...]."""
    scores = numpy.asarray(scores)
    return scores.mean(0), scores.std(0, ddof=1) / math.sqrt(len(scores))


def large_regime(tokens):
    if tokens == 6000:
        return 500, 5000, 1e-3
    return -(-tokens // 12), 5 * tokens // 6, 6 / tokens


def fed_ids_digest(prompts):
    """Of the ids fed to the model, prompt after prompt, each after its length; all of them as int32."""
    digest = hashlib.sha256()
    for ids in prompts:
        digest.update(numpy.array([len(ids), *ids], "<i4").tobytes())
    return digest.hexdigest()


def canonical_hash(message):
    """The walk of common/service/canonical_hash.h over a protobuf message."""
    digest = hashlib.sha256()

    def number(value):
        digest.update(struct.pack("<Q", value % 2**64))

    def element(field, value):
        if field.cpp_type == field.CPPTYPE_MESSAGE:
            walk(value)
        elif field.cpp_type in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
            digest.update(struct.pack("<d", value if value != 0 else 0.0))
        elif field.cpp_type == field.CPPTYPE_STRING:
            text = value.encode() if isinstance(value, str) else value
            number(len(text))
            digest.update(text)
        else:
            number(int(value))

    def walk(part):
        fields = sorted(part.ListFields(), key=lambda pair: pair[0].number)
        number(len(fields))
        for field, value in fields:
            number(field.number)
            kind = {field.CPPTYPE_MESSAGE: 4, field.CPPTYPE_STRING: 3, field.CPPTYPE_DOUBLE: 2, field.CPPTYPE_FLOAT: 2}
            digest.update(bytes([kind.get(field.cpp_type, 1)]))
            if field.label == field.LABEL_REPEATED:
                number(len(value))
                for one in value:
                    element(field, one)
            else:
                element(field, value)

    walk(message)
    return digest.hexdigest()
