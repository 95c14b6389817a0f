"""What can be known of a run before it starts; `jopd.doctor` asks all of it."""
