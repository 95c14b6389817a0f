"""tau2-bench retail and telecom: an agent serves a customer by words and tool calls."""
