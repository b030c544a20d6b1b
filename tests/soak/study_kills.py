"""Same study, same bytes, under kills. Runs the slash paper's whole chain on a real trained model, one experiment of every kind that
measures it: a detection with maps, out-of-distribution ratios, ranks with the vocabulary and views, frequencies with removals, low-rank
projections, and a shallow transformer's training
  - with one worker, undisturbed;
  - with three, undisturbed;
  - in ROUNDS rounds with three, while workers and the server are killed (killing.py),
each in a new data folder and with the same --threads, and compares the csv of every table and every artifact, byte for byte.
"""

import argparse
import hashlib
import sys

from killing import Runs, add_options, compare  # first: it finds the folder of the next
from harness import FIXTURES, Lab, need_fixtures

# Tables and artifacts that the study must have, or a run compares less than it says.
TABLES = {"slash_scores", "slash_heads", "ood_ratios", "spectra", "alignment", "norms", "frequencies", "fits", "removal_ratios", "conditions",
          "series", "statistics"}
ARTIFACTS = {"maps.safetensors", "views.safetensors", "heat_maps.safetensors"}


def spec(count, tokens):
    prompts = f"prompts {{ sampled {{ count: {count} tokens: {tokens} temperature: 1.0 bos: ALWAYS }} }}"
    found = 'heads { slash_dominant { experiment: "detect" } }'
    best = 'heads { slash_dominant { experiment: "detect" top: 8 } }'
    return f"""
name: "under kills"
model: "stories260K"
dtype: FLOAT32
experiments {{
  name: "detect"
  slash_detection {{ {prompts} regime: SMALL maps {{ heads {{ list {{ head {{ layer: 0 head: 6 }} head {{ layer: 1 head: 3 }} }} }} }} }}
}}
experiments {{
  name: "ood"
  ood_test {{ detection {{ {prompts} regime: SMALL }} out_of_distribution {{ uniform_tokens {{ count: {count} tokens: {tokens} }} }} }}
}}
experiments {{ name: "ranks" rank_analysis {{ {found} {prompts} vocabulary: true block: 64 hidden_view: PCA }} }}
experiments {{ name: "frequencies" frequency_analysis {{ {found} {prompts} removals {{ bands: true each_pair: true }} removals {{ pairs: [1, 4] }} }} }}
experiments {{ name: "low rank" low_rank {{ {best} ranks: [1, 4] perplexity {{ {prompts} }} }} }}
experiments {{
  name: "training"
  shallow_training {{ pairs: 12 stage1 {{ steps: 30 }} stage2 {{ steps: 60 }} counter_experiments: true }}
}}
"""


def digests(lab, experiments):
    """SHA-256 over the csv of every table and over every artifact of all experiments."""
    whole = hashlib.sha256()
    tables, artifacts = set(), set()
    for experiment in experiments:
        listing = lab.json("results", experiment)
        for name in sorted(table["name"] for table in listing["tables"]):
            text = lab.csv_bytes(experiment, name)
            assert len(text.splitlines()) > 1, f"{name} of {experiment} is empty"
            whole.update(name.encode() + b"\n" + text)
            tables.add(name)
        for name in sorted(artifact["name"] for artifact in listing["artifacts"]):
            path = lab.folder / name
            lab.client("results", experiment, "--artifact", name, "-o", path)
            whole.update(name.encode() + b"\n" + path.read_bytes())
            path.unlink()
            artifacts.add(name)
    assert tables == TABLES and artifacts == ARTIFACTS, (TABLES ^ tables, ARTIFACTS ^ artifacts)
    return (whole.hexdigest(),)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, rounds=5, seconds=40, worker_hits=10, server_hits=3)
    parser.add_argument("--prompts", type=int, default=640)
    parser.add_argument("--tokens", type=int, default=256, help="of a prompt")
    options = parser.parse_args()
    need_fixtures()
    one, problems = compare(Runs(spec(options.prompts, options.tokens), lambda flags: Lab(
        FIXTURES / "models", server_flags=flags, worker_flags=["--threads", str(options.threads)]), digests), options)
    print("\n".join(problems) if problems else f"{options.rounds} rounds, one digest: {one[0]}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
