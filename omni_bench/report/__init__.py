"""What a person reads of one run: tables, plots, evidence."""
