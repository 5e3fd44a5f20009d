"""One call of a tool: permission, execution, result, each as facts."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import orjson

from models.governance_values import PermissionDecision
from models.payload import Payload
from models.payloads.action import ActionRequired, ActionResolved
from models.payloads.artifact import ArtifactChanged
from models.payloads.permission import PermissionEvaluated, PermissionRequested, PermissionResolved
from models.payloads.tool import ToolArgs, ToolFailed, ToolProgress, ToolResult, ToolStarted
from runtime.contents.keeping import preview
from runtime.kernel import Draft
from runtime.loop import task_wait
from runtime.loop.action import Action
from runtime.loop.permission import REFUSALS, Ruling, rule_on
from runtime.loop.progress import Progress, Report
from runtime.loop.results import keep
from runtime.loop.tools import MEMORY, Observation, Tool
from runtime.loop.workspace import ToolFault
from runtime.loop.write_tools import Change
from runtime.telemetry.spans import failed
from views.state.talk_records import ActionState

if TYPE_CHECKING:
    from runtime.loop.work import Work

ARGUMENT_BYTES = 2_048
"""Larger arguments are told by their ref alone."""

MASKED = "[REDACTED:"
ANSWER, DECLINE = "answer", "decline"
NOTE = {"memory_scope": "session"}
"""Marks a result that is a note for the whole session; the state gathers them."""


def decision_name(tool_call_id: str) -> str:
    """The name of the decision on a call, and of the action in which a person makes it: the same after a restart."""
    return f"{tool_call_id}.decision"


class ToolCallRun:
    """Carries one call from where it is, by the state, to its end."""

    def __init__(self, work: Work, action: Action, tool_call_id: str, *, as_it_came: bool) -> None:
        self._work = work
        self._mask = work.runtime.contents.redactor.mask_text
        self._action = action.model_copy(update={"title": self._mask(action.title)[0]})
        self._tool = work.runtime.tools.find(action.operation)
        self._call_id = tool_call_id
        self._as_it_came = as_it_came
        """Whether the arguments are the model's own, and not read back from the store, where secrets are masked."""

        self._ids = work.ids.model_copy(update={"tool_call_id": tool_call_id, "step_id": f"{tool_call_id}.step"})
        self._room = asyncio.Semaphore()
        self._executing = False
        self._begun = work.now
        self._names = {"tool_name": action.operation, "item_kind": self._tool.item_kind if self._tool else None}

    def _draft(self, payload: Payload, **ids: str | None) -> Draft:
        return Draft(payload, self._ids.model_copy(update=ids) if ids else self._ids)

    async def skip(self, category: str, message: str) -> None:
        """Tell that the call is not made."""
        await self._work.record(*self._failure(category, message))

    async def run(self, room: asyncio.Semaphore) -> bool:
        """Make the call, when there is room for it; whether it succeeded."""
        self._room = room
        spans = self._work.runtime.telemetry.spans
        with spans.tool_call(self._ids, tool_name=self._action.operation) as span:
            try:
                return await self._run()
            except ToolFault as fault:
                failed(span, fault.category, fault.message)
                await self._work.record(*self._failure(fault.category, fault.message))
                return False

    async def _run(self) -> bool:
        action, tool = self._action, self._tool
        if action.fault is not None or tool is None:
            started = self._started(None)
            category = "unknown_tool" if tool is None else "invalid_arguments"
            await self._work.record(*started, *self._failure(category, action.fault or "there is no such tool"))
            return False
        if not tool.is_read_only and not self._as_it_came and MASKED in orjson.dumps(action.input).decode():
            raise ToolFault(
                "arguments_masked",
                "The runtime was restarted, and secrets in these arguments were masked in its record: ask again.",
            )
        allowed = await self._permitted(tool)
        if allowed is None:
            return False
        if tool.run is None:
            return await self._ask_person(allowed)
        await self._work.record(*allowed)
        return await self._execute(tool)

    # --- permission --------------------------------------------------------------------------------------------

    async def _permitted(self, tool: Tool) -> list[Draft] | None:
        """Facts up to the start of the call, to be stored; None: it may not be made, and that is on record."""
        state = self._work.state
        known = state.permissions.get(decision_name(self._call_id))
        if tool.run is None and self._call_id in state.tool_calls and state.tool_calls[self._call_id].started_at:
            return []  # the question was put before a restart
        ruling = rule_on(tool, self._work.settings)
        decision = ruling.told(decision_name(self._call_id))
        if known is None:
            evaluated = self._draft(self._evaluated(decision))
            if ruling.decision == "allow":
                return [evaluated, *self._started(decision)]
            if ruling.decision != "ask":
                message = f"{REFUSALS[ruling.decision]}: {ruling.reason}."
                await self._refuse(ruling.decision, message, decision, evaluated)
                return None
            await self._work.record(evaluated, *self._requests(ruling, tool))
        return await self._decided(decision)

    def _evaluated(self, decision: PermissionDecision) -> PermissionEvaluated:
        told = decision.model_dump(exclude_none=True)
        return PermissionEvaluated(
            **told,
            subject_kind="tool",
            tool_name=self._action.operation,
            command_summary=self._action.title,
            path_check="inside the workspace",
            input_ref=self._input_ref(),
        )

    def _requests(self, ruling: Ruling, tool: Tool) -> list[Draft]:
        action_id, prompt = decision_name(self._call_id), f"Allow {self._action.title}?"
        destructive = tool.is_destructive and self._exists()
        requested = PermissionRequested(
            subject_kind="file",
            tool_name=self._action.operation,
            command_summary=self._action.title,
            approval_action_id=action_id,
            prompt=prompt,
            decisions=("allow", "deny"),
            destructive=destructive,
            impact_scope=", ".join(self._action.resources.write) or None,
            rollback_advice="the difference is kept with the artifact" if destructive else "delete the new file",
            rule_refs=(ruling.rule,),
            expires_at=self._expires_at(),
            input_ref=self._input_ref(),
            status="waiting_permission",
        )
        required = self._required("permission", prompt, ("allow", "deny"), "deny", "waiting_permission")
        return [self._draft(requested, action_id=action_id), required]

    def _required(
        self, kind: str, prompt: str, decisions: tuple[str, ...], default: str, status: str, **more: object
    ) -> Draft:
        action_id = decision_name(self._call_id)
        payload = ActionRequired(
            action_id=action_id,
            tool_call_id=self._call_id,
            action_type=kind,
            decision_kind="user",
            prompt=prompt,
            decisions=decisions,
            default_decision=default,
            expires_at=self._expires_at(),
            scope="call",
            status=status,
            **more,
        )
        return self._draft(payload, action_id=action_id)

    def _exists(self) -> bool:
        try:
            return self._work.runtime.tools.workspace.locate(str(self._action.input.get("path"))).exists()
        except ToolFault:
            return False

    def _expires_at(self) -> datetime | None:
        seconds = self._work.settings.action_timeout_s
        return None if seconds is None else self._work.now + timedelta(seconds=seconds)

    async def _decided(self, decision: PermissionDecision) -> list[Draft] | None:
        """Wait for the person's word and tell what it means."""
        action = await self._wait()
        outcome = {"timed_out": "timed_out", "cancelled": "cancelled"}.get(action.status)
        outcome = outcome or ("allowed" if action.decision == "allow" else "denied")
        final = decision.model_copy(
            update={
                "decision": "allow" if outcome == "allowed" else "deny",
                "decision_source": "human" if outcome in ("allowed", "denied") else "rule",
                "decision_reason": action.reason or f"{outcome} by {action.decided_by}",
                "approval_action_id": action.action_id,
            }
        )
        known = self._work.state.permissions.get(decision_name(self._call_id))
        resolved: list[Draft] = []
        if known is None or known.status != "resolved":
            payload = PermissionResolved(
                **final.model_dump(exclude_none=True), outcome=outcome, wait_ms=action.wait_ms, status="resolved"
            )
            resolved = [self._draft(payload, action_id=action.action_id)]
        if outcome == "allowed":
            return [*resolved, *self._started(final)]
        await self._refuse(outcome, REFUSALS[outcome], final, *resolved)
        return None

    async def _refuse(self, outcome: str, message: str, decision: PermissionDecision, *before: Draft) -> None:
        category = {"timed_out": "permission_timed_out", "cancelled": "cancelled", "unavailable": "no_person"}
        failure = self._failure(category.get(outcome, "permission_denied"), message, decision)
        await self._work.record(*before, *failure)

    async def _wait(self) -> ActionState:
        """Wait until the open action is decided, or its time is up; only `respond_action` decides."""
        kernel, session_id, action_id = self._work.runtime.kernel, self._work.session_id, decision_name(self._call_id)
        action = self._work.state.actions[action_id]
        await task_wait.hold(self._work, action)
        left_s = None
        if action.expires_at is not None:
            left_s = max((action.expires_at - self._work.now).total_seconds(), 0.0)
        try:
            async with asyncio.timeout(left_s):
                state = await kernel.until(session_id, lambda now: now.actions[action_id].status != "open")
            action = state.actions[action_id]
        except TimeoutError:
            action = await self._time_out(action)
        await task_wait.release(self._work, action)
        return action

    async def _time_out(self, action: ActionState) -> ActionState:
        kernel, session_id = self._work.runtime.kernel, self._work.session_id
        async with kernel.writing(session_id) as state:
            if state.actions[action.action_id].status == "open":  # nobody was quicker
                waited = self._work.elapsed_ms(action.requested_at)
                payload = ActionResolved(
                    action_id=action.action_id, decision=action.default_decision or "deny", confirmed=False,
                    decided_by="timeout", reason="nobody decided in time", wait_ms=waited, status="timed_out",
                )  # fmt: skip
                await kernel.commit(session_id, [self._draft(payload, action_id=action.action_id)])
        return kernel.state(session_id).actions[action.action_id]

    # --- execution ---------------------------------------------------------------------------------------------

    def _input_ref(self) -> str | None:
        return self._work.runtime.contents.stage(orjson.dumps(self._action.input), media_type="application/json").ref

    def _started(self, decision: PermissionDecision | None) -> list[Draft]:
        tool = self._tool
        content = orjson.dumps(self._action.input)
        kept, masked = self._work.runtime.contents.staged(content, media_type="application/json")
        started = ToolStarted(
            **self._names,
            tool_call_id=self._call_id,
            runtime_owner="local",
            input_ref=kept.ref,
            is_read_only=tool.is_read_only if tool else None,
            is_destructive=tool.is_destructive if tool else None,
            permission=decision,
            status="running",
        )
        args = ToolArgs(
            **self._names,
            tool_call_id=self._call_id,
            arguments=self._action.input if len(content) <= ARGUMENT_BYTES and not masked else None,
            input_ref=kept.ref,
            preview=self._action.title,
            size_bytes=kept.size_bytes,
            redacted=bool(masked),
        )
        return [self._draft(started), self._draft(args)]

    async def _execute(self, tool: Tool) -> bool:
        async with self._room:  # who waits for a person takes nobody's room
            return await self._executed(tool)

    async def _executed(self, tool: Tool) -> bool:
        queued_ms = self._work.elapsed_ms(self._begun)
        begun = self._work.now
        executor = self._work.runtime.executors[self._action.executor.type]
        self._executing = True
        doing = asyncio.ensure_future(executor.execute(self._action, self._report()))
        try:
            observation = await (doing if tool.is_read_only else asyncio.shield(doing))
        except asyncio.CancelledError:
            if tool.is_read_only:
                raise
            # What is being written is written to its end, so that the record says what really happened.
            await asyncio.wait({doing})
            if doing.exception() is None:
                await self._work.record(*self._result(doing.result(), begun, queued_ms))
            raise
        finally:
            self._executing = False
        await self._work.record(*self._result(observation, begun, queued_ms))
        return True

    def _report(self) -> Report:
        """How a tool tells how far it is, from its own thread; after its end it is not heard any more."""
        loop = asyncio.get_running_loop()

        def tell(progress: Progress) -> None:
            if self._executing:
                self._work.recorder.tell(self._draft(self._progress(progress)))

        def report(progress: Progress) -> None:
            loop.call_soon_threadsafe(tell, progress)

        return report

    def _progress(self, progress: Progress) -> ToolProgress:
        return ToolProgress(
            **self._names,
            tool_call_id=self._call_id,
            message=progress.message,
            progress=progress.done,
            preview=preview(self._mask(progress.latest)[0]) if progress.latest else None,
            status="running",
        )

    def _result(self, observation: Observation, begun: datetime, queued_ms: float) -> list[Draft]:
        kept = keep(self._work.runtime.contents, observation.text, self._action.result_policy)
        result = ToolResult(
            **self._names,
            tool_call_id=self._call_id,
            success=True,
            result_ref=kept.output.ref,
            preview=kept.output.preview,
            output_chars=len(observation.text),
            size_bytes=kept.output.size_bytes,
            truncated=kept.truncated,
            duration_ms=self._work.elapsed_ms(begun),
            queue_wait_ms=queued_ms,
            metadata=NOTE if self._tool is not None and MEMORY in self._tool.capabilities else None,
            status="completed",
        )
        drafts = [*map(self._draft, kept.facts), self._draft(result)]
        if observation.change is not None:
            drafts.append(self._artifact(observation.change))
        return drafts

    def _artifact(self, change: Change) -> Draft:
        contents = self._work.runtime.contents
        kept = contents.stage(change.after)
        diff = change.diff()
        name = hashlib.sha256(change.path.encode()).hexdigest()[:16]
        before = change.previous_sha256
        payload = ArtifactChanged(
            change=change.kind,
            artifact_type="file",
            title=change.path.rpartition("/")[2],
            path=change.path,
            media_type=kept.media_type,
            size_bytes=len(change.after),
            sha256=change.sha256,
            read_ref=kept.ref,
            version_id=f"sha256:{change.sha256}",
            previous_version_id=f"sha256:{before}" if before else None,
            diff_ref=contents.stage(diff[0], media_type="text/x-diff").ref if diff else None,
            lines_added=diff[1] if diff else None,
            lines_removed=diff[2] if diff else None,
            status="available",
        )
        return self._draft(payload, artifact_id=f"file_{name}")

    def _failure(self, category: str, message: str, decision: PermissionDecision | None = None) -> list[Draft]:
        kept = self._work.runtime.contents.stage(message)
        payload = ToolFailed(
            **self._names,
            tool_call_id=self._call_id,
            failure_category=category,
            message=kept.preview or category,
            retryable=category not in ("permission_denied", "unknown_tool"),
            result_ref=kept.ref,
            preview=kept.preview,
            permission=decision,
            cancelled=category == "cancelled" or None,
            duration_ms=self._work.elapsed_ms(self._begun),
            status="failed",
        )
        return [self._draft(payload)]

    # --- questions ---------------------------------------------------------------------------------------------

    async def _ask_person(self, started: Sequence[Draft]) -> bool:
        """Put the question, unless it was put before a restart, and bring back the answer."""
        if decision_name(self._call_id) not in self._work.state.actions:
            choices = tuple(str(one) for one in self._chosen())
            decisions = (*choices, DECLINE) if choices else (ANSWER, DECLINE)
            prompt = self._mask(str(self._action.input.get("question")))[0]
            schema = {} if choices else {"input_schema": {"type": "string"}}
            required = self._required("question", prompt, decisions, DECLINE, "waiting_input", **schema)
            await self._work.record(*started, required)
        begun = self._work.now
        action = await self._wait()
        if action.status == "timed_out":
            raise ToolFault("no_answer", "Nobody answered in time; go on with what is most reasonable.")
        if action.status == "cancelled" or action.decision == DECLINE:
            raise ToolFault("declined", f"The person does not answer{f': {action.reason}' if action.reason else ''}.")
        await self._work.record(*self._result(Observation(self._answer(action)), begun, 0.0))
        return True

    def _chosen(self) -> Sequence[object]:
        choices = self._action.input.get("choices")
        return choices if isinstance(choices, list) else ()

    def _answer(self, action: ActionState) -> str:
        text = self._work.runtime.texts.get(action.response_ref)
        if text is None:
            return action.reason if action.decision == ANSWER and action.reason else str(action.decision)
        given = orjson.loads(text)
        said = given if isinstance(given, str) else orjson.dumps(given).decode()
        return said if action.decision == ANSWER else f"{action.decision}: {said}"
