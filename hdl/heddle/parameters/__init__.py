"""Parameters of a device in groups: a table of a configuration file each, and what the units of each folder take of all of them."""
