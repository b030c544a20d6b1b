"""Loads generated checkpoints of 2 GiB and compares the worker's peak of resident memory, mapped pages of files counted, with the
bound: the model's bytes in the dtype it is computed in, one layer more, and a tenth. Prints load times beside those of `cat`.
"""

import argparse
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from checkpoint_files import SIZES, Shape, write_checkpoint  # noqa: E402
from harness import BIN  # noqa: E402

MIB = 1 << 20
# (dtype of the file, dtypes that it is loaded in, shards, bytes off a multiple of 64)
CASES = [("bfloat16", ["bfloat16", "float32"], 1, 0),
         ("bfloat16", ["bfloat16", "float32"], 3, 1),
         ("float32", ["float32", "bfloat16"], 2, 0),
         ("float32", ["float32", "bfloat16"], 1, 3)]


def shape_of(dtype, megabytes):
    """A llama of about that size: layers of 20 to 60 million parameters."""
    hidden = 2048 if megabytes >= 1000 else 512
    shape = Shape(1, hidden, hidden // 128, max(hidden // 256, 1), 4 * hidden, 32000 if hidden == 2048 else 8000)
    rest = megabytes * MIB / SIZES[dtype] - shape.vocabulary * hidden
    shape.layers = max(round(rest / shape.layer_parameters()), 1)
    return shape


def forget(folder):
    """Puts the files out of the page cache."""
    for path in folder.glob("*.safetensors"):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cat(folder):
    began = time.monotonic()
    for path in folder.glob("*.safetensors"):
        subprocess.run(f"cat '{path}' > /dev/null", shell=True, check=True)
    return time.monotonic() - began


def inspect(folder, dtype, out):
    """Peak of resident bytes of a process that loads the model and runs three tokens through it, and the seconds it took."""
    command = [str(BIN / "ropelab-worker"), "inspect", "--model", str(folder), "--token-ids", "1,5,9", "--dump", "hidden", "--dtype",
               dtype, "--out", str(out)]
    began = time.monotonic()
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    log = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        raise AssertionError(f"{' '.join(command)} ended with {status}:\n{log}")
    return usage.ru_maxrss * 1024, time.monotonic() - began, log


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=2048, help="of each checkpoint")
    parser.add_argument("--base-megabytes", type=int, default=0,
                        help="of the process itself, which the tenth of a small checkpoint does not cover")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ropelab-big-", dir=os.environ.get("TMPDIR", "/var/tmp")))
    failures = 0
    try:
        for number, (stored, loaded_as, shards, odd) in enumerate(CASES):
            shape = shape_of(stored, options.megabytes)
            place = folder / f"m{number}"
            size = write_checkpoint(place, shape, stored, shards, odd)
            print(f"{stored}, {size / MIB:.0f} MiB in {shards} file(s), {'unaligned' if odd else 'aligned'}, {shape.layers} layers",
                  flush=True)
            forget(place)
            cold_cat = cat(place)
            warm_cat = cat(place)
            for dtype in loaded_as:
                times = {}
                for state in ("cold", "warm"):
                    if state == "cold":
                        forget(place)
                    peak, _, log = inspect(place, dtype, folder / "out.safetensors")
                    found = re.search(r"(\d+) bytes of weights read in ([0-9.]+) s", log)
                    times[state] = float(found.group(2)) if found else float("nan")
                model = shape.parameters() * SIZES[dtype]
                layer = shape.layer_parameters() * SIZES[dtype]
                bound = (model + layer) * 1.0 + model * 0.1 + options.base_megabytes * MIB
                verdict = "within" if peak <= bound else "BEYOND"
                failures += peak > bound
                rate = {state: size / 1e9 / seconds for state, seconds in times.items()}
                print(f"  as {dtype}: peak {peak / MIB:.0f} MiB {verdict} the bound of {bound / MIB:.0f} (model {model / MIB:.0f}, layer "
                      f"{layer / MIB:.0f}); load cold {rate['cold']:.2f}, warm {rate['warm']:.2f} GB/s of the file; cat cold "
                      f"{size / 1e9 / cold_cat:.2f}, warm {size / 1e9 / warm_cat:.2f}", flush=True)
            shutil.rmtree(place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert failures == 0, f"{failures} loads took more memory than they may"


if __name__ == "__main__":
    main()
