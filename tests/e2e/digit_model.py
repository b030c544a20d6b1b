"""Models made by hand whose first heads look at digits and at nothing else, the others evenly at everything: which heads a needle of
digits finds is known beforehand. Needs numpy."""

import json

import numpy

from byte_bpe import ByteBpe

LAYERS, HEADS, DIM = 2, 4, 32  # unless a test says otherwise; two query heads share their keys
SLOWEST = DIM // 2 - 1  # the pair that hardly turns within a few hundred tokens; storage index of its first half


def write_digit_model(folder, on, seed, positions=512, layers=LAYERS, heads=HEADS):
    """`on` heads, in order of layer and head, look at digits; the others attend evenly. Nothing is written into the residual. Returns the
    query projections, [layers, rows, hidden]."""
    groups, hidden = heads // 2, heads * DIM
    draw = numpy.random.default_rng(seed)
    bpe = ByteBpe([])
    vocabulary = len(bpe.vocabulary)
    embedding = draw.standard_normal((vocabulary, hidden)) * 0.01
    embedding[:, 0] = 1  # every token
    embedding[:, 1] = 0
    for digit in "0123456789":
        embedding[bpe.vocabulary[digit], 1] = 1
    tensors = {"model.embed_tokens.weight": embedding, "model.norm.weight": numpy.ones(hidden)}
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        query, key = draw.standard_normal((hidden, hidden)) * 0.05, numpy.zeros((groups * DIM, hidden))
        key[SLOWEST::DIM, 1] = 4
        for head in range(heads):
            query[head * DIM + SLOWEST] = query[head * DIM + SLOWEST + DIM // 2] = 0
            query[head * DIM + SLOWEST, 0] = 4 if layer * heads + head < on else 0
        tensors |= {prefix + "self_attn.q_proj.weight": query, prefix + "self_attn.k_proj.weight": key,
                    prefix + "self_attn.v_proj.weight": draw.standard_normal((groups * DIM, hidden)) * 0.02,
                    prefix + "self_attn.o_proj.weight": numpy.zeros((hidden, hidden)),
                    prefix + "mlp.gate_proj.weight": draw.standard_normal((64, hidden)) * 0.02,
                    prefix + "mlp.up_proj.weight": draw.standard_normal((64, hidden)) * 0.02,
                    prefix + "mlp.down_proj.weight": numpy.zeros((hidden, 64)),
                    prefix + "input_layernorm.weight": numpy.ones(hidden),
                    prefix + "post_attention_layernorm.weight": numpy.ones(hidden)}
    tensors = {name: value.astype(numpy.float32) for name, value in tensors.items()}
    folder.mkdir()
    header, offset = {}, 0
    for name, value in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [offset, offset + value.nbytes]}
        offset += value.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(value.tobytes() for value in tensors.values())
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    (folder / "config.json").write_text(json.dumps(
        {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": hidden, "num_hidden_layers": layers,
         "num_attention_heads": heads, "num_key_value_heads": groups, "intermediate_size": 64, "vocab_size": vocabulary,
         "max_position_embeddings": positions, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
         "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float32"}))
    (folder / "tokenizer.json").write_text(bpe.json())
    return numpy.stack([tensors[f"model.layers.{layer}.self_attn.q_proj.weight"] for layer in range(layers)])


def head_utilities(query):
    return numpy.abs(query.astype(numpy.float64)).sum(-1).reshape(LAYERS, HEADS, DIM).mean(-1)
