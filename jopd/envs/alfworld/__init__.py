"""ALFWorld: household tasks in text, on official or made games, through the package's engine."""
