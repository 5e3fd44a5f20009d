"""Every setting: name, type, default, one sentence. Read from `TACHOGRAPH_<NAME>` in the environment by edges only."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from models.address import Address
from models.errors import UsageError

PREFIX = "TACHOGRAPH_"
MIB = 1024 * 1024


def default_home() -> Path:
    """The folder in the user's data folder."""
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "tachograph"


class Settings(BaseModel):
    """What a user may set; each also says its unit."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, extra="forbid")

    home: Path = Field(default_factory=default_home)
    """Folder that holds the journal, the index, tokens and keys."""

    otlp_http: str = "127.0.0.1:4318"
    """Address of OTLP/HTTP, reads and health checks."""

    otlp_grpc: str = "127.0.0.1:4317"
    """Address of OTLP/gRPC."""

    max_body_bytes: int = Field(default=20 * MIB, gt=0)
    """Largest request after decompression, in bytes; larger ones are refused with 413."""

    max_items: int = Field(default=50_000, gt=0)
    """Most spans, log records or data points in one request; more are refused with 413."""

    in_flight_bytes: int = Field(default=64 * MIB, gt=0)
    """Bytes of requests held in memory at once; past that senders get 503 and try again."""

    max_blob_bytes: int = Field(default=256 * MIB, gt=0)
    """Largest blob, in bytes; larger ones are refused with 413."""

    blob_reserve_bytes: int = Field(default=512 * MIB, ge=0)
    """Disk room that blobs leave to the journal, in bytes; when less is free they are refused with 507 until it is."""

    header_timeout_s: float = Field(default=10.0, gt=0)
    """Seconds a client may take to send its request headers."""

    body_timeout_s: float = Field(default=30.0, gt=0)
    """Seconds a client may take to send its request body; for a blob, each MiB of it."""

    drain_timeout_s: float = Field(default=8.0, gt=0)
    """Seconds that running requests get to finish after SIGTERM."""

    segment_bytes: int = Field(default=64 * MIB, gt=0)
    """Size at which a journal segment is closed and, soon after, compressed, in bytes."""

    dashboard: str = "127.0.0.1:8501"
    """Address of the dashboard."""

    allowed_hosts: str = ""
    """Names, comma-separated, besides this machine's own that a browser may use for reads while no token is set."""

    index_memory_bytes: int = Field(default=2048 * MIB, ge=128 * MIB)
    """Memory that DuckDB may use for loading and queries, in bytes; the index ends a query that takes much more."""

    query_timeout_s: float = Field(default=10.0, gt=0)
    """Seconds a query may take, unless it asks for more or less."""

    query_timeout_max_s: float = Field(default=60.0, gt=0)
    """Seconds a query may ask for at most."""

    query_rows: int = Field(default=10_000, gt=0)
    """Rows in the answer to a query over HTTP, unless it asks for more or less."""

    query_rows_max: int = Field(default=1_000_000, gt=0)
    """Rows a query over HTTP may ask for at most."""

    query_result_bytes: int = Field(default=64 * MIB, gt=0)
    """Largest answer to a query, in bytes."""

    stream_stall_s: float = Field(default=30.0, gt=0)
    """Seconds a reader of the live tail may take nothing before it is cut off; it can resume."""

    price_file: Path | None = None
    """Price file of your own that adds models or overrides the price table; docs/prices.md shows the format."""

    @property
    def beyond_loopback(self) -> bool:
        """Whether other machines can reach any of the addresses."""
        return not all(Address.parse(text).loopback for text in (self.otlp_http, self.otlp_grpc))

    @classmethod
    def load(cls, environment: Mapping[str, str], **given: object) -> Self:
        """The settings of the environment, overruled by what was `given` and is not None."""
        values: dict[str, object] = {
            name: environment[PREFIX + name.upper()]
            for name in cls.model_fields
            if PREFIX + name.upper() in environment
        }
        values |= {name: value for name, value in given.items() if value is not None}
        try:
            return cls.model_validate(values)
        except ValidationError as problem:
            first = problem.errors()[0]
            name = str(first["loc"][0])
            raise UsageError(f"setting {name} ({PREFIX}{name.upper()}): {first['msg']}") from None
