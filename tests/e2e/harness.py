"""Starts the real binaries in a folder of their own and talks to them as a person would: through the `ropelab` command.

Needs Python's standard library only; numpy where a test compares numbers.
"""

import csv
import io
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("ROPELAB_BIN", SOURCE / "build/release/bin"))
FIXTURES = pathlib.Path(os.environ.get("ROPELAB_FIXTURES", SOURCE.parent / "shared/fixtures"))
SKIPPED = 77  # ctest's SKIP_RETURN_CODE


def need_fixtures():
    if not (FIXTURES / "models").is_dir():
        print(f"skipped: no reference data at {FIXTURES} (ROPELAB_FIXTURES names another place)")
        # In CI it must be there.
        os._exit(1 if "CI" in os.environ else SKIPPED)


class Process:
    """A child with its standard output and log in files; `ready` lines are read from the first."""

    def __init__(self, name, command, folder):
        self.name = name
        self.command = [str(part) for part in command]
        self.out = folder / f"{name}.out"
        self.log = folder / f"{name}.log"
        self.child = None

    def start(self):
        with open(self.out, "wb") as out, open(self.log, "ab") as log:
            self.child = subprocess.Popen(self.command, stdout=out, stderr=log, stdin=subprocess.DEVNULL)
        return self

    def wait_for(self, word, seconds=60):
        """The last word of the first line of standard output that starts with `word`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for line in self.out.read_text().splitlines():
                if line.startswith(word):
                    return line.split()[-1]
            if self.child.poll() is not None:
                break
            time.sleep(0.01)
        raise AssertionError(f"{self.name} never said '{word}' (exit {self.child.poll()}):\n{self.tail()}")

    def tail(self, lines=30):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def kill(self):
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()

    def stop(self, seconds=20):
        if self.child is None or self.child.poll() is not None:
            return
        self.child.send_signal(signal.SIGCONT)
        self.child.terminate()
        try:
            self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not end within {seconds} s of SIGTERM:\n{self.tail()}")


class Lab:
    """A server with its workers in a temporary folder. Use as a context manager."""

    def __init__(self, models, server_flags=(), worker_flags=(), keep=False):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ropelab-e2e-"))
        self.models = models or self.folder / "models"  # "" is a folder of its own, empty at first
        pathlib.Path(self.models).mkdir(exist_ok=True)
        self.server_flags = list(server_flags)
        self.worker_flags = list(worker_flags)
        self.keep = keep
        self.server = None
        self.workers = {}
        self.address = None
        self.data = self.folder / "data"

    def __enter__(self):
        self.start_server("127.0.0.1:0")
        return self

    def __exit__(self, kind, *_):
        try:
            for worker in self.workers.values():
                worker.stop()
            self.server.stop()
        finally:
            if kind is None and not self.keep:
                shutil.rmtree(self.folder, ignore_errors=True)
            else:
                print(f"what this run left: {self.folder}")

    def start_server(self, address):
        flags = ["--data-dir", self.data, "--listen", address, "--metrics", "127.0.0.1:0", *self.server_flags]
        self.server = Process("server", [BIN / "ropelab-server", *flags], self.folder).start()
        self.address = self.server.wait_for("listening")

    def start_worker(self, name, wait=True, server=None):
        flags = ["--server", server or self.address, "--models", self.models, "--id", name, "--cache-dir", self.folder / "cache"]
        worker = Process(name, [BIN / "ropelab-worker", *flags, *self.worker_flags], self.folder).start()
        self.workers[name] = worker
        if wait:
            worker.wait_for("ready")
        return worker

    def client(self, *arguments, expect=0, seconds=600):
        command = [str(BIN / "ropelab"), "--server", self.address, *[str(a) for a in arguments]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL)
        if expect is not None and done.returncode != expect:
            raise AssertionError(
                f"{' '.join(command)} ended with {done.returncode}, not {expect}:\n{done.stdout}\n{done.stderr}\n"
                f"server log:\n{self.server.tail()}")
        return done

    def write_spec(self, text, name="spec.textproto"):
        path = self.folder / name
        path.write_text(text)
        return path

    def submit(self, spec_text, wait=True, expect=0, seconds=600):
        """Ids of the experiments, a study's own id left out."""
        spec = self.write_spec(spec_text)
        done = self.client("submit", spec, *(["--wait"] if wait else []), expect=expect, seconds=seconds)
        return [line.strip() for line in done.stdout.splitlines() if line.strip().startswith("e")]

    def table(self, experiment, name):
        """Rows as dictionaries of text."""
        text = self.client("results", experiment, "--table", name, "--format", "csv").stdout
        return list(csv.DictReader(io.StringIO(text)))

    def csv_bytes(self, experiment, name):
        return self.client("results", experiment, "--table", name, "--format", "csv").stdout.encode()

    def json(self, *arguments):
        return json.loads(self.client("--json", *arguments).stdout)

    def database(self):
        connection = sqlite3.connect(f"file:{self.data / 'ropelab.db'}?mode=ro", uri=True, timeout=2)
        return connection


def read_safetensors(path):
    """Name -> numpy array; an own reader, so that what our writer writes is checked by something else."""
    import numpy

    kinds = {"F32": numpy.float32, "F64": numpy.float64, "I64": numpy.int64, "I32": numpy.int32, "F16": numpy.float16}
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[8 + length + begin : 8 + length + end]
        if entry["dtype"] == "BF16":  # the upper half of a float32
            widened = numpy.frombuffer(raw, numpy.uint16).astype(numpy.uint32) << 16
            tensors[name] = widened.view(numpy.float32).reshape(entry["shape"])
        else:
            tensors[name] = numpy.frombuffer(raw, kinds[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def peak_memory_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")
