"""Writes llama checkpoints of any size without holding more than a few MiB of them: for tests of memory and of load time."""

import json
import pathlib

import numpy

SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}
NAMES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
BLOCK = 1 << 21  # values drawn at once; tensors repeat them from varying places


class Shape:
    def __init__(self, layers, hidden, heads, kv_heads, intermediate, vocabulary):
        self.layers, self.hidden, self.heads, self.kv_heads = layers, hidden, heads, kv_heads
        self.intermediate, self.vocabulary = intermediate, vocabulary

    def tensors(self):
        """Name -> shape, in the order of computation; the embedding is tied."""
        d, m, kv = self.hidden, self.intermediate, self.hidden // self.heads * self.kv_heads
        yield "model.embed_tokens.weight", [self.vocabulary, d]
        for layer in range(self.layers):
            prefix = f"model.layers.{layer}."
            yield prefix + "input_layernorm.weight", [d]
            for name, rows in (("q", d), ("k", kv), ("v", kv), ("o", d)):
                yield f"{prefix}self_attn.{name}_proj.weight", [rows, d]
            yield prefix + "post_attention_layernorm.weight", [d]
            for name, shape in (("gate", [m, d]), ("up", [m, d]), ("down", [d, m])):
                yield f"{prefix}mlp.{name}_proj.weight", shape
        yield "model.norm.weight", [d]

    def parameters(self):
        return sum(int(numpy.prod(shape)) for _, shape in self.tensors())

    def layer_parameters(self):
        return sum(int(numpy.prod(shape)) for name, shape in self.tensors() if name.startswith("model.layers.0."))

    def config(self, dtype):
        return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": self.hidden,
                "num_hidden_layers": self.layers, "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads,
                "intermediate_size": self.intermediate, "vocab_size": self.vocabulary, "max_position_embeddings": 4096,
                "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True,
                "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": dtype}


def encoded(values, dtype):
    """Bytes of float32 values in `dtype`."""
    if dtype == "bfloat16":  # cut off, which is good enough for random weights
        return (values.view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes()
    return values.astype(dtype).tobytes()


def write_checkpoint(folder, shape, dtype, shards=1, odd=0, seed=1):
    """Returns the bytes of all tensors. `odd`: bytes beyond a multiple of 64 at which the data begins. The sharding is by whole
    tensors, with an index."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(shape.config(dtype)))
    tensors = list(shape.tensors())
    draw = numpy.random.default_rng(seed)
    block = encoded((draw.standard_normal(BLOCK, dtype=numpy.float32) * 0.02), dtype)
    ones = encoded(numpy.ones(BLOCK, dtype=numpy.float32), dtype)
    total = 0
    placed = {}
    for shard in range(shards):
        mine = tensors[len(tensors) * shard // shards : len(tensors) * (shard + 1) // shards]
        name = "model.safetensors" if shards == 1 else f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        header, offset = {}, 0
        for tensor, dimensions in mine:
            size = int(numpy.prod(dimensions)) * SIZES[dtype]
            header[tensor] = {"dtype": NAMES[dtype], "shape": dimensions, "data_offsets": [offset, offset + size]}
            offset += size
            placed[tensor] = name
        text = json.dumps(header).encode()
        text += b" " * ((odd - 8 - len(text)) % 64)
        with open(folder / name, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for tensor, dimensions in mine:
                source = ones if "norm" in tensor else block
                left = int(numpy.prod(dimensions)) * SIZES[dtype]
                start = int(draw.integers(BLOCK)) * SIZES[dtype]
                while left > 0:
                    piece = memoryview(source)[start : start + left]
                    file.write(piece)
                    left -= len(piece)
                    start = 0
        total += offset
    if shards > 1:
        index = {"metadata": {"total_size": total}, "weight_map": placed}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return total
