"""jopd: asynchronous on-policy distillation of multi-turn LLM agents in JAX."""
