"""Coverage-guided fuzzing of everything that reads bytes from the network: `make fuzz`."""
