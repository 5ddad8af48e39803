"""HTML pages of results: one file each that needs nothing else, drawn as inline SVG."""
