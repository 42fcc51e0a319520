"""The stages of a plan, one per file; ``base`` is what each of them must do."""
