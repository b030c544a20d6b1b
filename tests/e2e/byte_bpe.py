"""A small byte-level BPE: makes a tokenizer.json from a text and tokenizes by it, from the format's description alone. For ASCII
texts only: the pre-tokenizer's letters are A to Z and a to z here."""

import collections
import json
import re

WORDS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")
SPECIAL = ["<unk>", "<s>", "</s>"]  # ids 0, 1, 2


def byte_characters():
    """The visible character that stands for each byte in the vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table, spare = {byte: chr(byte) for byte in plain}, 256
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(spare)
            spare += 1
    return table


class ByteBpe:
    def __init__(self, merges):
        self.characters = byte_characters()
        self.merges = merges
        self.rank = {pair: i for i, pair in enumerate(merges)}
        names = [*SPECIAL, *(self.characters[byte] for byte in range(256)), *(a + b for a, b in merges)]
        self.vocabulary = {name: i for i, name in enumerate(names)}
        assert len(self.vocabulary) == len(names)

    @classmethod
    def learned(cls, text, merges):
        """The most frequent pair first, the smaller of a tie."""
        characters = byte_characters()
        words = collections.Counter(tuple(characters[b] for b in word.encode()) for word in WORDS.findall(text))
        found = []
        for _ in range(merges):
            pairs = collections.Counter()
            for word, times in words.items():
                for pair in zip(word, word[1:]):
                    pairs[pair] += times
            best = min(pairs, key=lambda pair: (-pairs[pair], pair))
            found.append(best)
            words = collections.Counter({cls._joined(word, best): times for word, times in words.items()})
        return cls(found)

    @staticmethod
    def _joined(word, pair):
        out, i = [], 0
        while i < len(word):
            if tuple(word[i:i + 2]) == pair:
                out.append(word[i] + word[i + 1])
                i += 2
            else:
                out.append(word[i])
                i += 1
        return tuple(out)

    def ids(self, text):
        """Without special tokens."""
        result = []
        for word in WORDS.findall(text):
            symbols = tuple(self.characters[byte] for byte in word.encode())
            while len(symbols) > 1:
                pair = min(zip(symbols, symbols[1:]), key=lambda p: self.rank.get(p, len(self.merges)))
                if pair not in self.rank:
                    break
                symbols = self._joined(symbols, pair)
            result += [self.vocabulary[symbol] for symbol in symbols]
        return result

    def json(self):
        added = [{"id": i, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                  "special": True} for i, name in enumerate(SPECIAL)]
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        bos = {"SpecialToken": {"id": "<s>", "type_id": 0}}
        first = {"Sequence": {"id": "A", "type_id": 0}}
        template = {"type": "TemplateProcessing", "single": [bos, first],
                    "pair": [bos, first, {"Sequence": {"id": "B", "type_id": 1}}],
                    "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
        model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                 "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": self.vocabulary,
                 "merges": [f"{a} {b}" for a, b in self.merges]}
        return json.dumps({"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                           "pre_tokenizer": byte_level, "post_processor": template, "decoder": byte_level, "model": model},
                          ensure_ascii=False)
