"""Facts about deliverables."""

from typing import Annotated

from models.parts import Stated
from models.payload import Payload
from models.shape import JsonMap, Known
from models.values import Count


class ArtifactChanged(Stated, Payload, event_type="artifact.changed"):
    """A deliverable's reference was observed or produced."""

    required_on_emission = frozenset({"change", "read_ref"})

    change: Annotated[str, Known("created", "updated", "deleted", "observed", "validated")] | None = None
    """What happened to it."""

    artifact_type: str | None = None
    """What it is, such as `file`, `report`, `image`."""

    title: str | None = None
    """Its name for people."""

    path: str | None = None
    """Its place in the workspace."""

    media_type: str | None = None
    """The MIME type of the content."""

    size_bytes: Count | None = None
    """Size of the content in bytes."""

    sha256: str | None = None
    """Digest of the content, as lower-case hex."""

    read_ref: str | None = None
    """Where the content can be read."""

    version_id: str | None = None
    """Which version it is."""

    previous_version_id: str | None = None
    """Which version it replaces."""

    preview_ref: str | None = None
    """Where a preview is kept."""

    diff_ref: str | None = None
    """Where the difference to the previous version is kept."""

    lines_added: Count | None = None
    """Lines added against the previous version."""

    lines_removed: Count | None = None
    """Lines removed against the previous version."""

    validation_issues: Count | None = None
    """How many faults a check found in it."""

    metadata: JsonMap | None = None
    """Further metadata by the author's own keys."""
