"""Drawings in a page's own SVG: small, in the page's colours, readable without a script."""
