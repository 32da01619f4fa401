"""Whether tokens order every access: vector clocks, who touched what last, what is wrong."""
