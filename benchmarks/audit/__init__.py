"""The privacy audit: lower bounds on eps from actual outputs (README.md)."""
