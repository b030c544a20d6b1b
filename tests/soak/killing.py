"""What tests of kills share: runs of one study in new data folders, undisturbed or while workers and the server are killed with SIGKILL
and started again at once with the same port, folder and id.

A kill counts as a hit if the process, stopped for 50 ms before it, has an attempt open in the database.
"""

import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from harness import BIN  # noqa: E402

WORKERS = ["w1", "w2", "w3"]
# Leases end soon, and a task is not given up because its workers die.
DISTURBED = ["--lease-seconds", "3", "--max-attempts", "100"]


class Runs:
    """Runs of one study. `make_lab(server_flags)` gives a new Lab; `prepare(lab)` gives its server what the study needs;
    `digests(lab, experiments)` is what runs are compared by, a tuple whose first entry is printed."""

    def __init__(self, study, make_lab, digests, prepare=lambda lab: None):
        self.study, self.make_lab, self.digests, self.prepare = study, make_lab, digests, prepare

    def undisturbed(self, workers):
        """The digests, and how many seconds it took."""
        with self.make_lab([]) as lab:
            self.prepare(lab)
            for name in WORKERS[:workers]:
                lab.start_worker(name)
            started = time.monotonic()
            experiments = lab.submit(self.study, seconds=1800)
            seconds = time.monotonic() - started
            found = self.digests(lab, experiments)
            longest, tasks = lab.database().execute(
                "SELECT max(device_ms), count(*) FROM attempts WHERE outcome = 'finished'").fetchone()
            print(f"{workers} worker(s), undisturbed: {seconds:.1f} s, {tasks} tasks, longest {longest} ms, digest {found[0]}", flush=True)
            return found, seconds

    def disturbed(self, number, seed):
        """One round. Gives the digests, hits of workers and of the server."""
        chance = random.Random(seed)
        with self.make_lab(DISTURBED) as lab:
            self.prepare(lab)
            for name in WORKERS:
                lab.start_worker(name)
            experiments = lab.submit(self.study, wait=False)
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
            found = self.digests(lab, experiments)
            check_invariants(lab)
            print(f"round {number}: {seconds:.1f} s, killed {kills['worker']} workers ({hits['worker']} hits) and the server "
                  f"{kills['server']} times ({hits['server']} hits), watch ended {ended}, digest {found[0]}", flush=True)
            return found, hits


def add_options(parser, rounds, seconds, worker_hits, server_hits):
    """The options of every test of kills, with these defaults."""
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least-seconds", type=float, default=seconds, help="of the undisturbed run with three workers")
    parser.add_argument("--least-worker-hits", type=int, default=worker_hits, help="of a round")
    parser.add_argument("--least-server-hits", type=int, default=server_hits, help="of a round")


def compare(runs, options):
    """All runs that `options` asks for. Gives the digests of the first, and what is wrong with the others."""
    one, _ = runs.undisturbed(1)
    three, seconds = runs.undisturbed(3)
    problems = []
    if three != one:
        problems.append(f"three workers give other bytes than one: {three}")
    if seconds < options.least_seconds:
        problems.append(f"the undisturbed run took {seconds:.0f} s, under {options.least_seconds:.0f}: give it more prompts")
    for number in range(1, options.rounds + 1):
        found, hits = runs.disturbed(number, options.seed + number)
        if found != one:
            problems.append(f"round {number} gives other bytes: {found}")
        if hits["worker"] < options.least_worker_hits or hits["server"] < options.least_server_hits:
            problems.append(f"round {number} had too few hits: {hits}")
    return one, problems


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
