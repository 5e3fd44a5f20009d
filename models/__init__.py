"""The vocabulary: identities, the event envelope, payloads, states, read models, settings and errors. No I/O."""
