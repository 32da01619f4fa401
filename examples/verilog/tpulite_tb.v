// A test bench in plain Verilog, and how to instantiate the chip: a memory on its AXI4 master, a
// host on its AXI4-Lite subordinate. It reads three files that make_data.py writes.
//
//     $ tpulite verilog 4x4 -o .
//     $ python make_data.py 4x4 .
//     $ iverilog -g2005 -o tb tpulite_tb.v tpulite_4x4.v && ./tb
//     $ verilator --binary --timing --top tpulite_tb tpulite_tb.v tpulite_4x4.v
`timescale 1ns / 1ps

module tpulite_tb;
  parameter BEATS = 65536;  // 1 MiB of memory
  parameter LIMIT = 1000000;  // cycles until the interrupt

  reg clk = 0, rst = 1;
  always #5 clk = !clk;

  // ---- The chip

  reg [11:0] lite_awaddr = 0, lite_araddr = 0;
  reg [31:0] lite_wdata = 0;
  reg lite_awvalid = 0, lite_wvalid = 0, lite_arvalid = 0;
  wire lite_awready, lite_wready, lite_bvalid, lite_arready, lite_rvalid;
  wire [1:0] lite_bresp, lite_rresp;
  wire [31:0] lite_rdata;

  wire arid, awid, arvalid, awvalid, wvalid, wlast, rready, bready, irq;
  wire [39:0] araddr, awaddr;
  wire [7:0] arlen, awlen;
  wire [127:0] wdata;
  wire [15:0] wstrb;
  reg reading = 0, writing = 0, answering = 0, read_id = 0, write_id = 0;
  reg [15:0] read_at = 0, write_at = 0;
  reg [7:0] read_left = 0;
  reg [127:0] memory[0:BEATS - 1];

  tpulite chip (
      .clk(clk),
      .rst(rst),  // synchronized inside
      .irq(irq),
      .s_axil_awaddr(lite_awaddr), .s_axil_awprot(3'd0), .s_axil_awvalid(lite_awvalid),
      .s_axil_awready(lite_awready),
      .s_axil_wdata(lite_wdata), .s_axil_wstrb(4'hF), .s_axil_wvalid(lite_wvalid),
      .s_axil_wready(lite_wready),
      .s_axil_bresp(lite_bresp), .s_axil_bvalid(lite_bvalid), .s_axil_bready(1'b1),
      .s_axil_araddr(lite_araddr), .s_axil_arprot(3'd0), .s_axil_arvalid(lite_arvalid),
      .s_axil_arready(lite_arready),
      .s_axil_rdata(lite_rdata), .s_axil_rresp(lite_rresp), .s_axil_rvalid(lite_rvalid),
      .s_axil_rready(1'b1),
      // 16 bytes a beat, INCR bursts within 4,096 bytes: size, burst, cache and prot are constants.
      .m_axi_arid(arid), .m_axi_araddr(araddr), .m_axi_arlen(arlen), .m_axi_arsize(),
      .m_axi_arburst(), .m_axi_arcache(), .m_axi_arprot(), .m_axi_arvalid(arvalid),
      .m_axi_arready(!reading),
      .m_axi_rid(read_id), .m_axi_rdata(memory[read_at]), .m_axi_rresp(2'd0),
      .m_axi_rlast(read_left == 0), .m_axi_rvalid(reading), .m_axi_rready(rready),
      .m_axi_awid(awid), .m_axi_awaddr(awaddr), .m_axi_awlen(awlen), .m_axi_awsize(),
      .m_axi_awburst(), .m_axi_awcache(), .m_axi_awprot(), .m_axi_awvalid(awvalid),
      .m_axi_awready(!writing && !answering),
      .m_axi_wdata(wdata), .m_axi_wstrb(wstrb), .m_axi_wlast(wlast), .m_axi_wvalid(wvalid),
      .m_axi_wready(writing),
      .m_axi_bid(write_id), .m_axi_bresp(2'd0), .m_axi_bvalid(answering), .m_axi_bready(bready)
  );

  // ---- The memory: one burst of each kind at a time

  integer lane;
  always @(posedge clk) begin
    if (arvalid && !reading) begin
      reading <= 1;
      read_id <= arid;
      read_at <= araddr[19:4];
      read_left <= arlen;
    end else if (reading && rready) begin
      reading <= read_left != 0;
      read_at <= read_at + 1;
      read_left <= read_left - 1;
    end

    if (awvalid && !writing && !answering) begin
      writing <= 1;
      write_id <= awid;
      write_at <= awaddr[19:4];
    end else if (writing && wvalid) begin
      for (lane = 0; lane < 16; lane = lane + 1)
        if (wstrb[lane]) memory[write_at][8 * lane +: 8] <= wdata[8 * lane +: 8];
      write_at <= write_at + 1;
      writing <= !wlast;
      answering <= wlast;
    end else if (answering && bready) answering <= 0;
  end

  // ---- The host

  // It drives at falling edges what the chip takes at rising ones.
  reg took_address, took_data;

  task write_register(input [31:0] offset, input [31:0] value);
    begin
      lite_awaddr = offset[11:0];
      lite_wdata = value;
      lite_awvalid = 1;
      lite_wvalid = 1;
      while (lite_awvalid || lite_wvalid) begin
        @(posedge clk);
        took_address = lite_awready;
        took_data = lite_wready;
        @(negedge clk);
        if (took_address) lite_awvalid = 0;
        if (took_data) lite_wvalid = 0;
      end
      while (!lite_bvalid) @(negedge clk);
      if (lite_bresp != 0) $display("register %h: response %d", offset, lite_bresp);
      @(negedge clk);
    end
  endtask

  task read_register(input [31:0] offset, output [31:0] value);
    begin
      lite_araddr = offset[11:0];
      lite_arvalid = 1;
      while (lite_arvalid) begin
        @(posedge clk);
        took_address = lite_arready;
        @(negedge clk);
        if (took_address) lite_arvalid = 0;
      end
      while (!lite_rvalid) @(negedge clk);
      value = lite_rdata;
    end
  endtask

  reg [63:0] writes[0:255];  // offset, value; all ones behind the last one
  reg [127:0] due[0:BEATS - 1];
  reg [31:0] fault;
  integer i, cycles, wrong;

  initial begin
    for (i = 0; i < BEATS; i = i + 1) begin
      memory[i] = 0;
      due[i] = 0;
    end
    $readmemh("before.hex", memory);
    $readmemh("after.hex", due);
    $readmemh("writes.hex", writes);
    repeat (10) @(negedge clk);
    rst = 0;
    repeat (10) @(negedge clk);

    for (i = 0; writes[i] !== {64{1'b1}} && i < 256; i = i + 1)
      write_register(writes[i][63:32], writes[i][31:0]);
    cycles = 0;
    while (!irq && cycles < LIMIT) begin
      @(negedge clk);
      cycles = cycles + 1;
    end

    read_register(32'h030, fault);  // ERROR_CODE
    wrong = 0;
    for (i = 0; i < BEATS; i = i + 1) if (memory[i] !== due[i]) wrong = wrong + 1;
    if (!irq || fault != 0 || wrong != 0)
      $display("FAIL: irq %b, fault %0d, %0d wrong beats", irq, fault, wrong);
    else $display("PASS: %0d cycles", cycles);
    $finish;
  end
endmodule
