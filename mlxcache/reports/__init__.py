"""What is said as text: terminal, JSON, Markdown, a comment, an issue."""
