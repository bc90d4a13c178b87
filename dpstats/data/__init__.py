"""What a table is: names and dtypes first, rows in batches afterwards, by group where asked for."""
