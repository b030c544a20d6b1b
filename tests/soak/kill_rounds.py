"""Same spec, same bytes, under kills. Runs one study on a real trained model, with prompts that it samples, uniform ones and ones from
a corpus,
  - with one worker, undisturbed;
  - with three, undisturbed;
  - in ROUNDS rounds with three, while workers and the server are killed with SIGKILL and started again at once with the same
    port, folder and id,
each in a new data folder and with the same --threads, and compares the csv of every table, byte for byte. The digest of a line is
over the sampled and the uniform prompts; the corpus's own stands in the last line.

A kill counts as a hit if the process, stopped for 50 ms before it, has an attempt open in the database.
"""

import argparse
import hashlib
import json
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from byte_bpe import ByteBpe  # noqa: E402
from harness import BIN, FIXTURES, Lab, need_fixtures  # noqa: E402
from invented import invented_texts  # noqa: E402

WORKERS = ["w1", "w2", "w3"]
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


def open_attempts(lab, worker=None):
    """How many attempts (of one worker) the database holds open; None if it cannot be read at this instant."""
    try:
        connection = sqlite3.connect(f"file:{lab.data / 'ropelab.db'}?mode=ro", uri=True, timeout=0.2)
        try:
            where, values = ("AND worker = ?", (worker,)) if worker else ("", ())
            return connection.execute(f"SELECT count(*) FROM attempts WHERE outcome = 'running' {where}", values).fetchone()[0]
        finally:
            connection.close()
    except sqlite3.OperationalError:
        return None


def stop_look_kill(lab, process, worker=None):
    process.child.send_signal(signal.SIGSTOP)
    time.sleep(0.05)
    hit = bool(open_attempts(lab, worker))
    process.kill()
    return hit


def undisturbed(workers, place, study, threads):
    with place.lab(threads) as lab:
        lab.client("corpora", "add", "tales", place.corpus)
        for name in WORKERS[:workers]:
            lab.start_worker(name)
        started = time.monotonic()
        experiments = lab.submit(study, seconds=1800)
        seconds = time.monotonic() - started
        found = digests(lab, experiments)
        longest, tasks = lab.database().execute(
            "SELECT max(device_ms), count(*) FROM attempts WHERE outcome = 'finished'").fetchone()
        print(f"{workers} worker(s), undisturbed: {seconds:.1f} s, {tasks} tasks, longest {longest} ms, digest {found[0]}", flush=True)
        return found, seconds


def disturbed(number, place, study, threads, seed):
    """One round. Gives the digests, hits of workers and of the server."""
    chance = random.Random(seed)
    flags = ["--lease-seconds", "3", "--max-attempts", "100"]
    with place.lab(threads, flags) as lab:
        lab.client("corpora", "add", "tales", place.corpus)
        for name in WORKERS:
            lab.start_worker(name)
        experiments = lab.submit(study, wait=False)
        watch = subprocess.Popen([BIN / "ropelab", "--server", lab.address, "watch", experiments[-1]],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        started = time.monotonic()
        next_worker, next_server = started + 2, started + 5
        kills = {"worker": 0, "server": 0}
        hits = {"worker": 0, "server": 0}
        restarted = started
        last_look = 0.0
        while True:
            now = time.monotonic()
            if now - started > 1200:
                raise AssertionError(f"round {number} is not done after 20 minutes; server log:\n{lab.server.tail()}")
            if now >= next_worker:
                next_worker = now + 2
                name = chance.choice(WORKERS)
                process = lab.workers[name]
                if process.child.poll() is not None:
                    raise AssertionError(f"{name} ended by itself:\n{process.tail()}")
                kills["worker"] += 1
                hits["worker"] += stop_look_kill(lab, process, name)
                lab.start_worker(name, wait=False)
            if now >= next_server:
                next_server = now + 5
                kills["server"] += 1
                hits["server"] += stop_look_kill(lab, lab.server)
                lab.start_server(lab.address)
                restarted = time.monotonic()
            if now - last_look > 0.5 and now - restarted > 0.2:
                last_look = now
                states = [lab.client("--json", "show", e, expect=None).stdout for e in experiments]
                if all('"done"' in s for s in states):
                    break
                if any('"failed"' in s or '"cancelled"' in s for s in states):
                    raise AssertionError(f"round {number} failed: {states}\n{lab.server.tail()}")
            time.sleep(0.02)
        seconds = time.monotonic() - started
        ended = watch.wait(90)
        found = digests(lab, experiments)
        check_invariants(lab)
        print(f"round {number}: {seconds:.1f} s, killed {kills['worker']} workers ({hits['worker']} hits) and the server "
              f"{kills['server']} times ({hits['server']} hits), watch ended {ended}, digest {found[0]}", flush=True)
        return found, hits


def check_invariants(lab):
    """What must hold of the database whatever died."""
    db = lab.database()
    (integrity,) = db.execute("PRAGMA integrity_check").fetchone()
    assert integrity == "ok", integrity
    wrong = {
        "tasks that are not finished": "SELECT count(*) FROM tasks WHERE state <> 'finished'",
        "tasks without exactly one finished attempt":
            "SELECT count(*) FROM tasks t WHERE (SELECT count(*) FROM attempts a WHERE a.task = t.id AND a.outcome = 'finished') <> 1",
        "open attempts": "SELECT count(*) FROM attempts WHERE outcome = 'running'",
        "tasks whose count of readings differs":
            "SELECT count(*) FROM tasks t WHERE t.readings <> (SELECT count(*) FROM readings r WHERE r.task = t.id)",
        "divergent readings": "SELECT count(*) FROM divergences",
    }
    for what, query in wrong.items():
        (count,) = db.execute(query).fetchone()
        assert count == 0, f"{count} {what}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--sampled", type=int, default=1264, help="prompts of the first experiment")
    parser.add_argument("--uniform", type=int, default=3616, help="prompts of the second")
    parser.add_argument("--corpus", type=int, default=480, help="prompts of the third")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least-seconds", type=float, default=75, help="of the undisturbed run with three workers")
    parser.add_argument("--least-worker-hits", type=int, default=20)
    parser.add_argument("--least-server-hits", type=int, default=5)
    options = parser.parse_args()
    need_fixtures()
    with tempfile.TemporaryDirectory(prefix="ropelab-kills-") as folder:
        sys.exit(run(options, Place(pathlib.Path(folder), options.corpus)))


def run(options, place):
    study = spec(options.sampled, options.uniform, options.corpus)
    one, _ = undisturbed(1, place, study, options.threads)
    three, seconds = undisturbed(3, place, study, options.threads)
    problems = []
    if three != one:
        problems.append("three workers give other bytes than one")
    if seconds < options.least_seconds:
        problems.append(f"the undisturbed run took {seconds:.0f} s, under {options.least_seconds:.0f}: give it more prompts")
    for number in range(1, options.rounds + 1):
        found, hits = disturbed(number, place, study, options.threads, options.seed + number)
        if found != one:
            problems.append(f"round {number} gives other bytes: {found}")
        if hits["worker"] < options.least_worker_hits or hits["server"] < options.least_server_hits:
            problems.append(f"round {number} had too few hits: {hits}")
    print("\n".join(problems) if problems else f"{options.rounds} rounds, one digest: {one[0]}\n"
          f"corpus prompts: one digest: {one[1]}")
    return 1 if problems else 0


if __name__ == "__main__":
    main()
