"""What is too large for events: content kept under its own hash behind refs, cut for readers, sent to the collector."""

from runtime.contents.fitting import Fitted, fit
from runtime.contents.keeping import ContentDamaged, ContentMissing, Contents, ContentUnwritable
from runtime.contents.uploading import UploadBacklog, Uploader, blob_endpoint

__all__ = [
    "ContentDamaged",
    "ContentMissing",
    "ContentUnwritable",
    "Contents",
    "Fitted",
    "UploadBacklog",
    "Uploader",
    "blob_endpoint",
    "fit",
]
