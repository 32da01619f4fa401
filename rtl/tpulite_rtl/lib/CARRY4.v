// Simulation model of four bits of a Xilinx carry chain.
module CARRY4 (
  input CI, CYINIT,
  input [3:0] DI, S,
  output [3:0] CO, O
);
  wire c0 = CI | CYINIT;
  wire c1 = S[0] ? c0 : DI[0];
  wire c2 = S[1] ? c1 : DI[1];
  wire c3 = S[2] ? c2 : DI[2];
  wire c4 = S[3] ? c3 : DI[3];
  assign O = S ^ {c3, c2, c1, c0};
  assign CO = {c4, c3, c2, c1};
endmodule
