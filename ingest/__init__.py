"""Wire and file formats become records; dialects turn records into events."""
