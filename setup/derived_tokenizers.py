"""Tokenizer files that no package ships as such, put together from those that packages do ship.

Each covers a layout of tokenizer.json that checkpoints use: the vocabulary and merges are genuine where the name is a
model's, and a cut of another's where it ends in "style".
"""
import base64
import copy
import json
import re
import struct


def _in_javascript_order(value):
    # The digests are over what JavaScript writes: there, keys that look like indices come first, ascending.
    if isinstance(value, list):
        return [_in_javascript_order(item) for item in value]
    if not isinstance(value, dict):
        return value

    def is_index(key):
        return key.isascii() and key.isdigit() and str(int(key)) == key and int(key) < 2**32 - 1

    keys = sorted(filter(is_index, value), key=int) + [key for key in value if not is_index(key)]
    return {key: _in_javascript_order(value[key]) for key in keys}


def to_text(tokenizer):
    return json.dumps(_in_javascript_order(tokenizer), ensure_ascii=False, separators=(",", ":"))


def _added(number, content, **flags):
    return {"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True, **flags}


def _cut(model, size):
    """The first `size` tokens of a byte-level vocabulary, and the merges that stay within them."""
    vocab = dict(sorted(model["vocab"].items(), key=lambda entry: entry[1])[:size])
    pairs = (merge if isinstance(merge, list) else merge.split(" ") for merge in model["merges"])
    return vocab, [f"{a} {b}" for a, b in pairs if a in vocab and b in vocab and a + b in vocab]


def _byte_level_model(vocab, merges, **more):
    return {"dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
            "fuse_unk": False, **more, "vocab": vocab, "merges": merges}


def _llama2(mistral, script):
    """Llama 2's vocabulary and merges, packed in base64 in a JavaScript source, in the layout of Mistral's file."""
    def packed(name):
        return base64.b64decode(re.search(rf'const {name} *= *"([A-Za-z0-9+/=]+)"', script).group(1))

    tokens = packed("llama_vocab_base64").decode("utf-8").split("\n")
    merges = packed("llama_merges_binary")
    numbers = struct.iter_unpack("<HH", merges[:len(merges) // 4 * 4])
    result = copy.deepcopy(mistral)
    result["model"]["vocab"] = {token: number for number, token in enumerate(tokens)}
    result["model"]["merges"] = [f"{tokens[a]} {tokens[b]}" for a, b in numbers]
    return result


def _mistral_metaspace(mistral):
    result = copy.deepcopy(mistral)
    result["normalizer"] = None
    result["pre_tokenizer"] = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first",
                               "split": False}
    result["model"]["merges"] = [merge.split(" ") for merge in result["model"]["merges"]]
    result["model"]["ignore_merges"] = False
    return result


def _llama2_metaspace(llama2):
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True}
    return {**copy.deepcopy(llama2), "normalizer": None, "pre_tokenizer": metaspace, "decoder": dict(metaspace)}


def _gpt2(gpt4o, prefix_space):
    vocab, merges = _cut(gpt4o["model"], 50256)
    vocab["<|endoftext|>"] = 50256
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [_added(50256, "<|endoftext|>", normalized=True)], "normalizer": None,
            "pre_tokenizer": {**byte_level, "add_prefix_space": prefix_space},
            "post_processor": {**byte_level, "trim_offsets": False}, "decoder": byte_level,
            "model": _byte_level_model(vocab, merges)}


def _olmo2(llama3):
    """cl100k's ids, which are the first of Llama 3's, with a Split that removes what lies between matches."""
    vocab, merges = _cut(llama3["model"], 100256)
    names = (["<|extra_id_0|>", "<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>",
              "|||PHONE_NUMBER|||", "|||EMAIL_ADDRESS|||", "|||IP_ADDRESS|||", "<|im_start|>", "<|im_end|>"] +
             [f"<|extra_id_{n}|>" for n in range(1, 11)] + ["<|endofprompt|>", "<|pad|>"])
    added = [_added(100256 + n, name, special=not name.startswith(("<|extra_id", "|||")))
             for n, name in enumerate(names)]
    regex = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
             r"|\s*[\r\n]+|\s+(?!\S)|\s+")
    split = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Removed", "invert": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]}, "post_processor": None,
            "decoder": {**byte_level, "add_prefix_space": True, "use_regex": True},
            "model": {"type": "BPE", **_byte_level_model(vocab, merges, byte_fallback=False)}}


def _every_added_token_flag(qwen3):
    """Qwen 3 with made-up added tokens, one for each flag and two that overlap, and a template with both ends."""
    result = copy.deepcopy(qwen3)
    flags = [("<mask>", {"lstrip": True}), ("<rs>", {"rstrip": True}),
             ("QZWD", {"single_word": True, "special": False}),
             ("caf\u00e9X", {"normalized": True, "special": False}),
             ("<both>", {"lstrip": True, "rstrip": True, "special": False}), ("zqabc", {"special": False}),
             ("zqabcde", {"special": False})]
    result["added_tokens"] += [_added(151669 + n, content, **flag) for n, (content, flag) in enumerate(flags)]

    def special(name):
        return {"SpecialToken": {"id": name, "type_id": 0}}

    def sequence(name, kind):
        return {"Sequence": {"id": name, "type_id": kind}}

    ids = {"<|im_start|>": 151644, "<|endoftext|>": 151643}
    result["post_processor"] = {"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
        {"type": "TemplateProcessing",
         "single": [special("<|im_start|>"), sequence("A", 0), special("<|endoftext|>")],
         "pair": [sequence("A", 0), sequence("B", 1)],
         "special_tokens": {name: {"id": name, "ids": [n], "tokens": [name]} for name, n in ids.items()}}]}
    return result


def derive(shipped, llama2_script):
    """{name: text} from {name: parsed tokenizer.json} of mistral, llama3, qwen3 and gpt4o."""
    llama2 = _llama2(shipped["mistral"], llama2_script)
    made = {
        "llama2": llama2,
        "mistral_metaspace": _mistral_metaspace(shipped["mistral"]),
        "llama2_metaspace": _llama2_metaspace(llama2),
        "gpt2style": _gpt2(shipped["gpt4o"], prefix_space=False),
        "gpt2prefix": _gpt2(shipped["gpt4o"], prefix_space=True),
        "olmo2style": _olmo2(shipped["llama3"]),
        "addedtok": _every_added_token_flag(shipped["qwen3"]),
    }
    return {name: to_text(tokenizer) for name, tokenizer in made.items()}
