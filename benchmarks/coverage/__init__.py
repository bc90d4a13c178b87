# Not a package: this keeps `import coverage`, which Numba tries, from finding this folder when benchmarks/ is
# on the path. The files here are imported from the folder itself.
raise ImportError("benchmarks/coverage is a folder of scripts, not the package coverage")
