"""The inventory of a machine: described in a file, or this one."""
