"""Planted truth at the edge. Plants COUNT random checkpoints in each of fp32, bf16 and fp16, every one at the least strength that
`ropelab-worker plant` names for it, and asks the service for their heads.

  rows COMMON, offsets 0 to 5N/6:      exactly the planted (layer, head, offset) are dominant;
  rows ALL, the large regime's range:  heads planted there have their best offset where it was planted, all others have none;
  rows ALL, offsets 0 to 4:            the same for heads planted there; heads planted far away are not looked at, since rows that do
                                       not reach the planted offset look where they can.

The three dtypes of a planting are the same planting. Every draw hangs on --seed alone.
"""

import argparse
import math
import pathlib
import random
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from harness import BIN, Lab  # noqa: E402

DTYPES = ["float32", "bfloat16", "float16"]
LENGTHS = [512, 1024, 2048]
NEAR = 5  # offsets of the small regime


class Planting:
    def __init__(self, number, seed):
        draw = random.Random(seed * 100_003 + number)
        self.number = number
        self.tokens = draw.choice(LENGTHS)
        self.head_dim = draw.choice([16, 32, 64, 128])
        self.kv_heads = draw.choice([1, 2, 4])
        self.heads = self.kv_heads * draw.choice([1, 1, 2, 4])  # half of them without grouped queries
        self.layers = draw.randint(1, 3)
        self.base = draw.choice([10_000.0, 10_000.0, 500_000.0])
        places = [(layer, head) for layer in range(self.layers) for head in range(self.heads)]
        self.far = range(-(-self.tokens // 12), 5 * self.tokens // 6 + 1)
        self.offsets = {}
        for place in draw.sample(places, draw.randint(1, max(1, len(places) // 2))):
            self.offsets[place] = draw.choice(self.far) if draw.random() < 0.6 else draw.randrange(NEAR)

    def least(self):
        """ln(2 / kappa) over the least fall of the logit at another lag, in units of A."""
        half = self.head_dim // 2
        theta = [self.base ** (-pair / half) for pair in range(half)]
        fall = min(sum(1 - math.cos(t * lag) for t in theta) for lag in range(1, self.tokens))
        return math.log(2 * self.tokens / 6) / fall

    def command(self, out, dtype, *more):
        slashes = [part for (layer, head), offset in self.offsets.items() for part in ("--slash", f"{layer}:{head}:{offset}")]
        return [str(part) for part in [
            BIN / "ropelab-worker", "plant", "--out", out, "--layers", self.layers, "--heads", self.heads, "--kv-heads",
            self.kv_heads, "--head-dim", self.head_dim, "--vocab", 64, "--context", self.tokens, "--dtype", dtype,
            "--rope-theta", self.base, "--seed", self.number, *slashes, *more]]

    def plant(self, out, dtype):
        """At the least strength that the command names, which must be this file's too; gives that strength."""
        said = subprocess.run(self.command(out, dtype), check=True, capture_output=True, text=True).stdout
        named = float(re.search(r"\(minimum (\S+) for", said)[1])
        assert abs(named - self.least()) <= 2e-5 * named, f"{self}: plant says {named}, here it is {self.least()}"
        strength = named * (1 + 1e-5)  # it prints six digits
        subprocess.run(self.command(out, dtype, "--strength", strength), check=True, capture_output=True)
        return strength

    def __str__(self):
        slashes = " ".join(f"{layer}:{head}:{offset}" for (layer, head), offset in sorted(self.offsets.items()))
        return (f"planting {self.number} (N {self.tokens}, D {self.head_dim}, {self.layers} layers, {self.heads}/{self.kv_heads} heads, "
                f"base {self.base:g}; {slashes})")


def study(tokens, models):
    names = ", ".join(f'"{name}"' for name in models)
    prompts = f"prompts {{ uniform_tokens {{ count: 2 tokens: {tokens} }} }}"
    return f"""
name: "planted"
models: [{names}]
experiments {{ name: "common" slash_detection {{ {prompts} offsets {{ first: 0 last: {5 * tokens // 6} }} threshold: {6 / tokens!r}
                                              rows: COMMON }} }}
experiments {{ name: "far" slash_detection {{ {prompts} regime: LARGE rows: ALL }} }}
experiments {{ name: "near" slash_detection {{ {prompts} regime: SMALL rows: ALL }} }}
"""


def best_offsets(rows):
    """(layer, head) -> best offset, None where the head is not dominant; per model."""
    found = {}
    for row in rows:
        best = int(row["best_offset"]) if row["dominant"] == "true" else None
        found.setdefault(row["model"], {})[int(row["layer"]), int(row["head"])] = best
    return found


def check(lab, experiments, plantings):
    """`plantings`: model -> planting. Gives a line for each that is not as it should be."""
    common, far, near = experiments
    triples = {model: set() for model in plantings}
    margins = {model: [math.inf, 0.0] for model in plantings}  # least planted, largest other score, in thresholds
    for row in lab.table(common, "slash_scores"):
        planting = plantings[row["model"]]
        place = (int(row["layer"]), int(row["head"]))
        offset, score = int(row["offset"]), float(row["score"]) * planting.tokens / 6
        if row["dominant"] == "true":
            triples[row["model"]].add((*place, offset))
        margin = margins[row["model"]]
        if planting.offsets.get(place) == offset:
            margin[0] = min(margin[0], score)
        else:
            margin[1] = max(margin[1], score)
    far_best, near_best = (best_offsets(lab.table(experiment, "slash_heads")) for experiment in (far, near))
    problems = []
    for model, planting in plantings.items():
        wanted = {(*place, offset) for place, offset in planting.offsets.items()}
        if triples[model] != wanted:
            problems.append(f"{model}, COMMON: lacks {sorted(wanted - triples[model])}, has besides {sorted(triples[model] - wanted)}; {planting}")
        for place, best in far_best[model].items():
            offset = planting.offsets.get(place, -1)
            if best != (offset if offset in planting.far else None):
                problems.append(f"{model}, ALL: L{place[0]}H{place[1]} has its best far offset at {best}, not {offset}; {planting}")
        for place, best in near_best[model].items():
            offset = planting.offsets.get(place)
            if (offset is None or offset < NEAR) and best != offset:
                problems.append(f"{model}, ALL: L{place[0]}H{place[1]} has its best near offset at {best}, not {offset}; {planting}")
    return problems, margins


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plantings", type=int, default=50, help="of each dtype")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    problems, margins = [], {}
    with Lab("", worker_flags=["--threads", "1"]) as lab:
        groups = {}
        for number in range(options.plantings):
            planting = Planting(number, options.seed)
            for dtype in DTYPES:
                model = f"p{number}-{dtype}"
                planting.plant(lab.models / model, dtype)
                groups.setdefault(planting.tokens, {})[model] = planting
        lab.start_worker("w1")
        for tokens, plantings in sorted(groups.items()):
            found, margin = check(lab, lab.submit(study(tokens, plantings), seconds=1800), plantings)
            problems += found
            margins.update(margin)
            print(f"N = {tokens}: {len(plantings)} models, {len(found)} problems", flush=True)
    for dtype in DTYPES:
        of = [margin for model, margin in margins.items() if model.endswith(dtype)]
        print(f"{dtype}: least planted score {min(m[0] for m in of):.1f} thresholds, largest other {max(m[1] for m in of):.3f}")
    planted = sum(len(Planting(number, options.seed).offsets) for number in range(options.plantings))
    print("\n".join(problems) if problems else
          f"{options.plantings} plantings of {planted} heads in {len(DTYPES)} dtypes: all as planted, in {time.monotonic() - began:.0f} s")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
