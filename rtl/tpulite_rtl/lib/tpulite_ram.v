// Simulation model of the RAM macro: one port writes, one port reads, both with the clock.
// A row that is read while it is written comes out wrong, bit by bit: nothing may depend on it.
module tpulite_ram #(parameter WIDTH = 8, parameter DEPTH = 2) (
  input clk,
  input write_enable,
  input [$clog2(DEPTH) - 1:0] write_row,
  input [WIDTH - 1:0] write_data,
  input read_enable,
  input [$clog2(DEPTH) - 1:0] read_row,
  output reg [WIDTH - 1:0] read_data
);
  reg [WIDTH - 1:0] rows [0:DEPTH - 1];
  wire collision = write_enable && write_row == read_row;
  always @(posedge clk) begin
    if (write_enable) rows[write_row] <= write_data;
    // Each bit is neither the old one nor the new one, where that is possible.
    if (read_enable) read_data <= collision ? ~(rows[read_row] & write_data) : rows[read_row];
  end
endmodule
