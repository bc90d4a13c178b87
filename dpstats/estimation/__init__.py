"""The path of every call, from formula and data to results: public checks, charge, release."""
