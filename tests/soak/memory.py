"""The server's and the worker's memory and open files stay bounded through many tasks and many watches that are broken off."""

import argparse
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import raw_client  # noqa: E402
from harness import FIXTURES, Lab, need_fixtures  # noqa: E402

SPEC = """name: "memory" model: "stories260K" dtype: FLOAT32 seeds: {}
          slash_detection {{ prompts {{ uniform_tokens {{ count: {} tokens: 32 }} }} }}"""


def resident_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tasks", type=int, default=400, help="of each round")
    parser.add_argument("--watches", type=int, default=40, help="of each round")
    parser.add_argument("--most-megabytes", type=float, default=24, help="growth after the second round")
    options = parser.parse_args()
    need_fixtures()
    raw_client.need_grpc()
    modules = raw_client.load()
    with Lab(FIXTURES / "models", worker_flags=["--threads", "1"]) as lab:
        lab.start_worker("w1")
        pids = {"server": lab.server.child.pid, "worker": lab.workers["w1"].child.pid}
        start = {}
        for number in range(options.rounds):
            (experiment,) = lab.submit(SPEC.format(number, 8 * options.tasks))
            raw = raw_client.Raw(lab.address, modules)
            request = modules["experiment_service"].WatchRequest(id=experiment).SerializeToString()
            for _ in range(options.watches):
                watch = raw.channel.unary_stream("/ropelab.v1.ExperimentService/Watch")(request)
                next(iter(watch))
                watch.cancel()
            raw.close()
            now = {name: (resident_bytes(pid), len(os.listdir(f"/proc/{pid}/fd"))) for name, pid in pids.items()}
            print(f"round {number + 1}: " + ", ".join(f"{n} {m / 2**20:.1f} MiB, {f} files" for n, (m, f) in now.items()), flush=True)
            if number == 1:
                start = now
        for name, (memory, files) in now.items():
            grown = (memory - start[name][0]) / 2**20
            assert grown < options.most_megabytes, f"the {name} grew by {grown:.1f} MiB"
            assert files < start[name][1] + 20, f"the {name} has {files} files open, {start[name][1]} at the start"


if __name__ == "__main__":
    main()
