"""Facts about channels to remote peers."""

from typing import Annotated

from models.parts import Stated
from models.payload import Payload
from models.shape import JsonMap, Known, Shape, Timestamp
from models.values import Amount, Count, Refs

Transport = Annotated[str, Known("websocket", "sse", "json_rpc", "grpc", "http_json", "stdio", "in_process", "custom")]
"""What a channel runs over."""

PeerRole = Annotated[str, Known("client", "host", "worker", "remote_runtime", "peer_agent", "tool_server")]
"""What the peer is to us."""


class ChannelNamed(Shape):
    """Which channel a fact is about."""

    transport: Transport | None = None
    """What it runs over."""

    peer_role: PeerRole | None = None
    """What the peer is to us."""

    peer_id: str | None = None
    """The peer's own name for itself."""

    native_protocol: str | None = None
    """The protocol the peer speaks, by its own name."""


class ChannelConnected(ChannelNamed, Stated, Payload, event_type="channel.connected"):
    """A remote peer became reachable."""

    required_on_emission = frozenset({"transport", "peer_role"})

    account_ref: str | None = None
    """The account the peer acts for, by reference."""

    capabilities: tuple[str, ...] | None = None
    """What the peer can do."""

    resume_token_ref: str | None = None
    """Where the token for a resume is kept; never the token itself."""

    remote_address: str | None = None
    """Where the peer is."""


class ChannelDisconnected(ChannelNamed, Stated, Payload, event_type="channel.disconnected"):
    """A peer disconnected or missed its heartbeat."""

    required_on_emission = frozenset({"cause"})

    cause: Annotated[str, Known("closed", "heartbeat", "network", "auth", "shutdown", "unknown")] | None = None
    """Why it is gone."""

    last_seen_at: Timestamp | None = None
    """When the peer was last heard."""

    last_acked_sequence: Count | None = None
    """The last event the peer has acknowledged."""

    undelivered: Count | None = None
    """How many events the peer has not acknowledged."""

    resumable: bool | None = None
    """Whether it may resume."""


class ChannelResumed(ChannelNamed, Stated, Payload, event_type="channel.resumed"):
    """A peer resumed with a cursor or a token."""

    required_on_emission = frozenset({"resume_mode"})

    resume_mode: Annotated[str, Known("replay", "snapshot_repair")] | None = None
    """Whether the missed events were replayed, or a snapshot put the peer right."""

    from_sequence: Count | None = None
    """The event the replay begins after."""

    replayed: Count | None = None
    """How many events were replayed."""

    gap: bool | None = None
    """Whether some events could not be replayed."""

    remote_state: str | None = None
    """What became of the work meanwhile: running, idle, waiting, completed but undelivered, missing."""

    down_ms: Amount | None = None
    """How long the peer was gone, in milliseconds."""


class ChannelMessage(ChannelNamed, Payload, event_type="channel.message"):
    """A message that is no turn arrived over a channel."""

    required_on_emission = frozenset({"direction", "message_kind"})

    direction: Annotated[str, Known("in", "out")] | None = None
    """Whether it was received or sent."""

    message_kind: str | None = None
    """What it is, by the protocol's own name."""

    message_ref: str | None = None
    """Where the message is kept."""

    size_bytes: Count | None = None
    """Size of the message in bytes."""

    remote_task_id: str | None = None
    """The peer's own name of the task it is about."""

    remote_context_id: str | None = None
    """The peer's own name of the conversation it is about."""

    agent_ref: str | None = None
    """The peer agent it is about."""

    delivery_mechanism: str | None = None
    """How the peer delivers: push, poll, stream."""

    native_status: str | None = None
    """The peer task's state in the peer's own words."""

    artifact_refs: Refs | None = None
    """Deliverables it refers to."""

    metadata: JsonMap | None = None
    """Further metadata by the peer's own keys."""


class ChannelPermissionForwarded(ChannelNamed, Payload, event_type="channel.permission_forwarded"):
    """A request for permission was forwarded over a channel."""

    required_on_emission = frozenset({"request_ref"})

    request_ref: str | None = None
    """Where the request is kept."""

    subject: str | None = None
    """What is asked for, in short."""

    expires_at: Timestamp | None = None
    """When the time to decide is up."""


class ChannelPermissionReturned(ChannelNamed, Payload, event_type="channel.permission_returned"):
    """The decision on a forwarded request came back."""

    required_on_emission = frozenset({"decision"})

    decision: str | None = None
    """The answer given."""

    decided_by: str | None = None
    """Who decided at the other end."""

    reason: str | None = None
    """Why, in a sentence."""

    wait_ms: Amount | None = None
    """How long the answer took, in milliseconds."""
