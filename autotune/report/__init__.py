"""Pictures and tables of a study."""
