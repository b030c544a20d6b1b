"""Checkpoints at size and files that change: memory while loading, models too large for a worker, shards that are cut, written over or
badly put together under a running service. The checkpoints are generated.
"""

import os
import pathlib
import shutil
import tempfile
import time
import unittest
import urllib.request

from checkpoint_files import SIZES, Shape, write_checkpoint
from harness import Lab, peak_memory_bytes

MIB = 1 << 20
SMALL = Shape(layers=2, hidden=256, heads=4, kv_heads=2, intermediate=512, vocabulary=512)
LARGE = Shape(layers=24, hidden=512, heads=4, kv_heads=2, intermediate=2048, vocabulary=8000)  # 100 million parameters


def spec(model, dtype="FLOAT32", count=8, tokens=64, seed=42):
    return f"""name: "checkpoints" model: "{model}" dtype: {dtype} seeds: {seed}
        slash_detection {{ prompts {{ uniform_tokens {{ count: {count} tokens: {tokens} bos: ALWAYS }} }} regime: LARGE rows: COMMON }}"""


def wait_until(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")


def metrics(worker):
    """Series -> value of a worker's /metrics."""
    text = urllib.request.urlopen(f"http://{worker.wait_for('metrics on')}/metrics", timeout=10).read().decode()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line and line[0] != "#"}


class Checkpoints(unittest.TestCase):
    def setUp(self):
        self.models = pathlib.Path(tempfile.mkdtemp(prefix="ropelab-checkpoints-"))
        self.addCleanup(shutil.rmtree, self.models, True)

    def lab(self, *worker_flags):
        return Lab(self.models, server_flags=["--lease-seconds", "2"], worker_flags=["--threads", "1", *worker_flags])

    def shown(self, lab, experiment):
        return lab.json("show", experiment)

    def ends(self, lab, experiment, state, *words):
        shown = wait_until(f"{experiment} ends", lambda: (s := self.shown(lab, experiment))["state"] in ("failed", "done") and s)
        print(shown["state"], shown.get("reason", ""))
        self.assertEqual(shown["state"], state, lab.server.tail())
        for word in words:
            self.assertIn(word, shown["reason"])

    def attempts(self, lab):
        return lab.database().execute("SELECT worker, outcome, cause, task FROM attempts ORDER BY task, attempt").fetchall()

    def each_task_was_tried_once(self, lab):
        tasks = [row[3] for row in self.attempts(lab)]
        self.assertEqual(len(tasks), len(set(tasks)))
        self.assertLessEqual(len(tasks), 2, "one that ran and one that was fetched ahead")


class Memory(Checkpoints):
    def test_peak_while_loading_stays_within_the_bound(self):
        for stored, computed, shards, odd in [("bfloat16", "BFLOAT16", 1, 0), ("bfloat16", "BFLOAT16", 2, 1),
                                              ("bfloat16", "FLOAT32", 2, 1), ("float32", "FLOAT32", 1, 0)]:
            with self.subTest(stored=stored, computed=computed, odd=odd):
                size = write_checkpoint(self.models / "m", LARGE, stored, shards, odd)
                with self.lab() as lab:
                    worker = lab.start_worker("w1")
                    before = peak_memory_bytes(worker.child.pid)
                    lab.submit(spec("m", computed, count=1))
                    grown = peak_memory_bytes(worker.child.pid) - before
                    width = SIZES[computed.lower()]
                    model, layer = LARGE.parameters() * width, LARGE.layer_parameters() * width
                    values = metrics(worker)
                    print(f"{stored} of {size / MIB:.0f} MiB, {'un' if odd else ''}aligned, as {computed}: model {model / MIB:.0f} MiB, grew "
                          f"by {grown / MIB:.0f} MiB at its peak, loaded in {values['ropelab_worker_model_load_seconds_sum']:.2f} s")
                    self.assertLessEqual(grown, model * 1.1 + layer)
                    self.assertEqual(values["ropelab_worker_model_load_bytes_total"], model)
                    self.assertEqual(values["ropelab_worker_resident_model_bytes"], model)
                    self.assertEqual(values['ropelab_worker_model_loads_total{outcome="loaded"}'], 1)
                shutil.rmtree(self.models / "m")

    def test_a_model_too_large_fails_once_with_the_figures_and_others_work(self):
        write_checkpoint(self.models / "large", LARGE, "bfloat16")
        write_checkpoint(self.models / "small", SMALL, "bfloat16")
        with self.lab("--memory-limit", "10MiB") as lab:
            worker = lab.start_worker("w1")
            (experiment,) = lab.submit(spec("large"), wait=False)
            self.ends(lab, experiment, "failed", str(LARGE.parameters() * 4), "10485760", "FLOAT32", "--memory-limit")
            self.each_task_was_tried_once(lab)
            self.assertIn(metrics(worker)['ropelab_worker_model_loads_total{outcome="refused"}'], (1, 2))
            (experiment,) = lab.submit(spec("small", count=1, tokens=4096), wait=False)
            self.ends(lab, experiment, "failed", "activations", "--memory-limit")
            (experiment,) = lab.submit(spec("small", "BFLOAT16", count=1))
            self.ends(lab, experiment, "done")

    def test_a_worker_with_room_gets_what_the_other_cannot_hold(self):
        write_checkpoint(self.models / "large", LARGE, "bfloat16")
        with self.lab() as lab:
            lab.worker_flags += ["--memory-limit", "10MiB"]
            lab.start_worker("a-small-one")
            lab.worker_flags[-1] = "4g"
            lab.start_worker("large-one")
            (experiment,) = lab.submit(spec("large", "BFLOAT16", count=32))
            self.ends(lab, experiment, "done")
            self.assertEqual({row[:2] for row in self.attempts(lab)}, {("large-one", "finished")})


class Changes(Checkpoints):
    def begun(self, lab, count=4000, tokens=64):
        """An experiment whose first task is done and which goes on."""
        (experiment,) = lab.submit(spec("m", count=count, tokens=tokens), wait=False)
        wait_until("a task is done", lambda: int(self.shown(lab, experiment).get("tasks_done", 0)) > 0)
        return experiment

    def test_a_shard_cut_while_mapped_ends_the_worker_and_loses_nothing(self):
        write_checkpoint(self.models / "m", SMALL, "float32", shards=2)
        shard = self.models / "m/model-00002-of-00002.safetensors"
        whole = shard.read_bytes()
        with self.lab() as lab:
            worker = lab.start_worker("w1")
            experiment = self.begun(lab, count=40, tokens=2048)  # tasks of seconds
            os.truncate(shard, 4096)
            wait_until("the worker ends", lambda: worker.child.poll() is not None)
            self.assertEqual(worker.child.returncode, 3)
            last = worker.tail(3)
            print(last)
            self.assertIn("SIGBUS", last)
            self.assertIn(shard.name, last)
            self.assertRegex(last, r"task \d+ attempt \d+ \(slash_profile\) on model m")
            # Its supervisor starts it again: the folder is announced with what is wrong with it.
            again = lab.start_worker("w1")
            wait_until("the cut shard is named", lambda: shard.name in again.tail(200) and "truncated" in again.tail(200))
            self.assertNotIn(self.shown(lab, experiment)["state"], ("failed", "done"))
            self.assertIn("m", self.shown(lab, experiment)["reason"])
            lost = [row for row in self.attempts(lab) if row[1] not in ("finished", "running")]
            self.assertTrue(all(row[1] == "lost" for row in lost), lost)
            shard.write_bytes(whole)
            lab.client("watch", experiment, seconds=120)
            self.ends(lab, experiment, "done")
            disturbed = lab.csv_bytes(experiment, "slash_scores")
        with self.lab() as lab:
            lab.start_worker("w1")
            (experiment,) = lab.submit(spec("m", count=40, tokens=2048))
            self.assertEqual(lab.csv_bytes(experiment, "slash_scores"), disturbed)

    def test_weights_written_in_place_with_their_old_times_fail_the_experiment_once(self):
        write_checkpoint(self.models / "m", SMALL, "float32")
        file = self.models / "m/model.safetensors"
        with self.lab() as lab:
            worker = lab.start_worker("w1")
            experiment = self.begun(lab)
            status = file.stat()
            with open(file, "r+b") as out:
                out.seek(status.st_size - 4)
                out.write(b"\0\0\0\x3e")
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
            self.ends(lab, experiment, "failed", "model.safetensors", "changed")
            self.assertIsNone(worker.child.poll())
            failed = [row for row in self.attempts(lab) if row[1] == "failed"]
            print(failed)
            self.assertLessEqual(len(failed), 3, "one task in flight, one ahead, one try each")
            # What lies there now is a model too, under the same name.
            known = wait_until("it is announced anew", lambda: (m := lab.json("models")) and len(m) == 2 and m, 20)
            hashes = sorted(model["announcement"]["weights_hash"] for model in known)
            done = lab.client("submit", lab.write_spec(spec("m", count=1)), expect=4)
            print(done.stderr.strip())
            (new,) = [h for h in hashes if h and h[:16] not in failed[-1][2].split("the task is on ")[1].split(",")[0]]
            lab.submit(spec("m@" + new, count=1), seconds=60)

    def test_a_touched_file_costs_another_load_and_nothing_else(self):
        write_checkpoint(self.models / "m", SMALL, "float32")
        with self.lab() as lab:
            worker = lab.start_worker("w1")
            lab.submit(spec("m", count=8))
            (self.models / "m/model.safetensors").touch()
            (experiment,) = lab.submit(spec("m", count=9))
            self.ends(lab, experiment, "done")
            self.assertEqual(metrics(worker)['ropelab_worker_model_loads_total{outcome="loaded"}'], 2)

    def test_a_folder_that_comes_later_is_known_without_a_restart(self):
        write_checkpoint(self.models / "m", SMALL, "float32")
        with self.lab() as lab:
            worker = lab.start_worker("w1")
            experiment = self.begun(lab, count=8000)
            write_checkpoint(self.models / "later", SMALL, "bfloat16", seed=2)
            began = time.monotonic()
            wait_until("it is announced", lambda: "later" in [m["announcement"]["name"] for m in lab.json("models")], 40)
            print(f"announced after {time.monotonic() - began:.1f} s")
            lab.client("cancel", experiment)
            self.assertEqual([row for row in self.attempts(lab) if row[1] in ("lost", "failed")], [])
            lab.submit(spec("later", "BFLOAT16", count=1), seconds=60)
            self.assertIsNone(worker.child.poll())

    def test_badly_put_together_checkpoints_are_refused_by_name(self):
        index = "model.safetensors.index.json"
        first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"

        def missing(folder):
            (folder / second).unlink()

        def exchanged(folder):
            (folder / first).rename(folder / "x")
            (folder / second).rename(folder / first)
            (folder / "x").rename(folder / second)

        def twice(folder):
            shutil.copy(folder / first, folder / second)

        def headless(folder):
            data = bytearray((folder / second).read_bytes())
            data[:8] = (1 << 40).to_bytes(8, "little")
            (folder / second).write_bytes(data)

        def no_index(folder):
            (folder / index).write_text('{"weight_map": ["model-00001-of-00002.safetensors"]}')

        cases = {"missing": (missing, [second]), "exchanged": (exchanged, [first, "model.", "which does not hold it"]),
                 "twice": (twice, ["is in " + first + " and in " + second]), "headless": (headless, [second, "header"]),
                 "no-index": (no_index, [index, "weight_map"])}
        for name, (spoil, _) in cases.items():
            write_checkpoint(self.models / name, SMALL, "float32", shards=2)
            spoil(self.models / name)
        with self.lab() as lab:
            lab.start_worker("w1")
            for name, (_, words) in cases.items():
                done = lab.client("submit", lab.write_spec(spec(name)), expect=4)
                print(done.stderr.strip())
                for word in words:
                    self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
