// Simulation model of a Gowin GW5A's multiplier of signed operands, without its registers.
module MULT12X12 (
  input [11:0] A, B,
  input [1:0] CLK, CE, RESET,
  output [23:0] DOUT
);
  wire signed [11:0] a = A, b = B;
  assign DOUT = a * b;
endmodule
