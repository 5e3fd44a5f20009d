"""OpenTelemetry's protocol: what arrives is checked, answered, and later decoded into `records`."""
