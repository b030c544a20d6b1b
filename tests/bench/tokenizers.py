#!/usr/bin/env python3
"""Tokenizing speed beside Hugging Face's tokenizers library, one thread each, in one run.

  tests/bench/tokenizers.py [--megabytes 10] [NAME...]     NAME: a file of build/test-data/tokenizers; three without

English is Moby Dick over and over, a chapter a document; the mixed scripts are lines of the reference data's texts in
random order, some 8 KB a document. The best of three rounds counts. Exit code 1 when the reference is faster anywhere.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("ROPELAB_BIN", SOURCE / "build/release/bin"))
FIXTURES = pathlib.Path(os.environ.get("ROPELAB_FIXTURES", SOURCE.parent / "shared/fixtures"))
DATA = SOURCE / "build/test-data"
ROUNDS = 3


def english(bytes_wanted):
    chapters = [json.loads(line)["text"] for line in open(DATA / "corpora/moby-dick.jsonl", encoding="utf-8")]
    size = sum(len(chapter.encode()) for chapter in chapters)
    return chapters * max(1, round(bytes_wanted / size))


def mixed_scripts(bytes_wanted):
    lines = [json.loads(line)["text"]
             for line in open(FIXTURES / "tokenizers/vectors_llama3_a.jsonl", encoding="utf-8")]
    lines = [line for line in lines if "<" not in line and len(line) < 400]
    draw = random.Random(1)
    documents = []
    while bytes_wanted > 0:
        document = "\n".join(draw.choices(lines, k=160))
        documents.append(document)
        bytes_wanted -= len(document.encode())
    return documents


def measure(command):
    environment = {**os.environ, "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("names", nargs="*", default=["llama3_1", "qwen3", "mistral"])
    arguments = parser.parse_args()
    subprocess.run([sys.executable, SOURCE / "setup/fetch-test-data"], check=True)
    texts = {"english": english(arguments.megabytes * 1e6)}
    if (FIXTURES / "tokenizers").is_dir():
        texts["mixed scripts"] = mixed_scripts(arguments.megabytes * 1e6)
    slower = 0
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'tokenizer':18}{'text':15}{'MB':>6}{'tokens':>10}{'ropelab MB/s':>14}{'reference MB/s':>16}{'times':>7}")
        for kind, documents in texts.items():
            path = pathlib.Path(folder) / "documents.jsonl"
            path.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
            for name in arguments.names:
                file = DATA / f"tokenizers/{name}.json"
                ours = measure([BIN / "tokenizer_speed", file, path, str(ROUNDS)])
                theirs = measure(["node", SOURCE / "tests/bench/reference_tokenizer.cjs", DATA / "reference/tokenizers.node",
                                  file, path, "speed", str(ROUNDS)])
                assert ours["tokens"] == theirs["tokens"], (name, ours, theirs)
                speeds = [result["bytes"] / 1e6 / min(result["seconds"]) for result in (ours, theirs)]
                slower += speeds[0] < speeds[1]
                print(f"{name:18}{kind:15}{ours['bytes'] / 1e6:6.1f}{ours['tokens']:10}{speeds[0]:14.1f}{speeds[1]:16.2f}"
                      f"{speeds[0] / speeds[1]:7.1f}", flush=True)
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
