"""Where telemetry goes and how: the standard `OTEL_*` environment as plain values."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar, get_args
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from models.errors import UsageError

Protocol = Literal["http/protobuf", "grpc"]
Compression = Literal["none", "gzip"]
SamplerName = Literal[
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
]

SERVICE_NAME = "tachograph-runtime"
DEFAULT_ENDPOINTS: dict[str, str] = {"http/protobuf": "http://localhost:4318", "grpc": "http://localhost:4317"}
PREFIX = "OTEL_EXPORTER_OTLP_"
Values = TypeVar("Values", bound="Fixed")


class Fixed(BaseModel):
    """Plain values that do not change."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, extra="forbid")


class Endpoint(Fixed):
    """Where one signal is sent."""

    url: str
    """For HTTP the whole address, such as `http://localhost:4318/v1/logs`; for gRPC scheme, host and port."""

    protocol: Protocol = "http/protobuf"
    """What is spoken there."""

    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    """Sent with each request; may hold a token, so they are never shown."""

    compression: Compression = "none"
    """How request bodies are compressed."""

    timeout_s: float = Field(default=10.0, gt=0)
    """How long an answer may take, in seconds."""

    certificate: Path | None = None
    """Certificates to trust instead of the system's."""

    client_certificate: Path | None = None
    """Our own certificate, where the receiver asks for one."""

    client_key: Path | None = None
    """The key of our own certificate."""


class ExportSettings(Fixed):
    """Everything that can be set about sending; the defaults speak to a collector on this machine."""

    logs: Endpoint | None = Endpoint(url=DEFAULT_ENDPOINTS["http/protobuf"] + "/v1/logs")
    """Where facts are sent; None: nowhere, they stay in the journal."""

    traces: Endpoint | None = Endpoint(url=DEFAULT_ENDPOINTS["http/protobuf"] + "/v1/traces")
    """Where spans are sent; None: nowhere, they stay in the journal."""

    service_name: str = SERVICE_NAME
    """The `service.name` of all telemetry."""

    resource_attributes: dict[str, str] = Field(default_factory=dict)
    """Further attributes of the resource."""

    disabled: bool = False
    """Whether to make no spans and send nothing; facts are still kept in the journal and sent once it is enabled."""

    sampler: SamplerName = "parentbased_always_on"
    """Which spans are kept. Facts are never sampled."""

    sampler_ratio: Annotated[float, Field(ge=0, le=1)] = 1.0
    """The share of traces that a ratio sampler keeps."""

    linger_s: Annotated[float, Field(ge=0)] = 0.2
    """How long the sender waits for more before it sends a small request, in seconds."""

    max_batch_records: Annotated[int, Field(gt=0)] = 512
    """Most facts and spans sent together."""

    max_batch_bytes: Annotated[int, Field(gt=0)] = 4 * 1024 * 1024
    """Most bytes sent together, unless one record alone is larger."""

    first_backoff_s: Annotated[float, Field(gt=0)] = 0.2
    """The pause after a first failure, in seconds; it doubles with each further one."""

    max_backoff_s: Annotated[float, Field(gt=0)] = 10.0
    """The longest such pause, in seconds; a receiver's own Retry-After is kept to whatever it says."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """The settings of the standard variables; raises UsageError for a value that makes no sense."""
        told = {name: value.strip() for name, value in environment.items() if value.strip()}
        resource = _pairs(told, "OTEL_RESOURCE_ATTRIBUTES")
        values: dict[str, object] = {
            "logs": _endpoint(told, "LOGS"),
            "traces": _endpoint(told, "TRACES"),
            "service_name": told.get("OTEL_SERVICE_NAME") or resource.pop("service.name", SERVICE_NAME),
            "resource_attributes": {name: text for name, text in resource.items() if name != "service.name"},
            "disabled": told.get("OTEL_SDK_DISABLED", "").lower() == "true",
            **_sampler(told),
        }
        if "OTEL_BLRP_SCHEDULE_DELAY" in told:
            values["linger_s"] = _number(told, "OTEL_BLRP_SCHEDULE_DELAY") / 1000
        if "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE" in told:
            values["max_batch_records"] = int(_number(told, "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE"))
        return _checked(cls, values)


def _checked(shape: type[Values], values: Mapping[str, object]) -> Values:
    try:
        return shape.model_validate(values)
    except ValidationError as problem:
        first = problem.errors()[0]
        raise UsageError(f"telemetry setting {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _endpoint(told: Mapping[str, str], signal: str) -> Endpoint | None:
    exporter = told.get(f"OTEL_{signal}_EXPORTER", "otlp").lower()
    if exporter == "none":
        return None
    if exporter != "otlp":
        raise UsageError(f"OTEL_{signal}_EXPORTER is {exporter!r}; otlp and none are offered")
    values = {
        field: text
        for field in ("certificate", "client_certificate", "client_key")
        if (text := _for_signal(told, signal, field.upper()))
    }
    protocol = _for_signal(told, signal, "PROTOCOL") or "http/protobuf"
    if protocol not in get_args(Protocol):
        raise UsageError(f"{PREFIX}PROTOCOL is {protocol!r}; http/protobuf and grpc are offered")
    timeout = next((name for name in _names(signal, "TIMEOUT") if name in told), None)
    return _checked(
        Endpoint,
        {
            "url": _url(told, signal, protocol),
            "protocol": protocol,
            "headers": _pairs(told, f"{PREFIX}HEADERS") | _pairs(told, f"{PREFIX}{signal}_HEADERS"),
            "compression": _for_signal(told, signal, "COMPRESSION") or "none",
            "timeout_s": _number(told, timeout) / 1000 if timeout else 10.0,
            **values,
        },
    )


def _url(told: Mapping[str, str], signal: str, protocol: str) -> str:
    """A signal's own address is taken as it is; over HTTP the shared one gets the signal's path."""
    own = told.get(f"{PREFIX}{signal}_ENDPOINT")
    shared = told.get(f"{PREFIX}ENDPOINT", DEFAULT_ENDPOINTS[protocol])
    if protocol == "grpc":
        url = own or shared
        insecure = (_for_signal(told, signal, "INSECURE") or "").lower() == "true"
        return url if "://" in url else f"{'http' if insecure else 'https'}://{url}"
    return own or f"{shared.rstrip('/')}/v1/{signal.lower()}"


def _names(signal: str, name: str) -> tuple[str, str]:
    return f"{PREFIX}{signal}_{name}", f"{PREFIX}{name}"


def _for_signal(told: Mapping[str, str], signal: str, name: str) -> str | None:
    return next((told[key] for key in _names(signal, name) if key in told), None)


def _pairs(told: Mapping[str, str], name: str) -> dict[str, str]:
    """A list such as `a=1,b=2`; values are percent-encoded."""
    found = {}
    for part in filter(None, (part.strip() for part in told.get(name, "").split(","))):
        key, separator, value = part.partition("=")
        if not separator or not key.strip():
            raise UsageError(f"{name} is not a list of key=value pairs")
        found[unquote(key.strip())] = unquote(value.strip())
    return found


def _number(told: Mapping[str, str], name: str) -> float:
    try:
        return float(told[name])
    except ValueError:
        raise UsageError(f"{name} is {told[name]!r}, not a number") from None


def _sampler(told: Mapping[str, str]) -> dict[str, object]:
    name = told.get("OTEL_TRACES_SAMPLER", "parentbased_always_on").lower()
    if name not in get_args(SamplerName):
        raise UsageError(f"OTEL_TRACES_SAMPLER is {name!r}; one of {', '.join(get_args(SamplerName))} is offered")
    ratio = _number(told, "OTEL_TRACES_SAMPLER_ARG") if "OTEL_TRACES_SAMPLER_ARG" in told else 1.0
    return {"sampler": name, "sampler_ratio": ratio if name.endswith("ratio") else 1.0}
