"""The operator sweep: operators at shapes of published networks, each against its bound."""
