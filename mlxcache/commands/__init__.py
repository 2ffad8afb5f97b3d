"""One module per command: `configure(parser)` adds its arguments, `run(args)` returns the exit status."""
