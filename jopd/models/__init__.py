"""Decoder models, their checkpoints and tokenizers."""
