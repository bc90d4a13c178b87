"""From a formula and a schema to named columns, and from batches to rows of numbers, one by one."""
