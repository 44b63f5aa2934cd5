"""What the documents show of programs: their commands, with what these print."""
