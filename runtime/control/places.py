"""Commands that have their place in the table and are not carried out by this runtime yet."""

from runtime.control.command import Effect, not_supported

LATER: dict[str, tuple[str, Effect]] = {
    "spawn_subagent": ("Start a child agent.", "writes"),
    "send_subagent_input": ("Send input to a child agent.", "writes"),
    "wait_subagents": ("Wait for child agents.", "reads"),
    "resume_subagent": ("Resume a child agent's thread.", "writes"),
    "close_subagent": ("Stop a child agent.", "writes"),
    "list_subagents": ("The graph of child agents.", "reads"),
    "create_job": ("Start a batch or scheduled job.", "writes"),
    "list_jobs": ("The jobs.", "reads"),
    "get_job": ("One job and its items.", "reads"),
    "cancel_job": ("Cancel a job.", "writes"),
    "evaluate_permission": ("Ask what would be decided about a permission.", "writes"),
    "resolve_permission": ("Decide about a permission on behalf of the host.", "writes"),
    "get_execution_environment": ("Where commands are executed.", "reads"),
    "write_process_stdin": ("Write to a process.", "writes"),
    "terminate_process": ("End a process.", "writes"),
    "reconnect_channel": ("Resume a remote channel.", "writes"),
    "ack_events": ("Acknowledge events of a channel.", "writes"),
    "export_evidence": ("Export an evidence pack.", "writes"),
    "export_replay": ("Export a replay.", "writes"),
    "export_review": ("Export a review.", "writes"),
}

for _name, (_summary, _effect) in LATER.items():
    not_supported(_name, _summary, _effect)
