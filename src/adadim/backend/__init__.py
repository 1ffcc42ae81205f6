"""Arrays of NumPy or torch, which replications a call concerns, and recorded rounds."""
