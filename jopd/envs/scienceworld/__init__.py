"""ScienceWorld: thirty kinds of science tasks, through the package's own Java simulator."""
