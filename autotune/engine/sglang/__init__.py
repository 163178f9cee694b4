"""What is particular to SGLang: its flags, its log, its read-back, its ways to fail."""
