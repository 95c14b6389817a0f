"""ALFWorld: household tasks in text, through the package's own engine, on official or made games."""
