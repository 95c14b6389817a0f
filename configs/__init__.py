"""Recipes: one file per setting, `get_config(variant)` in each."""
