"""Messages that no client or worker of ours would send: each gets a sentence, and the server goes on as if nothing had been."""

import hashlib
import os
import shutil
import socket
import subprocess
import time
import unittest
import urllib.request

import raw_client
from harness import BIN, FIXTURES, Lab, need_fixtures

SLASH = 'name: "rubbish" model: "stories260K" slash_detection {{ prompts {{ uniform_tokens {{ {} }} }} {} }}'
GOOD = SLASH.format("count: 2 tokens: 64", "")
GEOMETRY = 'name: "rubbish" seeds: {} rope_geometry {{ head_dim: 8 positions: 16 }}'


def setUpModule():
    need_fixtures()
    raw_client.need_grpc()
    global PB
    PB = raw_client.load()


class WithServer(unittest.TestCase):
    workers = 0

    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(FIXTURES / "models", server_flags=["--lease-seconds", "2", "--max-attempts", "2"],
                      worker_flags=["--threads", "1"]).__enter__()
        for number in range(cls.workers):
            cls.lab.start_worker(f"w{number + 1}")
        cls.raw = raw_client.Raw(cls.lab.address, PB)
        cls.service = PB["experiment_service"]

    @classmethod
    def tearDownClass(cls):
        cls.raw.close()
        log = cls.lab.server.log.read_text(errors="strict")
        cls.lab.__exit__(None, None, None)
        for line in log.splitlines():
            assert line[:2] == "20", f"a log record is more than a line: {line[:200]!r}"
            assert line.isprintable(), f"a control character in the log: {line[:200]!r}"

    def tearDown(self):
        self.assertIsNone(self.lab.server.child.poll(), "the server is gone")


class Requests(WithServer):
    workers = 1

    def refused(self, answer, *words):
        code, message = answer
        self.assertEqual(code, "INVALID_ARGUMENT", message)
        for word in words:
            self.assertIn(word, message)
        self.assertLess(len(message), 3000)

    def submission(self, spec, request_id="one"):
        request = self.service.SubmitRequest(request_id=request_id, user="raw")
        request.submission.experiment.CopyFrom(spec)
        return request

    def both(self, spec, *words):
        """Refused by Submit with these words; and by Validate."""
        request = self.submission(spec)
        self.refused(self.raw.call("Submit", request), *words)
        code, body = self.raw.call("Validate", self.service.ValidateRequest(submission=request.submission))
        self.assertEqual(code, "OK", body)
        self.assertTrue(self.service.ValidateResponse.FromString(body).problems)

    def test_names(self):
        for name, word in [("two\nlines", "control"), ("esc\x1b[31m", "control"), ("x" * 1_000_000, "name"), ("nul\0", "NUL")]:
            spec = self.raw.spec(GOOD)
            spec.name = name
            self.both(spec, "name", word)
        self.refused(self.raw.submit(GOOD, "a", user="two\nlines"), "user")
        for request_id in ["", "x" * 1000, "two\nlines", "nul\0"]:
            self.refused(self.raw.submit(GOOD, request_id), "request_id")

    def test_numbers(self):
        for prompts in ["count: 1000000000000000 tokens: 64", "count: 9223372036854775807 tokens: 64", "count: 0 tokens: 64",
                        "count: -1 tokens: 64", "count: 1 tokens: 0", "count: 1 tokens: -5",
                        "count: 1 tokens: 9223372036854775807", "count: 1 tokens: -9223372036854775808"]:
            self.both(self.raw.spec(SLASH.format(prompts, "")), "slash_detection.prompts.uniform_tokens")
        for more in ["threshold: nan", "threshold: inf", "skip_first: -1", "skip_first: 9223372036854775807",
                     "offsets { first: -1 last: 3 }", "offsets { first: 0 last: 9223372036854775807 }",
                     "offsets { first: 5 last: 4 }"]:
            self.both(self.raw.spec(SLASH.format("count: 2 tokens: 64", more)), "slash_detection")
        self.both(self.raw.spec(GOOD + " ".join(f"seeds: {seed}" for seed in range(100_000))), "seeds", "100000")

    def test_submissions_that_hold_nothing_or_what_is_not_known(self):
        self.refused(self.raw.call("Submit", self.service.SubmitRequest(request_id="empty")), "neither")
        known = self.raw.spec(GOOD).SerializeToString()
        spec = known + b"\x9a\x3f\x03abc"  # field 1011
        submission = b"\x0a" + bytes([len(spec)]) + spec
        self.refused(self.raw.call_bytes("Submit", b"\x0a\x01u\x12" + bytes([len(submission)]) + submission), "#1011")
        code, body = self.raw.call_bytes("Validate", b"\x0a" + bytes([len(submission)]) + submission)
        self.assertEqual(code, "OK")
        self.assertIn(b"#1011", body)
        for rubbish in [b"\xff" * 100, os.urandom(1000)]:
            self.assertNotEqual(self.raw.call_bytes("Submit", rubbish)[0], "OK")
        code, message = self.raw.call_bytes("Submit", b"\x0a\x80\x80\xc0\x02" + bytes(5 << 20))
        self.assertEqual(code, "RESOURCE_EXHAUSTED", message)

    def test_ids(self):
        service = self.service
        for method, request in [("Get", service.GetRequest), ("Watch", service.WatchRequest), ("Cancel", service.CancelRequest),
                                ("ListResults", service.ListResultsRequest), ("Results", service.ResultsRequest),
                                ("Artifact", service.ArtifactRequest), ("GetProvenance", service.ProvenanceRequest)]:
            for wrong in ["e-1", "e99999999999999999999", "", "e1\n", "e0", "x" * 1_000_000]:
                self.refused(self.raw.call(method, request(id=wrong)), "id:")
            code, _ = self.raw.call(method, request(id="e999999"))
            self.assertEqual(code, "NOT_FOUND", method)

    def test_the_same_request_again_is_the_same_experiment_whatever_became_of_the_first_answer(self):
        for number in range(12):
            self.raw.submit(SLASH.format("count: 2 tokens: 32", f"skip_first: {number}"), f"again-{number}", timeout=0.0005 * (number + 1))
        for number in range(12):
            spec = SLASH.format("count: 2 tokens: 32", f"skip_first: {number}")
            code, first = self.raw.submit(spec, f"again-{number}")
            self.assertEqual(code, "OK", first)
            self.assertEqual(self.raw.submit(spec, f"again-{number}")[1].experiment_ids, first.experiment_ids)
        keys = [e["id"] for e in self.lab.json("list") if e["owner"] == "raw"]
        self.assertEqual(len(keys), 12)
        self.assertEqual(self.raw.submit(GOOD, "again-1")[0], "ALREADY_EXISTS")

    def test_clients_that_go_away(self):
        (experiment,) = self.lab.submit(SLASH.format("count: 800 tokens: 256", ""), wait=False)
        for _ in range(5):
            watch = subprocess.Popen([BIN / "ropelab", "--server", self.lab.address, "watch", experiment],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.1)
            watch.kill()
            watch.wait()
        self.lab.client("watch", experiment)
        shell = f"{BIN}/ropelab --server {self.lab.address} results {experiment} --table slash_scores --format csv | head -2"
        done = subprocess.run(shell, shell=True, capture_output=True, text=True, timeout=60)
        self.assertEqual(len(done.stdout.splitlines()), 2)
        self.assertEqual(done.stderr, "")
        done = subprocess.run(f"{BIN}/ropelab --server {self.lab.address} list > /dev/full", shell=True, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("disk full", done.stderr)


class Ports(WithServer):
    RUBBISH = [os.urandom(20_000), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 2_000_000,
               b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 50_000 + b"\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + os.urandom(5000),
               b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]) + b"\xff\xff\xff\x00\0\0\0\0\1" + b"x" * 100_000,
               b"POST /metrics HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\nxx"]

    def test_bytes_that_mean_nothing(self):
        metrics = self.lab.server.wait_for("metrics")
        for address in [self.lab.address, metrics]:
            host, port = address.rsplit(":", 1)
            for rubbish in self.RUBBISH:
                with socket.create_connection((host, int(port)), timeout=5) as connection:
                    try:
                        connection.sendall(rubbish)
                        connection.recv(100)
                    except OSError:
                        pass
            idle = [socket.create_connection((host, int(port))) for _ in range(20)]
            # Connections that say nothing hold up nobody for long.
            text = urllib.request.urlopen(f"http://{metrics}/metrics", timeout=15).read().decode()
            self.assertIn("ropelab_", text)
            self.assertEqual(self.raw.call("List", self.service.ListRequest())[0], "OK")
            for connection in idle:
                connection.close()


class Streams(WithServer):
    def setUp(self):
        self.pb = PB["worker_service"]
        self.open = []

    def tearDown(self):
        for worker in self.open:
            worker.cancel()
        super().tearDown()

    def worker(self):
        self.open.append(self.raw.worker())
        return self.open[-1]

    def session(self, name):
        """A worker of a numerics class of its own, so that no other test's tasks come its way."""
        worker = self.worker()
        worker.say(hello=worker.hello(name, numerics=hashlib.sha256(name.encode()).hexdigest()[:16]))
        self.assertEqual(worker.hear("welcome").protocol, 1)
        return worker

    def granted(self, name):
        for other in self.open:
            other.cancel()
        end = time.monotonic() + 10
        while self.lab.json("workers") and time.monotonic() < end:  # or the grant might go to one of them
            time.sleep(0.02)
        worker = self.session(name)
        seed = int(hashlib.sha256(name.encode()).hexdigest()[:6], 16)
        code, answer = self.raw.submit(GEOMETRY.format(seed), name)
        self.assertEqual(code, "OK", answer)
        return worker, answer.experiment_ids[0], worker.hear("grant")

    def reading(self, theta=1.0):
        return PB["reading"].Reading(geometry=PB["reading"].GeometryFigures(theta=[theta])).SerializeToString()

    def failed(self, experiment, *words):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            shown = self.lab.json("show", experiment)
            if shown["state"] in ("failed", "done"):
                break
            time.sleep(0.05)
        self.assertEqual(shown["state"], "failed", shown)
        for word in words:
            self.assertIn(word, shown["reason"])
        self.assertTrue(shown["reason"].replace("\n", "").isprintable())
        self.assertLess(len(shown["reason"]), 60_000)

    def metric(self, name):
        metrics = self.lab.server.wait_for("metrics")
        text = urllib.request.urlopen(f"http://{metrics}/metrics", timeout=10).read().decode()
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))

    def test_greetings(self):
        worker = self.worker()
        worker.say(hello=worker.hello("twice")).hear("welcome")
        self.assertEqual(worker.say(hello=worker.hello("twice")).hear()[0], "INVALID_ARGUMENT")
        worker = self.worker()
        worker.reading(self.pb.LeaseToken(task=1, attempt=1, session_epoch=1), 1, b"")
        self.assertEqual(worker.hear()[0], "FAILED_PRECONDITION")
        code, message = (lambda w: w.say(hello=w.hello("new", first=2, last=9)).hear())(self.worker())
        self.assertEqual(code, "FAILED_PRECONDITION")
        self.assertIn("2 to 9", message)
        for name, numerics in [("", "a"), ("x" * 1000, "a"), ("two\nlines", "a"), ("esc\x1b[31m", "a"), ("fine", ""),
                               ("fine", "two\nlines")]:
            code, message = (lambda w: w.say(hello=w.hello(name, numerics=numerics)).hear())(self.worker())
            self.assertEqual(code, "INVALID_ARGUMENT", name)
            self.assertTrue(message.isprintable() and len(message) < 500, message)
        self.assertNotEqual(type(self.worker().say_bytes(b"\xff" * 50).hear()), self.pb.Welcome)
        code, _ = self.worker().say_bytes(b"\x0a\x80\x80\xc0\x02" + bytes(5 << 20)).hear()
        self.assertEqual(code, "RESOURCE_EXHAUSTED")

    def test_a_stream_that_says_nothing_is_closed(self):
        code, message = self.worker().hear()
        self.assertEqual(code, "DEADLINE_EXCEEDED")
        self.assertIn("Hello", message)

    def test_models_that_cannot_be(self):
        worker = self.worker()
        hello = worker.hello("liar")
        hello.models.add(name="two\nlines", weights_hash="a" * 64, config_hash="b" * 64)
        huge = hello.models.add(name="huge", weights_hash="c" * 64, config_hash="d" * 64)
        huge.config.layers = huge.config.query_heads = huge.config.max_positions = 1 << 62
        huge.config.vocabulary = -1
        worker.say(hello=hello).hear("welcome")
        names = [m["announcement"]["name"] for m in self.lab.json("models")]
        self.assertEqual(names, ["huge"])
        code, message = self.raw.submit(SLASH.replace("stories260K", "huge").format("count: 2 tokens: 64", ""), "huge")
        self.assertEqual(code, "INVALID_ARGUMENT")
        self.assertIn("layers", message)

    def test_tokens_that_nobody_was_given(self):
        worker = self.session("made-up")
        for epoch in [0, -1, 1 << 60]:
            token = self.pb.LeaseToken(task=77, attempt=3, session_epoch=epoch)
            worker.reading(token, 1, b"")
            self.assertEqual(worker.hear("fenced").token, token)
            worker.say(failure=self.pb.TaskFailure(token=token, cause="none"))
            worker.hear("fenced")
            worker.say(artifact=self.pb.ArtifactChunk(token=token, sha256="a" * 64))
            worker.hear("fenced")
            worker.say(completion=self.pb.Completion(token=token, sequence=1))
            worker.hear("fenced")
            worker.say(accepted=self.pb.LeaseAccepted(token=token))
            worker.hear("fenced")
            worker.say(hand_back=self.pb.HandBack(token=token))
        worker.say(weights_hash=self.pb.WeightsHash(model="nobody's", weights_hash="x"))
        worker.say(heartbeat=self.pb.Heartbeat(log_tail=["esc\x1b[31m" * 3000] * 100))
        self.assertEqual(type(worker.hear("heartbeat_reply")), self.pb.HeartbeatReply)

    def broken(self, name, send, *words):
        """Two grants, `send` to each, and the experiment fails with these words."""
        worker, experiment, grant = self.granted(name)
        send(worker, grant.token)
        send(worker, worker.hear("grant").token)
        self.failed(experiment, *words)
        worker.cancel()

    def test_readings_that_cannot_be_stored(self):
        body = self.reading()
        self.broken("gap", lambda w, t: w.reading(t, 5, body), "out of order")
        self.broken("negative", lambda w, t: w.reading(t, -1, body), "numbered from 1")
        self.broken("hash", lambda w, t: w.reading(t, 1, body, "0" * 64), "SHA-256")
        self.broken("rubbish", lambda w, t: w.reading(t, 1, b"\xff\xff"), "parse")
        self.broken("large", lambda w, t: w.reading(t, 1, b"\x0a" * (1 << 21)), "bytes")

    def test_artifacts_that_cannot_be_stored(self):
        def chunk(**parts):
            return lambda w, t: w.say(artifact=self.pb.ArtifactChunk(token=t, data=b"x", **parts))
        self.broken("order", chunk(sha256="a" * 64, offset=100), "starts at byte 100")
        self.broken("artifact hash", chunk(sha256="a" * 64, offset=0, last=True), "SHA-256")
        self.broken("artifact name", chunk(sha256="../../escape", offset=0, last=True), "no SHA-256")
        reading = PB["reading"].Reading(geometry=PB["reading"].GeometryFigures())
        reading.artifacts.add(name="gone", sha256="c" * 64, bytes=1)
        self.broken("missing", lambda w, t: w.reading(t, 1, reading.SerializeToString()), "not uploaded")

    def test_a_reading_that_differs_is_kept_aside_and_counted(self):
        worker, experiment, grant = self.granted("diverges")
        before = self.metric("ropelab_divergent_readings_total")
        worker.reading(grant.token, 1, self.reading())
        self.assertEqual(worker.hear("acknowledgement").sequence, 1)
        worker.reading(grant.token, 1, self.reading(2.0))
        worker.hear("acknowledgement")
        rows = self.lab.database().execute("SELECT task, sequence, sha256 FROM divergences WHERE task = ?", (grant.token.task,)).fetchall()
        self.assertEqual(rows, [(grant.token.task, 1, hashlib.sha256(self.reading(2.0)).hexdigest())])
        self.assertEqual(self.metric("ropelab_divergent_readings_total"), before + 1)
        (kept,) = self.lab.database().execute("SELECT sha256 FROM readings WHERE task = ?", (grant.token.task,)).fetchone()
        self.assertEqual(kept, hashlib.sha256(self.reading()).hexdigest())
        self.assertEqual(int(self.lab.json("provenance", experiment)["divergent_readings"]), 1)

    def test_completions_and_results_that_do_not_fit(self):
        worker, experiment, grant = self.granted("digest")
        worker.reading(grant.token, 1, self.reading())
        worker.completion(grant.token, [self.reading()], "f" * 64)
        worker.completion(worker.hear("grant").token, [self.reading()], "f" * 64)
        self.failed(experiment, "does not agree")
        worker, experiment, grant = self.granted("nothing measured")
        worker.completion(grant.token, [])
        self.failed(experiment, "no reading")
        worker, experiment, grant = self.granted("other kind")
        body = PB["reading"].Reading(slash_block=PB["reading"].SlashBlock(
            layer=-1, heads=1 << 30, offsets=1 << 62, mean=[float("nan")])).SerializeToString()
        worker.reading(grant.token, 1, body)
        worker.completion(grant.token, [body])
        self.failed(experiment, "figures")

    def test_causes_of_any_length_and_kind(self):
        worker, experiment, grant = self.granted("cause")
        worker.say(failure=self.pb.TaskFailure(token=grant.token, cause="first\n\x1b[31m" + "x" * 1_000_000, permanent=True,
                                               log_tail=["l" * 10_000] * 200))
        self.failed(experiment, "first")


class StoredFiles(WithServer):
    workers = 1
    BIG = 'name: "b" model: "stories260K" slash_detection {{ prompts {{ uniform_tokens {{ count: 8 tokens: 512 }} }} ' \
          'offsets {{ first: 0 last: 511 }} skip_first: 0 threshold: {} }}'

    def test_one_that_is_gone_or_damaged_fails_its_experiment_by_name(self):
        (experiment,) = self.lab.submit(self.BIG.format(0.1))
        database = self.lab.database()
        readings = [row[0] for row in database.execute("SELECT file FROM readings WHERE file IS NOT NULL")]
        self.assertTrue(readings)
        path = next((self.lab.data / "artifacts").rglob(readings[0]))
        whole = path.read_bytes()
        spoiled = bytearray(whole)
        spoiled[len(whole) // 2] ^= 1
        path.write_bytes(spoiled)
        done = self.lab.client("submit", self.lab.write_spec(self.BIG.format(0.2)), "--wait", expect=1)
        self.assertIn(str(path), done.stderr)
        path.unlink()
        done = self.lab.client("submit", self.lab.write_spec(self.BIG.format(0.3)), "--wait", expect=1)
        self.assertIn(str(path), done.stderr)
        path.write_bytes(whole)
        (again,) = self.lab.submit(self.BIG.format(0.4))
        self.assertEqual(len(self.lab.table(again, "slash_scores")), 5 * 8 * 512)
        # The table itself lies in a file too.
        tables = [p for p in (self.lab.data / "artifacts").rglob("*") if p.is_file() and p.name not in readings and p.stat().st_size > 1 << 20]
        for path in tables:
            spoiled = bytearray(path.read_bytes())
            spoiled[len(spoiled) // 2] ^= 1
            path.write_bytes(spoiled)
        done = self.lab.client("results", again, "--table", "slash_scores", "--format", "csv", expect=4)
        self.assertIn("damaged", done.stderr)

    def test_data_directories_that_cannot_be_used(self):
        base = self.lab.folder / "base"
        shutil.rmtree(base, ignore_errors=True)
        started = subprocess.Popen([BIN / "ropelab-server", "--data-dir", base, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        started.stdout.readline()
        started.terminate()
        self.assertEqual(started.wait(20), 0)

        def spoil(name, how):
            folder = self.lab.folder / name
            shutil.copytree(base, folder)
            how(folder)
            done = subprocess.run([BIN / "ropelab-server", "--data-dir", folder, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"],
                                  capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, 1, name)
            self.assertIn(str(folder), done.stderr)
            return done.stderr

        def newer(folder):
            import sqlite3
            with sqlite3.connect(folder / "ropelab.db") as database:
                database.execute("PRAGMA user_version = 999")

        def corrupt(folder):
            path = folder / "ropelab.db"
            data = bytearray(path.read_bytes())
            middle = len(data) // 2
            data[middle:middle + 20_000] = os.urandom(20_000)
            path.write_bytes(data)

        def a_file(folder):
            shutil.rmtree(folder)
            folder.write_text("no folder")

        self.assertIn("999", spoil("newer", newer))
        self.assertIn("restore a backup", spoil("corrupt", corrupt))
        self.assertIn("restore a backup", spoil("no database", lambda f: (f / "ropelab.db").write_bytes(os.urandom(100_000))))
        self.assertIn("director", spoil("a file", a_file))
        self.assertIn("artifacts", spoil("artifacts", lambda f: (shutil.rmtree(f / "artifacts"), (f / "artifacts").write_text(""))))


if __name__ == "__main__":
    unittest.main(verbosity=2)
