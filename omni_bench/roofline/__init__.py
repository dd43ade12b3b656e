"""How far from the hardware's limit a server is: measured figures over the floor of its shapes."""
