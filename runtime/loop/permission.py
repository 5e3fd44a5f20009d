"""The plain rule: reading is allowed, writing asks; each decision is told with its ground."""

from __future__ import annotations

from typing import Literal, NamedTuple

from models.governance_values import PermissionDecision
from runtime.loop.tools import MEMORY, Tool
from runtime.loop.work import TurnSettings

READING_RULE = "builtin:reading-is-allowed"
WRITING_RULE = "builtin:writing-asks"
NOTING_RULE = "builtin:noting-is-allowed"

ALLOW, DENY = "allow", "deny"
Verdict = Literal["allow", "deny", "ask", "unavailable"]


class Ruling(NamedTuple):
    """What may be done, by whom that was decided, and why."""

    decision: Verdict
    source: str
    reason: str
    rule: str

    def told(self, decision_id: str) -> PermissionDecision:
        """The same as a value that facts carry."""
        return PermissionDecision(
            decision_id=decision_id,
            decision=self.decision,
            decision_source=self.source,
            decision_reason=self.reason,
            mode="on_request",
            rule_refs=(self.rule,),
            scope="call",
        )


def rule_on(tool: Tool, settings: TurnSettings) -> Ruling:
    """Whether a tool may be called in a turn."""
    if tool.run is None:
        if settings.interactive:
            return Ruling("allow", "rule", "a question to a person changes nothing", READING_RULE)
        return Ruling("unavailable", "mode", "nobody can be asked in non-interactive mode", READING_RULE)
    if MEMORY in tool.capabilities:
        return Ruling("allow", "rule", "a note for the session changes nothing outside of it", NOTING_RULE)
    if tool.is_read_only:
        return Ruling("allow", "rule", "reading inside the workspace is allowed", READING_RULE)
    if settings.sandbox_policy == "read_only":
        return Ruling("deny", "sandbox", "the workspace is read-only in this turn", WRITING_RULE)
    if settings.approval_policy == "deny":
        return Ruling("deny", "rule", "this turn's approval policy denies writing", WRITING_RULE)
    if not settings.interactive:
        return Ruling("deny", "mode", "writing needs a person's approval, and nobody can be asked", WRITING_RULE)
    return Ruling("ask", "rule", "writing needs a person's approval", WRITING_RULE)


REFUSALS: dict[str, str] = {
    "denied": "The person denied this call. Do not try the same again; go on otherwise or ask what is wanted.",
    "timed_out": "Nobody decided about this call in time, so it was not made.",
    "cancelled": "The question about this call was called off, so it was not made.",
    "deny": "This call is not allowed",
    "unavailable": "This call is not possible",
}
"""What the model is told when a call was not made."""
