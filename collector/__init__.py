"""The collector: receiver, loader and query. Thin; what a record means is decided in `ingest`."""
