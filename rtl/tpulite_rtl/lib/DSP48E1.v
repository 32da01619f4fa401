// Simulation model of a Xilinx DSP48E1 as elements use it: pre-adder, both registers of port B, the
// product plus C, and the register of P. Of what it does not know nothing is connected but zeros.
module DSP48E1 #(
  parameter ACASCREG = 1, ADREG = 1, ALUMODEREG = 1, AREG = 1, BCASCREG = 1, BREG = 1,
    CARRYINREG = 1, CARRYINSELREG = 1, CREG = 1, DREG = 1, INMODEREG = 1, MREG = 1,
    OPMODEREG = 1, PREG = 1,
  parameter USE_DPORT = "FALSE"
) (
  input [29:0] A, ACIN,
  input [17:0] B, BCIN,
  input [47:0] C, PCIN,
  input [24:0] D,
  input [3:0] ALUMODE,
  input [4:0] INMODE,
  input [6:0] OPMODE,
  input [2:0] CARRYINSEL,
  input CARRYCASCIN, CARRYIN, MULTSIGNIN, CLK,
  input CEA1, CEA2, CEAD, CEALUMODE, CEB1, CEB2, CEC, CECARRYIN, CECTRL, CED, CEINMODE, CEM, CEP,
  input RSTA, RSTALLCARRYIN, RSTALUMODE, RSTB, RSTC, RSTCTRL, RSTD, RSTINMODE, RSTM, RSTP,
  output reg [47:0] P
);
  reg [17:0] b1, b2;
  wire signed [24:0] a = INMODE[1] ? 25'd0 : A[24:0];
  wire signed [24:0] d = INMODE[2] ? D : 25'd0;
  wire signed [24:0] ad = a + d;
  wire signed [17:0] b = INMODE[4] ? b1 : b2;
  wire signed [42:0] product = ad * b;
  wire signed [47:0] extended = product;
  always @(posedge CLK) begin
    if (CEB1) b1 <= B;
    if (CEB2) b2 <= b1;
    if (RSTP) P <= 48'd0;
    else if (CEP) P <= extended + C;
  end
endmodule
