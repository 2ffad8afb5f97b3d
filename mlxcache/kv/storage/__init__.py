"""Where cells lie (integers) and what holds them (tensors)."""
