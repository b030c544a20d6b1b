"""Same spec, same bytes, under kills. Runs one study on a real trained model, with prompts that it samples, uniform ones and ones from
a corpus,
  - with one worker, undisturbed;
  - with three, undisturbed;
  - in ROUNDS rounds with three, while workers and the server are killed with SIGKILL and started again at once with the same
    port, folder and id,
each in a new data folder and with the same --threads, and compares the csv of every table, byte for byte. The digest of a line is
over the sampled and the uniform prompts; the corpus's own stands in the last line.

A kill counts as a hit as killing.py says.
"""

import argparse
import hashlib
import json
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from byte_bpe import ByteBpe  # noqa: E402
from harness import FIXTURES, Lab, need_fixtures  # noqa: E402
from invented import invented_texts  # noqa: E402
from killing import Runs, add_options, compare  # noqa: E402

TABLES = ["slash_scores", "slash_heads", "statistics"]
CORPUS_TOKENS = 400


class Place:
    """What all runs read: the model as it is, a copy of it that has a tokenizer, and a corpus with documents that are too short."""

    def __init__(self, folder, prompts):
        self.models = folder / "models"
        self.corpus = folder / "tales.jsonl"
        texts = invented_texts(8 * prompts)
        for name in ["stories260K", "stories-with-tokenizer"]:
            shutil.copytree(FIXTURES / "models/stories260K", self.models / name)
        (self.models / name).chmod(0o755)
        (self.models / name / "tokenizer.json").write_text(ByteBpe.learned("\n".join(texts[:60]), 100).json())
        with self.corpus.open("w") as file:
            for i in range(0, len(texts), 4):
                file.write(json.dumps({"text": " ".join(texts[i:i + 4])}) + "\n")

    def lab(self, threads, server_flags=()):
        return Lab(self.models, server_flags=server_flags, worker_flags=["--threads", str(threads)])


def spec(sampled, uniform, corpus):
    return f"""
name: "under kills"
model: "stories260K"
dtype: FLOAT32
experiments {{
  name: "sampled"
  slash_detection {{ prompts {{ sampled {{ count: {sampled} tokens: 512 temperature: 1.0 bos: ALWAYS }} }} regime: LARGE rows: COMMON }}
}}
experiments {{
  name: "uniform"
  slash_detection {{ prompts {{ uniform_tokens {{ count: {uniform} tokens: 512 bos: ALWAYS }} }} regime: LARGE rows: ALL all_offsets: true }}
}}
experiments {{
  name: "corpus"
  model: "stories-with-tokenizer"
  slash_detection {{ prompts {{ corpus {{ name: "tales" count: {corpus} tokens: {CORPUS_TOKENS} }} }} regime: LARGE rows: COMMON }}
}}
"""


def digests(lab, experiments):
    """SHA-256 over the csv of every table: of the sampled and the uniform prompts together, and of the corpus's."""
    found = []
    for part in (experiments[:2], experiments[2:]):
        whole = hashlib.sha256()
        for experiment in part:
            for table in TABLES:
                text = lab.csv_bytes(experiment, table)
                assert len(text.splitlines()) > 1, f"{table} of {experiment} is empty"
                whole.update(text)
        found.append(whole.hexdigest())
    return tuple(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, rounds=20, seconds=75, worker_hits=20, server_hits=5)
    parser.add_argument("--sampled", type=int, default=1264, help="prompts of the first experiment")
    parser.add_argument("--uniform", type=int, default=3616, help="prompts of the second")
    parser.add_argument("--corpus", type=int, default=480, help="prompts of the third")
    options = parser.parse_args()
    need_fixtures()
    with tempfile.TemporaryDirectory(prefix="ropelab-kills-") as folder:
        sys.exit(run(options, Place(pathlib.Path(folder), options.corpus)))


def run(options, place):
    study = spec(options.sampled, options.uniform, options.corpus)
    one, problems = compare(Runs(study, lambda flags: place.lab(options.threads, flags), digests,
                                 prepare=lambda lab: lab.client("corpora", "add", "tales", place.corpus)), options)
    print("\n".join(problems) if problems else f"{options.rounds} rounds, one digest: {one[0]}\n"
          f"corpus prompts: one digest: {one[1]}")
    return 1 if problems else 0


if __name__ == "__main__":
    main()
