"""What tools for other systems read: an annotation of pods and labels of Nodes. Off unless an administrator asks."""
