"""One rollout: the student acts, the teacher scores, the environment answers."""
