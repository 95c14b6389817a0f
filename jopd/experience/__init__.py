"""From explorers to the learner: queue, reader, packing, recorder."""
