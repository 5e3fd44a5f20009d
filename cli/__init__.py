"""`tachograph VERB`: the only place that wires everything together."""
