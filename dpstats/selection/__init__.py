"""The private choice of terms, by itself or before a fit."""
