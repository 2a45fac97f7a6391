"""How smooth the terminal interface is, measured from outside, through a terminal of its own."""
