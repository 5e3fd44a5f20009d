"""How the runtime tells what it does: facts and spans, kept in its own journal first, then sent over OTLP."""

from runtime.telemetry.emitter import Backlog, Telemetry
from runtime.telemetry.export_settings import Endpoint, ExportSettings
from runtime.telemetry.spans import Spans

__all__ = ["Backlog", "Endpoint", "ExportSettings", "Spans", "Telemetry"]
