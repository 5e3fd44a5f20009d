"""The answers OTLP prescribes, in the encoding of the request."""

import orjson
from google.rpc.status_pb2 import Status

from ingest.otlp.check import Checked
from ingest.otlp.signals import SIGNALS, Encoding, SignalName


def answer(signal: SignalName, encoding: Encoding, checked: Checked) -> bytes:
    """The response to an accepted request; `partial_success` is set only if records were refused."""
    name = SIGNALS[signal].rejected_field
    if encoding == "json":
        if not checked.rejected:
            return b"{}"
        first, *rest = name.split("_")
        camel = first + "".join(word.capitalize() for word in rest)
        return orjson.dumps({"partialSuccess": {camel: str(checked.rejected), "errorMessage": checked.message}})
    if not checked.rejected:
        return b""
    success = {name: checked.rejected, "error_message": checked.message}
    return SIGNALS[signal].response(partial_success=success).SerializeToString()


def status_body(encoding: Encoding, code: int, message: str) -> bytes:
    """A google.rpc.Status, the body of every refusal; `code` is the gRPC code."""
    if encoding == "json":
        return orjson.dumps({"code": code, "message": message})
    return bytes(Status(code=code, message=message).SerializeToString())
