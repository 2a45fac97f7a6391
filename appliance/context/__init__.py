"""What goes into a prompt, counted to the token, with a receipt; and answers that stand on what was read."""
