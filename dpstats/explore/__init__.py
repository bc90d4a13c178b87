"""Before and after the fit: describe, plan, diagnose."""
