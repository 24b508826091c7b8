"""What commands do with their arguments: data tables, and code where a table cannot say it."""
