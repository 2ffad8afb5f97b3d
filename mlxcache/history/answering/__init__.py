"""What is known of a history, said once: every answer of the product is made from it."""
