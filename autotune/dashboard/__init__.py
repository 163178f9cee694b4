"""The Optuna dashboard on a study."""
