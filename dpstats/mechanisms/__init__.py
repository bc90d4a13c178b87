"""Sums and arrays in, released values out: the noise, draws and tests that estimators are made of."""
