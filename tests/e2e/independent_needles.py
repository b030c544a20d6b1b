"""Needle prompts from docs/experiments/needles.md and docs/random-numbers.md alone: numpy's Philox, the rules for characters, and
whatever tokenizer is handed in."""

import pathlib
import re

import numpy

SOURCE = pathlib.Path(__file__).resolve().parents[2]
NEEDLE = "The secret passphrase is CODE."
QUESTION = "\n\nWhat is the secret passphrase?\n\nAnswer:"
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
PURPOSE = {"detection": 11, "test": 12}


class Stream:
    def __init__(self, seed, purpose, length, index, depth):
        counter = numpy.array([0, length, index, int(numpy.floor(depth * 1e6 + 0.5))], dtype=numpy.uint64)
        self.philox = numpy.random.Philox(key=numpy.array([seed, purpose], dtype=numpy.uint64), counter=counter)

    def integer(self, n):
        return (int(self.philox.random_raw()) * n) >> 64

    def shuffled(self, values):
        values = list(values)
        for i in range(len(values) - 1, 0, -1):
            j = self.integer(i + 1)
            values[i], values[j] = values[j], values[i]
        return values


def grammar():
    """Templates and word lists, read as data from the head of the file that the contract names."""
    text = (SOURCE / "worker/measure/generated_text.cc").read_text()
    literal = r'"((?:[^"\\]|\\.)*)"'
    arrays = {name: re.findall(literal, body)
              for name, body in re.findall(r"constexpr std::string_view (k\w+)\[\] = \{(.*?)\};", text, re.S)}
    lists = {name: arrays[array] for name, array in re.findall(r'List\{"(\w+)", (k\w+)\}', text)}
    return arrays["kTemplates"], lists


def generated_sentences(stream):
    templates, lists = grammar()
    while True:
        template = templates[stream.integer(len(templates))]
        yield re.sub(r"<(\w+)>", lambda found: lists[found[1]][stream.integer(len(lists[found[1]]))], template)


def sentences_of(text):
    """Those of 20 to 200 characters."""
    white = " \t\n\v\f\r"
    words = list(re.finditer(f"[^{white}]+", text))
    result, run = [], []
    for i, word in enumerate(words):
        run.append(word[0])
        if i + 1 < len(words):
            following = words[i + 1]
            blank_line = text[word.end():following.start()].count("\n") > 1
            bare = word[0].rstrip("\"')]\u201d\u2019")
            ends = (bare[-1:] in (".", "!", "?") and not ("a" <= following[0][0] <= "z")
                    and not re.fullmatch(r"[A-Z]\.|Mr\.|Mrs\.|Ms\.|Dr\.|St\.|Prof\.", bare))
            if not (blank_line or ends):
                continue
        sentence, run = " ".join(run), []
        if 20 <= len(sentence) <= 200:
            result.append(sentence)
    return result


def corpus_sentences(stream, documents):
    for document in stream.shuffled(range(len(documents))):
        yield from stream.shuffled(sentences_of(documents[document]))


def needle_words(seed, use, length, depth, index, documents=None, needle=NEEDLE, alphabet=ALPHABET, code_length=5):
    """(code, needle with the code, the haystack's words)"""
    stream = Stream(seed, PURPOSE[use], length, index, depth)
    code = "".join(alphabet[stream.integer(len(alphabet))] for _ in range(code_length))
    words, characters = [], 0
    for sentence in generated_sentences(stream) if documents is None else corpus_sentences(stream, documents):
        for word in sentence.split(" "):
            longer = characters + (1 if words else 0) + len(word)
            if longer > 4 * length:
                return code, needle.replace("CODE", code), words
            words.append(word)
            characters = longer
        if characters + 2 > 4 * length:
            return code, needle.replace("CODE", code), words
    raise AssertionError(f"the corpus has {characters} characters and {4 * length} are needed")


def realise(tokenize, seed, use, length, depth, index, bos=None, question=QUESTION, **options):
    """`tokenize` makes (ids, spans in characters) of a text. None where needle and question alone are too long."""
    code, needle, words = needle_words(seed, use, length, depth, index, **options)

    def with_words(kept):
        place, before = int(depth * len(words)), int(depth * kept)
        first = place - before
        ahead = "".join(word + " " for word in words[first:place])
        text = ahead + needle + "".join(" " + word for word in words[place:first + kept]) + question
        ids, spans = tokenize(text)
        if bos is not None:
            ids, spans = [bos, *ids], [(0, 0), *spans]
        return text, ids, spans, len(ahead), before

    kept = len(words)
    found = with_words(kept)
    if len(found[1]) > length:
        few, many = 0, kept
        if len(with_words(0)[1]) > length:
            return None
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (middle, many) if len(with_words(middle)[1]) <= length else (few, middle)
        kept, found = few, with_words(few)
    text, ids, spans, at, before = found
    code_at = at + options.get("needle", NEEDLE).index("CODE")

    def covering(begin, end):
        tokens = [i for i, (b, e) in enumerate(spans) if max(b, begin) < min(e, end)]
        return tokens[0], tokens[-1]

    return {"text": text, "ids": ids, "code": code, "tokens": len(ids), "words": kept, "depth": before / kept if kept else 0.0,
            "needle": covering(at, at + len(needle)), "code_span": covering(code_at, code_at + len(code)),
            "question": covering(len(text) - len(question), len(text))[0]}


def of_byte_bpe(tokenizer):
    """`tokenize` of a byte_bpe.ByteBpe, for ASCII: a token covers as many characters as its name has."""
    lengths = {i: len(name) for name, i in tokenizer.vocabulary.items()}

    def tokenize(text):
        ids, spans, at = tokenizer.ids(text), [], 0
        for token in ids:
            spans.append((at, at + lengths[token]))
            at += lengths[token]
        assert at == len(text)
        return ids, spans

    return tokenize
