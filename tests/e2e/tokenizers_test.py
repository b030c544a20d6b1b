"""`ropelab-worker tokenize`: offsets against Hugging Face's tokenizers library, decoding, wrong lines, long words. The ids of every
reference line are tokenizer_texts_test.py's matter."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import BIN, FIXTURES, SKIPPED, SOURCE

DATA = SOURCE / "build/test-data"
VECTORS = FIXTURES / "tokenizers"
# Where the reference composes characters, it loses the parts that are not first.
COMPOSING = {"qwen3", "addedtok"}
# One file for each way of making spans.
WITH_OFFSETS = ["mistral", "mistral_metaspace", "llama3_1", "gpt2prefix", "gemma3", "qwen3", "addedtok"]


def skip(reason):
    print(f"skipped: {reason}")
    os._exit(1 if "CI" in os.environ else SKIPPED)


def need_data():
    if not VECTORS.is_dir():
        skip(f"no reference data at {VECTORS} (ROPELAB_FIXTURES names another place)")
    for part in ["tokenizers", "reference"]:
        code = subprocess.run([sys.executable, SOURCE / "setup/fetch-test-data", "--only", part]).returncode
        if code == SKIPPED:
            skip("the tokenizer files cannot be had here")
        if code != 0:
            raise SystemExit(code)


def tokenize(*flags, lines, code=0):
    """What the command answers to lines (objects or raw text), as objects."""
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    done = subprocess.run([BIN / "ropelab-worker", "tokenize", *flags], input=text, capture_output=True, text=True,
                          encoding="utf-8")
    assert done.returncode == code, (done.returncode, done.stderr)
    # Not splitlines(): texts hold U+2028, which is no line end in JSON.
    return [json.loads(line) for line in done.stdout.split("\n") if line], done.stderr


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Tokenizers(unittest.TestCase):
    maxDiff = 2000

    def test_decoding_is_that_of_the_reference(self):
        for family in ["llama3_1", "mistral"]:
            lines = read(VECTORS / f"decode_{family}_a.jsonl")
            answers, _ = tokenize("--tokenizer", DATA / f"tokenizers/{family}.json", "--decode", lines=lines)
            self.assertEqual([a["decoded"] for a in answers], [line["decoded"] for line in lines], family)

    def test_offsets_are_those_of_the_reference(self):
        if shutil.which("node") is None:
            self.skipTest("node is missing")
        for family in WITH_OFFSETS:
            path = VECTORS / f"vectors_{family}_a.jsonl"
            file = DATA / f"tokenizers/{family}.json"
            ours, _ = tokenize("--tokenizer", file, "--offsets", lines=[{"text": line["text"]} for line in read(path)])
            reference = subprocess.run(
                ["node", SOURCE / "tests/bench/reference_tokenizer.cjs", DATA / "reference/tokenizers.node", file, path,
                 "encode"], check=True, capture_output=True, text=True, encoding="utf-8").stdout.split("\n")
            for number, (answer, line) in enumerate(zip(ours, reference), 1):
                expected = json.loads(line)
                self.assertEqual(answer["ids"], expected["ids"], f"{family} line {number}")
                for got, wanted in zip(answer["offsets"], expected["offsets"]):
                    if family in COMPOSING:
                        self.assertTrue(got[0] <= wanted[0] and wanted[1] <= got[1], f"{family} line {number}")
                    else:
                        self.assertEqual(got, wanted, f"{family} line {number}")

    def test_a_model_s_folder_serves_as_well_as_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(DATA / "tokenizers/olmo2style.json", f"{folder}/tokenizer.json")
            answers, _ = tokenize("--model", folder, lines=[{"text": "tiktoken is great!"}])
        # As published for cl100k_base, whose vocabulary the file holds.
        self.assertEqual(answers, [{"ids": [83, 1609, 5963, 374, 2294, 0], "decoded": "tiktoken is great!"}])

    def test_a_line_that_is_no_text_ends_the_run_and_is_named(self):
        file = DATA / "tokenizers/mistral.json"
        good = {"text": "a"}
        for line, cause in [("", "line 2: is not JSON in UTF-8"), ("[1]", "line 2: is not a JSON object"),
                            ('{"text": 3}', 'line 2: is not {"text": "..."}'),
                            ('{"text": "\\ud800"}', "line 2: is not JSON in UTF-8")]:
            answers, errors = tokenize("--tokenizer", file, lines=[good, line, good], code=2)
            self.assertEqual(len(answers), 1)
            self.assertEqual(errors, f"ropelab-worker tokenize: {cause}\n")
        _, errors = tokenize("--tokenizer", file, "--decode", lines=['{"ids": [1, 32000]}'], code=2)
        self.assertEqual(errors, "ropelab-worker tokenize: line 1: token id 32000 is outside the vocabulary of 32000\n")
        _, errors = tokenize("--tokenizer", "/nowhere.json", lines=[good], code=1)
        self.assertEqual(errors, "ropelab-worker tokenize: /nowhere.json: no such file\n")
        _, errors = tokenize(lines=[good], code=2)
        self.assertEqual(errors, "ropelab-worker tokenize: give --model DIR or --tokenizer FILE\n")

    def test_input_and_output_that_cannot_be(self):
        worker, file = [BIN / "ropelab-worker", "tokenize", "--tokenizer"], DATA / "tokenizers/mistral.json"
        folder = os.open("/", os.O_RDONLY)
        self.addCleanup(os.close, folder)
        done = subprocess.run([*worker, file], stdin=folder, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (2, "ropelab-worker tokenize: line 1: cannot be read from standard "
                                                             "input: Is a directory\n"))
        with open("/dev/full", "w") as full:
            done = subprocess.run([*worker, file], input='{"text": "a"}\n', stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr), (1, "ropelab-worker tokenize: standard output cannot be written\n"))
        # A line without an end is refused while it still fits into memory.
        with open("/dev/zero", "rb") as zero:
            done = subprocess.run([*worker, file], stdin=zero, capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (2, "ropelab-worker tokenize: line 1: is longer than 403701760 bytes; "
                                                             "give one object a line\n"))

    def test_a_word_of_a_megabyte_takes_less_than_a_second(self):
        def processor_seconds(text):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            answers, _ = tokenize("--tokenizer", DATA / f"tokenizers/{family}.json", "--no-special", lines=[{"text": text}])
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.assertEqual(answers[0]["decoded"], text)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

        for family in ["llama3_1", "mistral", "gemma3"]:
            load = processor_seconds("a")
            seconds = processor_seconds("a" * (1 << 20)) - load
            print(f"{family:18} 1 MiB in one word: {seconds:.2f} s of one core beyond {load:.2f} s of starting and loading")
            self.assertLess(seconds, 1.0)


if __name__ == "__main__":
    need_data()
    unittest.main(verbosity=2)
