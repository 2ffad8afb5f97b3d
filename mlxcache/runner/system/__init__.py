"""What a system's own files and tools tell: each reader takes text, so that recorded text tests it."""
