"""Files, git, locks, workers: what every room needs and nobody owns."""
