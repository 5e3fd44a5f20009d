"""A scripted session of a coding agent that records every type of fact there is."""

from runtime.samples.session import sample_session

__all__ = ["sample_session"]
