"""What pages are written with: templates, tables, links, texts to paste."""
