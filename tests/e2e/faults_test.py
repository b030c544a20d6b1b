"""What goes wrong around the service leaves its results as they were: a full disk, stopped processes, bad networks, changed
model folders. Every table of every experiment is compared, byte for byte, with an undisturbed run's.
"""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request

from harness import BIN, FIXTURES, Lab, need_fixtures
from proxy import Proxy

TABLES = ["slash_scores", "slash_heads", "statistics"]
UNDISTURBED = {}  # study text -> bytes


def uniform(count=240, tokens=512, model="stories260K", name="under faults", seed=42):
    return f"""name: "{name}" model: "{model}" dtype: FLOAT32 seeds: {seed}
        slash_detection {{ prompts {{ uniform_tokens {{ count: {count} tokens: {tokens} bos: ALWAYS }} }} regime: LARGE rows: COMMON }}"""


def bytes_of(lab, experiments):
    return [lab.csv_bytes(e, t) for e in experiments for t in TABLES]


def undisturbed(spec):
    if spec not in UNDISTURBED:
        with Lab(FIXTURES / "models", worker_flags=["--threads", "1"]) as lab:
            lab.start_worker("w1")
            UNDISTURBED[spec] = bytes_of(lab, lab.submit(spec))
    return UNDISTURBED[spec]


def wait_until(what, condition, seconds=60, lab=None):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}\n{lab.server.tail() if lab else ''}")


def state(lab, experiment):
    return lab.json("show", experiment)["state"]


def wait_done(lab, experiment, seconds=120):
    def ended():
        now = lab.json("show", experiment)
        if now["state"] in ("failed", "cancelled"):
            raise AssertionError(f"{experiment} {now}\n{lab.server.tail()}")
        return now["state"] == "done"
    wait_until(f"{experiment} done", ended, seconds, lab)


def wait_running(lab, experiment, least=2):
    """Some of its tasks are finished, others not."""
    wait_until("some tasks are finished", lambda: int(lab.json("show", experiment).get("tasks_done", 0)) >= least, 60, lab)


class Faults(unittest.TestCase):
    """Each test has a lab of its own, whose processes must be whole at its end."""

    def setUp(self):
        need_fixtures()

    def no_divergence(self, lab):
        (count,) = lab.database().execute("SELECT count(*) FROM divergences").fetchone()
        self.assertEqual(count, 0)

    def check(self, lab, spec, experiment):
        wait_done(lab, experiment)
        self.assertEqual(bytes_of(lab, [experiment]), undisturbed(spec))
        self.no_divergence(lab)


class FullDisk(Faults):
    def test_submits_are_refused_workers_wait_and_all_completes_when_there_is_space(self):
        if os.geteuid() != 0:
            self.skipTest("mounting a small file system needs root")
        spec = uniform()
        lab = Lab(FIXTURES / "models", server_flags=["--lease-seconds", "2"], worker_flags=["--threads", "1"])
        lab.data.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", lab.data], capture_output=True, text=True)
        if mounted.returncode != 0:
            self.skipTest(f"cannot mount here: {mounted.stderr.strip()}")
        try:
            with lab:
                lab.start_worker("w1")
                lab.start_worker("w2")
                (experiment,) = lab.submit(spec, wait=False)
                wait_running(lab, experiment)
                ballast = lab.data / "ballast"
                with open(ballast, "wb", buffering=0) as file:
                    try:
                        while True:
                            file.write(bytes(1 << 16))
                    except OSError:
                        pass
                    try:
                        while True:
                            file.write(bytes(512))
                    except OSError:
                        pass
                refused = wait_until("a submit is refused", lambda: self.refused(lab, spec), 30, lab)
                self.assertIn("space", refused)
                print(refused.strip())
                done_before = int(lab.json("show", experiment)["tasks_done"])
                time.sleep(5)  # longer than two leases
                shown = lab.json("show", experiment)  # reads go on
                self.assertEqual(shown["state"], "running")
                self.assertLessEqual(int(shown["tasks_done"]), done_before + 2)
                self.assertIn(experiment, lab.client("list").stdout)
                self.assertEqual(len(lab.json("workers")), 2)
                ballast.unlink()
                self.check(lab, spec, experiment)
                (again,) = lab.submit(uniform(count=2, tokens=64))
                self.assertEqual(state(lab, again), "done")
                charged = lab.database().execute("SELECT task, attempt, outcome, cause FROM attempts WHERE charged").fetchall()
                self.assertEqual(charged, [], lab.server.tail(2000) if charged else "")
        finally:
            subprocess.run(["umount", "-l", lab.data], check=False)
            shutil.rmtree(lab.folder, ignore_errors=True)

    def refused(self, lab, spec):
        done = lab.client("submit", lab.write_spec(uniform(count=2, tokens=32, seed=time.time_ns() % 1000), "more.textproto"),
                          expect=None, seconds=60)
        self.assertIn(done.returncode, (0, 4), done.stderr)
        return done.stderr if done.returncode == 4 else None


class Stopped(Faults):
    def test_worker_beyond_its_lease(self):
        spec = uniform()
        with Lab(FIXTURES / "models", server_flags=["--lease-seconds", "2"], worker_flags=["--threads", "1"]) as lab:
            lab.start_worker("w1")
            lab.start_worker("w2")
            (experiment,) = lab.submit(spec, wait=False)
            wait_running(lab, experiment)
            lab.workers["w1"].child.send_signal(signal.SIGSTOP)
            time.sleep(4)
            lab.workers["w1"].child.send_signal(signal.SIGCONT)
            self.check(lab, spec, experiment)
            self.assertIn("dropped", lab.workers["w1"].tail(500))
            wait_until("w1 is back", lambda: len(lab.json("workers")) == 2, 30, lab)

    def test_server_for_three_leases(self):
        spec = uniform()
        with Lab(FIXTURES / "models", server_flags=["--lease-seconds", "2"], worker_flags=["--threads", "1"]) as lab:
            lab.start_worker("w1")
            lab.start_worker("w2")
            (experiment,) = lab.submit(spec, wait=False)
            wait_running(lab, experiment)
            lab.server.child.send_signal(signal.SIGSTOP)
            time.sleep(6)
            self.assertIn("nothing heard from the server", lab.workers["w1"].tail(500))
            lab.server.child.send_signal(signal.SIGCONT)
            self.check(lab, spec, experiment)


class Terminated(Faults):
    def test_worker_then_server_which_comes_back_with_another_lease(self):
        spec = uniform()
        with Lab(FIXTURES / "models", server_flags=["--lease-seconds", "2"], worker_flags=["--threads", "1"]) as lab:
            lab.start_worker("w1")
            (experiment,) = lab.submit(spec, wait=False)
            wait_running(lab, experiment)
            lab.workers["w1"].stop()
            self.assertEqual(lab.workers["w1"].child.returncode, 0)
            self.assertIn("no worker is connected", lab.json("show", experiment)["reason"])
            lab.start_worker("w1")
            wait_running(lab, experiment, 6)
            lab.server.stop()
            self.assertEqual(lab.server.child.returncode, 0)
            lab.server_flags = ["--lease-seconds", "7"]
            lab.start_server(lab.address)
            self.check(lab, spec, experiment)
            self.assertIn("lease 7000 ms", lab.workers["w1"].tail(500))

    def test_server_killed_at_once_after_each_submit(self):
        with Lab(FIXTURES / "models", server_flags=["--lease-seconds", "2"], worker_flags=["--threads", "1"]) as lab:
            lab.start_worker("w1")
            experiments = []
            for seed in range(25):
                experiments += lab.submit(uniform(count=2, tokens=32, seed=seed), wait=False)
                lab.server.kill()
                lab.start_server(lab.address)
            self.assertEqual(len(set(experiments)), 25)
            for experiment in experiments:
                wait_done(lab, experiment)
            self.no_divergence(lab)


class TwoOfOneName(Faults):
    def test_the_older_gives_way_and_both_say_what_to_do(self):
        spec = uniform()
        with Lab(FIXTURES / "models", server_flags=["--lease-seconds", "2"], worker_flags=["--threads", "1"]) as lab:
            first = lab.start_worker("same")
            (experiment,) = lab.submit(spec, wait=False)
            wait_running(lab, experiment)
            second = lab.start_worker("same", wait=False)  # another log under the same name: appended
            self.check(lab, spec, experiment)
            self.assertIn("--id", second.tail(500))
            self.assertIsNone(second.child.poll())
            first.stop()


class ModelFolders(Faults):
    def lab_with_copy(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="ropelab-models-"))
        self.addCleanup(shutil.rmtree, folder, True)
        self.copy(folder / "m")
        return folder, Lab(folder, server_flags=["--lease-seconds", "2", "--max-attempts", "2"], worker_flags=["--threads", "1"])

    @staticmethod
    def copy(to, source="stories260K"):
        shutil.copytree(FIXTURES / "models" / source, to)
        for path in [to, *to.iterdir()]:
            path.chmod(0o755)

    def fails(self, lab, experiment, *words):
        wait_until("the experiment ends", lambda: state(lab, experiment) in ("failed", "done"), 60, lab)
        shown = lab.json("show", experiment)
        print(shown["state"], shown["reason"])
        self.assertEqual(shown["state"], "failed")
        for word in words:
            self.assertIn(word, shown["reason"])

    def test_weights_replaced_in_mid_run(self):
        folder, lab = self.lab_with_copy()
        with lab:
            lab.start_worker("w1")
            (experiment,) = lab.submit(uniform(model="m"), wait=False)
            wait_running(lab, experiment)
            weights = folder / "m/model.safetensors"
            data = bytearray(weights.read_bytes())
            data[-2:] = bytes([0x01, 0x3C])
            fresh = folder / "fresh"
            fresh.write_bytes(data)
            fresh.rename(weights)
            self.fails(lab, experiment, "safetensors", "changed")
            self.assertIsNone(lab.workers["w1"].child.poll())

    def test_folder_vanishes_in_mid_run_and_another_model_still_works(self):
        folder, lab = self.lab_with_copy()
        self.copy(folder / "other")
        with lab:
            lab.start_worker("w1")
            (experiment,) = lab.submit(uniform(model="m"), wait=False)
            wait_running(lab, experiment)
            shutil.rmtree(folder / "m")
            self.fails(lab, experiment, "m")
            (other,) = lab.submit(uniform(count=2, tokens=64, model="other"), seconds=60)
            self.assertEqual(state(lab, other), "done")

    def test_config_becomes_garbage_between_two_runs(self):
        folder, lab = self.lab_with_copy()
        with lab:
            lab.start_worker("w1")
            lab.submit(uniform(count=2, tokens=64, model="m"))
            (folder / "m/config.json").write_text('{"model_type": "llama", ')
            (experiment,) = lab.submit(uniform(count=3, tokens=96, model="m"), wait=False)
            self.fails(lab, experiment, "config.json")

    def test_folder_added_while_the_worker_runs(self):
        folder, lab = self.lab_with_copy()
        with lab:
            lab.start_worker("w1")
            self.copy(folder / "later")
            done = lab.client("submit", lab.write_spec(uniform(count=2, tokens=64, model="later")), expect=None)
            print(done.returncode, done.stderr)
            self.assertEqual(done.returncode, 4)
            self.assertIn("later", done.stderr)
            self.assertIn("wait a moment", done.stderr)

    def test_folder_whose_name_is_no_text_is_passed_over(self):
        folder, lab = self.lab_with_copy()
        os.rename(folder / "m", folder / "good")
        for name in [b"\xffbytes", b"two\nlines", b"esc\x1b[31m"]:
            shutil.copytree(os.fsencode(folder / "good"), os.path.join(os.fsencode(folder), name))
        with lab:
            worker = lab.start_worker("w1")
            self.assertEqual([m["announcement"]["name"] for m in lab.json("models")], ["good"])
            lab.submit(uniform(count=2, tokens=64, model="good"), seconds=60)
            self.assertEqual(worker.tail(500).count("cannot be used"), 3)
            self.assertTrue(all(line.isprintable() for line in worker.tail(500).splitlines()))


class BadNetwork(Faults):
    def through(self, mode, seconds=5, workers=2, reach=60_000):
        spec = uniform()
        with Lab(FIXTURES / "models", server_flags=["--lease-seconds", "2", "--max-attempts", "100"],
                 worker_flags=["--threads", "1"]) as lab:
            proxy = Proxy(lab.address, seed=7, reach=reach)
            self.addCleanup(proxy.close)
            for number in range(workers):
                lab.start_worker(f"w{number + 1}", server=proxy.address)
            proxy.mode = mode
            if mode != "delay":
                proxy.cut_all()
            (experiment,) = lab.submit(spec, wait=False)
            end = time.monotonic() + seconds
            while time.monotonic() < end and state(lab, experiment) != "done":
                time.sleep(0.2)
            proxy.mode = "clean"
            self.check(lab, spec, experiment)
            print(f"{mode}: {proxy.spoiled} spoiled, {proxy.connections} connections")
            for worker in lab.workers.values():
                self.assertIsNone(worker.child.poll(), worker.tail())
            return proxy, lab

    def test_delays(self):
        proxy, _ = self.through("delay")
        self.assertGreater(proxy.spoiled, 20)

    def test_cuts_in_the_middle_of_a_message(self):
        proxy, _ = self.through("cut")
        self.assertGreater(proxy.spoiled, 3)

    def test_damaged_bytes(self):
        proxy, _ = self.through("damage")
        self.assertGreater(proxy.spoiled, 2)

    def test_half_open_connections(self):
        spec = uniform()
        with Lab(FIXTURES / "models", server_flags=["--lease-seconds", "2"], worker_flags=["--threads", "1"]) as lab:
            proxy = Proxy(lab.address)
            self.addCleanup(proxy.close)
            lab.start_worker("w1", server=proxy.address)
            (experiment,) = lab.submit(spec, wait=False)
            wait_running(lab, experiment)
            proxy.mode = "deaf"
            wait_until("the worker is given up", lambda: not lab.json("workers"), 20, lab)
            wait_until("the worker gives up", lambda: "nothing heard from the server" in lab.workers["w1"].tail(500), 20)
            proxy.mode = "clean"
            self.check(lab, spec, experiment)


if __name__ == "__main__":
    unittest.main(verbosity=2)
