"""What reproductions of papers share: data, tables, figures, claims, and the page."""
