"""What rank_analysis says of a checkpoint, once more in numpy and float64: singular values by numpy's SVD of the matrices themselves,
from a checkpoint's weights and from queries, keys and hidden states that another implementation gave. Written from
docs/experiments/rank_analysis.md and docs/random-numbers.md alone."""

import json
import math

import numpy

from harness import read_safetensors
from independent import philox


def shares(x):
    """Of each singular direction, the largest first."""
    squares = numpy.linalg.svd(numpy.asarray(x, numpy.float64), compute_uv=False) ** 2
    return squares / squares.sum()


def rank(share, energy):
    """The least count of shares that reaches the energy, and how near the choice was to falling otherwise."""
    running = numpy.cumsum(share)
    return int(numpy.argmax(running >= energy)) + 1, float(numpy.abs(running[: len(share) - 1] - energy).min())


def relative(values, ddof):
    return values.std(ddof=ddof) / abs(values.mean())


class Checkpoint:
    """Weights and shapes; what stands before a checkpoint's attention differs by family."""

    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = {name: tensor.astype(numpy.float64) for shard in sorted(folder.glob("model*.safetensors"))
                        for name, tensor in read_safetensors(shard).items()}
        self.family = self.config["model_type"]
        self.layers = self.config["num_hidden_layers"]
        self.heads = self.config["num_attention_heads"]
        self.kv_heads = self.config.get("num_key_value_heads") or self.heads
        self.hidden = self.config["hidden_size"]
        self.head_dim = self.config.get("head_dim") or self.hidden // self.heads
        self.vocabulary = self.config["vocab_size"]
        self.expected = read_safetensors(folder / "expected.safetensors")
        self.ids = self.expected["input_ids"].tolist()

    def kv(self, head):
        return head * self.kv_heads // self.heads

    def norm(self, x, name=None):
        x = x / numpy.sqrt((x * x).mean(-1, keepdims=True) + self.config["rms_norm_eps"])
        if name is None:
            return x
        return x * (self.weights[name] + (1 if self.family.startswith("gemma") else 0))

    def normed(self, layer, residual, weight=True):
        """What enters the projections; olmo2 has no norm there."""
        if self.family == "olmo2":
            return residual
        return self.norm(residual, f"model.layers.{layer}.input_layernorm.weight" if weight else None)

    def projection(self, layer, side, head):
        """[D, hidden] of a query or key head, and its bias or 0."""
        name = f"model.layers.{layer}.self_attn.{side}_proj."
        rows = slice(head * self.head_dim, (head + 1) * self.head_dim)
        bias = self.weights.get(name + "bias")
        return self.weights[name + "weight"][rows], None if bias is None else bias[rows]

    def embeddings(self):
        """The residual that enters layer 0, of every token."""
        scale = math.sqrt(self.hidden) if self.family.startswith("gemma") else 1.0
        return self.weights["model.embed_tokens.weight"] * scale

    def vocabulary_vectors(self, side):
        """[heads, tokens, D]: bias and query/key norm included, before RoPE."""
        heads = self.heads if side == "q" else self.kv_heads
        x = self.normed(0, self.embeddings())
        parts = []
        for head in range(heads):
            weight, bias = self.projection(0, side, head)
            parts.append(x @ weight.T + (0 if bias is None else bias))
        name = f"model.layers.0.self_attn.{side}_norm.weight"
        if self.family == "olmo2":  # over all heads' dimensions at once
            whole = self.norm(numpy.concatenate(parts, -1), name)
            parts = numpy.split(whole, heads, -1)
        elif name in self.weights:
            parts = [self.norm(part, name) for part in parts]
        return numpy.stack(parts)

    def alignment(self, side, head, energy, norm_weight):
        """r1, rank, rv, mean norm, bias norm, cosines to the axis; and the nearest miss of a rank."""
        weight, bias = self.projection(0, side, head)
        x = self.normed(0, self.embeddings())
        cone = x if self.family == "olmo2" else self.normed(0, self.embeddings(), norm_weight)
        _, sigma, directions = numpy.linalg.svd(weight, full_matrices=False)  # directions: [m, hidden]
        energies = (x @ directions.T * sigma) ** 2
        share = numpy.sort(energies, -1)[:, ::-1]
        share /= share.sum(-1, keepdims=True)
        ranks = [rank(row, energy) for row in share]
        axis = directions[((cone @ directions.T * sigma) ** 2).sum(0).argmax()]
        along = cone @ axis
        cosines = along / numpy.linalg.norm(cone, axis=-1)
        return {
            "r1": share[:, 0].mean(), "rank": numpy.mean([found for found, _ in ranks]), "rv": relative(along, 1),
            "mean_norm": numpy.linalg.norm(x @ weight.T, axis=-1).mean(),
            "bias_norm": None if bias is None else numpy.linalg.norm(bias),
            "cosines": cosines * (-1 if cosines.mean() < 0 else 1), "margin": min(margin for _, margin in ranks)}

    def random_variations(self, seed, vectors, norm_weight):
        cone = self.normed(0, self.embeddings(), norm_weight)
        return [relative(cone @ normals(seed, 9, r, self.hidden), 1) for r in range(vectors)]


def normals(seed, purpose, sample, count):
    pairs = (count + 1) // 2
    u = (philox(seed, purpose, sample).random_raw(2 * pairs) >> numpy.uint64(11)) * 2.0**-53
    radius, angle = numpy.sqrt(-2 * numpy.log(1 - u[::2])), 2 * numpy.pi * u[1::2]
    return numpy.stack([radius * numpy.cos(angle), radius * numpy.sin(angle)], -1).ravel()[:count]
