"""A KV cache for MLX with per-token positions, and the instrument that measures it."""
