"""The end: a last question meets an empty quota, and the session is closed with its evidence exported."""

from datetime import timedelta

from models.payloads import cost, evidence, output, routing, session, thread, turn
from models.values import CandidateModel, CandidateModelSet
from runtime.samples.moves import GPT, HAIKU, SONNET, bill, hooked
from runtime.samples.opening import one_turn, phase, snapshot_now
from runtime.samples.script import Script, blob, digest


def close_session(script: Script) -> None:
    """The last turn and what comes after it."""
    with one_turn(script, "Also translate the changelog into German."):
        begun = script.now
        _no_model(script)
        bill(script, "session", script.of_session)
        script.tell(
            turn.TurnFailed(
                failure_category="quota_exhausted",
                message="No model may be used before the quota is renewed.",
                retryable=True,
                interrupted=False,
                duration_ms=script.since(begun),
                status="failed",
            )
        )
        hooked(script, "stop", "notify.sh", reason="desktop notification sent")
    _clean_up(script)
    _export(script)
    script.tell(thread.ThreadUpdated(reason="the session ends", changed_fields=("status",), status="completed"))
    snapshot_now(script)
    script.tell(
        session.SessionUpdated(
            title="Flaky retry test in ledgerd (fixed)",
            changed_fields=("title", "closed_at"),
            closed_at=script.now,
            metadata={"commit": "b74e2a9"},
            status="completed",
        )
    )


def _no_model(script: Script) -> None:
    script.tell(
        cost.QuotaBlocked(
            kind="quota",
            name="daily_output_tokens",
            scope="account",
            status="blocked",
            unit="tokens",
            used=1_000_000.0,
            maximum=1_000_000.0,
            remaining=0.0,
            resets_at=script.later(30_000),
            provider_name=SONNET.provider,
            blocked="model call",
            message="The account's output tokens for today are used up.",
            requires_user_override=True,
        )
    )
    reasons = {SONNET: "quota exhausted", HAIKU: "quota exhausted", GPT: "excluded by the workspace's data policy"}
    excluded = tuple(
        CandidateModel(provider_name=which.provider, model_name=which.name, excluded_reason=reason)
        for which, reason in reasons.items()
    )
    script.tell(
        routing.RoutingNotPossible(
            reason="Every model is excluded.",
            candidates=CandidateModelSet(count=0, excluded=excluded, quota_gaps=(SONNET.provider,)),
            candidate_count=0,
            requires_user_override=True,
            status="blocked",
        )
    )
    phase(script, "blocked", "routing", "No model may be used")


def _clean_up(script: Script) -> None:
    script.tell(
        output.OutputExpired(
            output_ref=blob("report of an earlier session"),
            source_kind="process",
            stored_at=script.now - timedelta(days=30),
            expired_at=script.now,
            size_bytes=184_320,
            retention={"keep_days": 30},
        )
    )


def _export(script: Script) -> None:
    """What a reviewer gets."""
    with (
        script.within(evidence_id=script.name("ev")),
        script.spans.evidence_export(script.ids, evidence_kind="pack"),
    ):
        script.wait(420)
        script.tell(
            evidence.EvidenceChanged(
                change="exported",
                evidence_kind="pack",
                pack_ref=blob(f"pack of {len(script.events)} events"),
                scope={"session_id": script.ids.session_id or ""},
                signals={"logs": "exported", "traces": "exported", "metrics": "not_applicable"},
                known_gaps=(),
                sha256=digest(f"pack of {len(script.events)} events"),
                status="completed",
            )
        )
