"""The standard environment, as its specification defines it."""

from pathlib import Path

import pytest

from models.errors import UsageError
from runtime.telemetry.export_settings import Endpoint, ExportSettings

P = "OTEL_EXPORTER_OTLP_"


def logs(**environment: str) -> Endpoint:
    found = ExportSettings.from_environment(environment).logs
    assert found is not None
    return found


def test_without_any_variable_it_speaks_http_to_this_machine() -> None:
    assert ExportSettings.from_environment({}) == ExportSettings()
    assert logs().url == "http://localhost:4318/v1/logs"


def test_the_shared_address_gets_the_signal_s_path_and_a_signal_s_own_is_taken_as_it_is() -> None:
    told = ExportSettings.from_environment(
        {f"{P}ENDPOINT": "https://host:1/base/", f"{P}TRACES_ENDPOINT": "http://other:2/spans"}
    )
    assert told.logs is not None
    assert told.traces is not None
    assert (told.logs.url, told.traces.url) == ("https://host:1/base/v1/logs", "http://other:2/spans")


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ({}, "http://localhost:4317"),
        ({f"{P}ENDPOINT": "http://host:1"}, "http://host:1"),
        ({f"{P}ENDPOINT": "host:1"}, "https://host:1"),
        ({f"{P}ENDPOINT": "host:1", f"{P}INSECURE": "true"}, "http://host:1"),
    ],
)
def test_grpc_addresses(environment: dict[str, str], url: str) -> None:
    found = logs(**{f"{P}PROTOCOL": "grpc"} | environment)
    assert (found.protocol, found.url) == ("grpc", url)


def test_headers_are_decoded_merged_and_never_shown() -> None:
    found = logs(**{f"{P}HEADERS": "authorization=Bearer%20secret, x=1", f"{P}LOGS_HEADERS": "x=2"})
    assert found.headers == {"authorization": "Bearer secret", "x": "2"}
    assert "secret" not in repr(found)


def test_a_signal_s_own_variables_win() -> None:
    found = logs(
        **{
            f"{P}TIMEOUT": "3000",
            f"{P}LOGS_TIMEOUT": "1500",
            f"{P}COMPRESSION": "none",
            f"{P}LOGS_COMPRESSION": "gzip",
            f"{P}CERTIFICATE": "/etc/ca.pem",
        }
    )
    assert (found.timeout_s, found.compression, found.certificate) == (1.5, "gzip", Path("/etc/ca.pem"))


def test_service_resource_sampler_and_batches() -> None:
    found = ExportSettings.from_environment(
        {
            "OTEL_RESOURCE_ATTRIBUTES": "service.name=a,team=pay%2Cments",
            "OTEL_TRACES_SAMPLER": "traceidratio",
            "OTEL_TRACES_SAMPLER_ARG": "0.25",
            "OTEL_SDK_DISABLED": "TRUE",
            "OTEL_BLRP_SCHEDULE_DELAY": "1000",
            "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE": "64",
        }
    )
    assert (found.service_name, found.resource_attributes) == ("a", {"team": "pay,ments"})
    assert (found.sampler, found.sampler_ratio, found.disabled) == ("traceidratio", 0.25, True)
    assert (found.linger_s, found.max_batch_records) == (1.0, 64)
    named = ExportSettings.from_environment({"OTEL_SERVICE_NAME": "b", "OTEL_RESOURCE_ATTRIBUTES": "service.name=a"})
    assert (named.service_name, named.resource_attributes) == ("b", {})


def test_a_signal_may_be_sent_nowhere() -> None:
    assert ExportSettings.from_environment({"OTEL_TRACES_EXPORTER": "none"}).traces is None


@pytest.mark.parametrize(
    "wrong",
    [
        {f"{P}PROTOCOL": "http/json"},
        {f"{P}COMPRESSION": "brotli"},
        {f"{P}TIMEOUT": "soon"},
        {f"{P}TIMEOUT": "-1"},
        {f"{P}HEADERS": "novalue"},
        {"OTEL_LOGS_EXPORTER": "zipkin"},
        {"OTEL_TRACES_SAMPLER": "sometimes"},
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "7"},
    ],
)
def test_a_value_that_makes_no_sense_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        ExportSettings.from_environment(wrong)


def test_an_empty_variable_counts_as_unset() -> None:
    assert ExportSettings.from_environment({f"{P}ENDPOINT": "", f"{P}TIMEOUT": " "}) == ExportSettings()
