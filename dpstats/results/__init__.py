"""What was released, and how it is shown: numbers, intervals, tests, tables and plots."""
