"""What people see of results: text, tables on a terminal, pages."""
