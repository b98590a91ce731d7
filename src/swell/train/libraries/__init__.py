"""Scripts of Accelerate, transformers and Lightning: their batches are divided among the workers."""
