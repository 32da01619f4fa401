// Simulation model of a clock gate: a latch keeps what changes while the clock is high from it.
module tpulite_clock_gate(input clk, input enable, output gated);
  reg open;
  always @* if (!clk) open = enable;
  assign gated = clk & open;
endmodule
