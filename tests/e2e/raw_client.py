"""Speaks to the server's gRPC port with messages that no client or worker of ours would send."""

import hashlib
import importlib
import pathlib
import queue
import subprocess
import sys
import tempfile

try:
    import grpc
    from google.protobuf import text_format
except ImportError:
    grpc = None

from harness import SKIPPED, SOURCE

MODULES = ["experiment_service", "worker_service", "spec", "reading", "measurement", "model"]


def need_grpc():
    if grpc is None:
        print("skipped: python3-grpcio and python3-protobuf are not installed")
        sys.exit(SKIPPED)


def load():
    """The modules that protoc makes of our .proto files, by name."""
    made = pathlib.Path(tempfile.mkdtemp(prefix="ropelab-pb-"))
    protos = sorted((SOURCE / "proto/ropelab/v1").glob("*.proto"))
    subprocess.run(["protoc", f"-I{SOURCE / 'proto'}", f"--python_out={made}", *protos], check=True)
    sys.path.insert(0, str(made))
    return {name: importlib.import_module(f"ropelab.v1.{name}_pb2") for name in MODULES}


class Raw:
    def __init__(self, address, modules):
        self.pb = modules
        self.channel = grpc.insecure_channel(
            address, options=[("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1),
                              ("grpc.use_local_subchannel_pool", 1)])

    def close(self):
        self.channel.close()

    def call_bytes(self, method, body, timeout=20):
        """(code name, answer or message) of an experiment-service call with these very bytes."""
        call = self.channel.unary_unary(f"/ropelab.v1.ExperimentService/{method}")
        try:
            return "OK", call(body, timeout=timeout)
        except grpc.RpcError as error:
            return error.code().name, error.details()

    def call(self, method, request, timeout=20):
        return self.call_bytes(method, request.SerializeToString(), timeout)

    def spec(self, text):
        return text_format.Parse(text, self.pb["spec"].ExperimentSpec())

    def submit(self, text, request_id, user="raw", timeout=20):
        """(code, SubmitResponse or message)"""
        service = self.pb["experiment_service"]
        request = service.SubmitRequest(request_id=request_id, user=user)
        request.submission.experiment.CopyFrom(self.spec(text))
        code, answer = self.call("Submit", request, timeout)
        return code, service.SubmitResponse.FromString(answer) if code == "OK" else answer

    def worker(self):
        return RawWorker(self)


class RawWorker:
    """One stream. `say` sends, `hear` gives the next message of a kind, or the stream's end as (code, details)."""

    def __init__(self, raw):
        self.pb = raw.pb["worker_service"]
        self.out = queue.Queue()
        call = raw.channel.stream_stream("/ropelab.v1.WorkerService/Connect",
                                         request_serializer=lambda m: m if isinstance(m, bytes) else m.SerializeToString(),
                                         response_deserializer=self.pb.ServerMessage.FromString)
        self.stream = call(iter(self.out.get, None))

    def say(self, **parts):
        message = self.pb.WorkerMessage()
        for name, value in parts.items():
            getattr(message, name).CopyFrom(value)
        self.out.put(message)
        return self

    def say_bytes(self, body):
        self.out.put(body)
        return self

    def hang_up(self):
        self.out.put(None)

    def cancel(self):
        self.stream.cancel()
        self.out.put(None)

    def hello(self, name, incarnation="one", first=1, last=1, numerics="0123456789abcdef", models=()):
        hello = self.pb.Hello(worker_id=name, incarnation=incarnation, protocol_first=first, protocol_last=last,
                              engine_version="0", build="raw")
        hello.numerics.hash = numerics
        hello.device.kind = "cpu"
        hello.models.extend(models)
        return hello

    def hear(self, kind=None, most=200):
        """The next message of this kind (any, if None), the others passed over; or the end as (code name, details)."""
        try:
            for _ in range(most):
                message = next(self.stream)
                found = message.WhichOneof("message")
                if kind is None or found == kind:
                    return getattr(message, found)
        except StopIteration:
            return "OK", ""
        except grpc.RpcError as error:
            return error.code().name, error.details()
        raise AssertionError(f"no {kind} in {most} messages")

    def reading(self, token, sequence, body, sha256=None):
        sha = hashlib.sha256(body).hexdigest() if sha256 is None else sha256
        self.say(reading=self.pb.ReadingMessage(token=token, sequence=sequence, body=body, sha256=sha))

    def completion(self, token, bodies, digest=None, sequence=None):
        if digest is None:
            digest = hashlib.sha256("".join(hashlib.sha256(b).hexdigest() for b in bodies).encode()).hexdigest()
        self.say(completion=self.pb.Completion(token=token, sequence=sequence or len(bodies) + 1, digest=digest,
                                               device_milliseconds=1))
