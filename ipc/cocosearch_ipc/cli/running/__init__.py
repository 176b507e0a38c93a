"""The daemon as a process: started, stopped, seen, run as a service, spoken to over the bridge."""
