"""Same study, same bytes, under kills: the retrieval paper's whole chain as studies/retrieval/all.textproto has it, and a checkpoint sweep,
on models whose heads look at digits
  - with one worker, undisturbed;
  - with three, undisturbed;
  - in ROUNDS rounds with three, while workers and the server are killed (killing.py),
each in a new data folder and with the same --threads, and compares the csv of every table, byte for byte. With --trained the study runs as
it stands on the model that ships, needle-tiny itself, and no checkpoint sweep.
"""

import argparse
import hashlib
import re
import sys

from killing import Runs, add_options, compare  # first: it finds the folder of the next
from digit_model import write_digit_model
from harness import SOURCE, Lab

# Tables that the study must have, or a run compares less than it says.
TABLES = {"head_scores", "needle_samples", "utilities", "conditions", "outcomes", "comparisons", "series", "statistics"}
STEPS = [0, 1, 0, 1, 3, 3]  # heads that look at digits, checkpoint by checkpoint


def study():
    return (SOURCE / "studies/retrieval/all.textproto").read_text()


def spec(samples):
    text = re.sub(r"samples_per_cell: \d+", f"samples_per_cell: {samples}", study())
    points = " ".join(f'checkpoints {{ model: "step-{i}" }}' for i in range(len(STEPS)))
    return text + f"""experiments {{
  name: "training"
  checkpoint_sweep {{ {points} detection {{ needles {{ context_lengths: 256 depths: 0.5 samples_per_cell: {samples} haystack {{ generated {{}} }} }} }} }}
}}
"""


def digests(lab, experiments):
    """SHA-256 over the csv of every table of all experiments."""
    whole = hashlib.sha256()
    tables = set()
    for experiment in experiments:
        for name in sorted(table["name"] for table in lab.json("results", experiment)["tables"]):
            text = lab.csv_bytes(experiment, name)
            assert len(text.splitlines()) > 1, f"{name} of {experiment} is empty"
            whole.update(name.encode() + b"\n" + text)
            tables.add(name)
    assert tables == TABLES, TABLES ^ tables
    return (whole.hexdigest(),)


def make_lab(flags, threads):
    lab = Lab("", server_flags=flags, worker_flags=["--threads", str(threads)])
    write_digit_model(lab.models / "needle-tiny", 3, seed=0, positions=2048)
    for i, on in enumerate(STEPS):
        write_digit_model(lab.models / f"step-{i}", on, seed=i + 1, positions=2048)
    return lab


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, rounds=5, seconds=30, worker_hits=8, server_hits=3)
    parser.add_argument("--samples", type=int, default=64, help="per context length and depth, of every experiment")
    parser.add_argument("--trained", action="store_true", help="all.textproto on needle-tiny itself; minutes a run")
    options = parser.parse_args()
    if options.trained:
        runs = Runs(study(), lambda flags: Lab(SOURCE / "models", server_flags=flags, worker_flags=["--threads", str(options.threads)]), digests)
    else:
        runs = Runs(spec(options.samples), lambda flags: make_lab(flags, options.threads), digests)
    one, problems = compare(runs, options)
    print("\n".join(problems) if problems else f"{options.rounds} rounds, one digest: {one[0]}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
