"""What the model is shown of a thread that is longer than its window, and how the rest is found again."""
