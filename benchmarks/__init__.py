"""What measures us, and peers beside us: ratios within one run."""
