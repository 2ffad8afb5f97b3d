"""What the pages and the explorer are made from."""
