"""The command `oasis`: the only room that prints."""
