"""Files that agents and collectors left behind, each format in its own module."""

from ingest.importers.importer import Importer, Line, Piece, Problem, importer_for
from ingest.importers.transcript import LineTranscript, Transcript

# The order is that in which they are asked: those that know their input for sure first.
from ingest.importers.otlp_file import OtlpJson, OtlpProtobuf  # isort: skip
from ingest.importers.event_jsonl import EventDocument, EventLines, RuntimeSnapshot  # isort: skip
from ingest.importers.inspect_eval import InspectEval, InspectJson  # isort: skip
from ingest.importers.swe_agent import SweAgent  # isort: skip
from ingest.importers.codex_rollout import CodexRollout  # isort: skip
from ingest.importers.gemini_chat import GeminiChat, GeminiChatDocument  # isort: skip
from ingest.importers.agent_runner import AgentRunner  # isort: skip
from ingest.importers.langfuse import LangfuseExport, LangfuseLines  # isort: skip
from ingest.importers.claude_code import ClaudeCode, ClaudeCodeSubagent  # isort: skip
from ingest.importers.span_dump import SpanDump  # isort: skip

__all__ = [
    "AgentRunner",
    "ClaudeCode",
    "ClaudeCodeSubagent",
    "CodexRollout",
    "EventDocument",
    "EventLines",
    "GeminiChat",
    "GeminiChatDocument",
    "Importer",
    "InspectEval",
    "InspectJson",
    "LangfuseExport",
    "LangfuseLines",
    "Line",
    "LineTranscript",
    "OtlpJson",
    "OtlpProtobuf",
    "Piece",
    "Problem",
    "RuntimeSnapshot",
    "SpanDump",
    "SweAgent",
    "Transcript",
    "importer_for",
]
