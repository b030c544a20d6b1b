"""Token ids and texts of every reference line, from the tokenizer files that setup/fetch-test-data brings: what Hugging Face's own
library said is in vectors_NAME_*.jsonl (ids without and with special tokens, text again) and decode_NAME_*.jsonl."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

from harness import BIN, FIXTURES, SKIPPED, SOURCE

DATA = pathlib.Path(os.environ.get("ROPELAB_TEST_DATA", SOURCE / "build/test-data"))
WRONG_LINES_SHOWN = 5


def need_data():
    """Fetches what is missing. In CI nothing may be."""
    if not (FIXTURES / "tokenizers").is_dir():
        print(f"skipped: no reference data at {FIXTURES} (ROPELAB_FIXTURES names another place)")
        os._exit(1 if "CI" in os.environ else SKIPPED)
    fetched = subprocess.run([SOURCE / "setup/fetch-test-data", DATA, "--only", "tokenizers"])
    if fetched.returncode != 0:
        print("skipped: the tokenizers could not be fetched" if fetched.returncode == SKIPPED else "the fetch failed")
        sys.stdout.flush()
        os._exit(1 if "CI" in os.environ else fetched.returncode)


def lines_of(name, kind):
    """The lines of a tokenizer's reference files, as (file, number, object)."""
    for file in sorted((FIXTURES / "tokenizers").glob(f"{kind}_{name}_?.jsonl")):
        with open(file, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                yield file.name, number, json.loads(line)


def answers(command, requests):
    """One JSON answer a line for one JSON request a line."""
    text = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([str(part) for part in command], input=text.encode(), capture_output=True)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}: {done.stderr.decode(errors='replace')}")
    found = [json.loads(line) for line in done.stdout.decode("utf-8").split("\n") if line]
    if len(found) != len(requests):
        raise AssertionError(f"{command} gave {len(found)} answers for {len(requests)} lines")
    return found


class TokenizerTexts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_data()
        cls.names = sorted(file.stem for file in (DATA / "tokenizers").glob("*.json"))

    def compare(self, name, what, lines, found, expected):
        wrong = [(file, number) for (file, number, line), got in zip(lines, found) if got != expected(line)]
        print(f"{name:18} {what:22} {len(lines)} lines, {len(wrong)} wrong")
        self.assertTrue(lines, f"no {what} for {name}")
        self.assertFalse(wrong, f"{name}, {what}: first wrong lines {wrong[:WRONG_LINES_SHOWN]}")

    def test_ids(self):
        for name in self.names:
            with self.subTest(name):
                lines = list(lines_of(name, "vectors"))
                texts = [{"text": line["text"]} for _, _, line in lines]
                tokenize = [BIN / "ropelab-worker", "tokenize", "--tokenizer", DATA / "tokenizers" / f"{name}.json"]
                bare = answers(tokenize + ["--no-special", "--offsets"], texts)
                self.compare(name, "ids", lines, [got["ids"] for got in bare], lambda line: line["ids"])
                self.compare(name, "decoded", lines, [got["decoded"] for got in bare], lambda line: line["decoded"])
                special = answers(tokenize, texts)
                self.compare(name, "ids with special", lines, [got["ids"] for got in special], lambda line: line["ids_special"])
                for (file, number, line), got in zip(lines, bare):
                    self.assertEqual(len(got["offsets"]), len(got["ids"]), (file, number))
                    for begin, end in got["offsets"]:
                        self.assertTrue(0 <= begin <= end <= len(line["text"]), (file, number, begin, end))

    def test_decoding(self):
        for name in self.names:
            with self.subTest(name):
                lines = list(lines_of(name, "decode"))
                requests = [{"ids": line["ids"], "skip_special": line["skip_special"]} for _, _, line in lines]
                found = answers([BIN / "tokenizer_texts_decode", DATA / "tokenizers" / f"{name}.json"], requests)
                self.compare(name, "decode", lines, found, lambda line: line["decoded"])


if __name__ == "__main__":
    unittest.main()
