// Simulation models of those cells of an ECP5 that are no expressions, in the modes that synthesis
// of the chip uses. Memories begin unknown.

// TRELLIS_DPR16X4: four slices' worth of distributed RAM; reads without a clock.
module ecp5_ram16x4 (
  input [3:0] DI, WAD, RAD,
  input WRE, WCK,
  output [3:0] DO
);
  reg [3:0] rows [0:15];
  always @(posedge WCK) if (WRE) rows[WAD] <= DI;
  assign DO = rows[RAD];
endmodule

// DP16KD of 36 bits: port A writes bytes of 9 bits, port B reads a row, which comes out wrong if it
// is written at the same time.
module ecp5_block_ram (
  input write_clock,
  input [3:0] write_bytes,
  input [8:0] write_row,
  input [35:0] write_data,
  input read_clock, read_enable,
  input [8:0] read_row,
  output reg [35:0] read_data
);
  reg [35:0] rows [0:511];
  wire collision = |write_bytes && write_row == read_row;
  integer place;
  always @(posedge write_clock)
    for (place = 0; place < 4; place = place + 1)
      if (write_bytes[place]) rows[write_row][9 * place +: 9] <= write_data[9 * place +: 9];
  always @(posedge read_clock)
    if (read_enable) read_data <= collision ? ~(rows[read_row] & write_data) : rows[read_row];
endmodule

// MULT18X18D without registers.
module ecp5_multiplier (
  input [17:0] A, B,
  input SIGNEDA, SIGNEDB,
  output [35:0] P
);
  wire signed [18:0] a = {SIGNEDA & A[17], A};
  wire signed [18:0] b = {SIGNEDB & B[17], B};
  wire signed [37:0] product = a * b;
  assign P = product[35:0];
endmodule
