// Carry chains, distributed RAM and logic, crowded enough that the router permutes inputs of LUTs.
module top(input clk, input serial_in, output serial_out);
  reg [23:0] i = 0, first = 0, second = 0, total = 0, o = 0;
  reg [23:0] words [0:15];
  wire [23:0] read = words[i[8:5]];
  integer n;
  initial for (n = 0; n < 16; n = n + 1) words[n] = 0;
  always @(posedge clk) begin
    i <= {i[22:0], serial_in};
    if (i[4]) words[i[3:0]] <= total;
    first <= i;
    second <= first ^ read;
    total <= total + {first[6:0], second[23:7]};
    o <= (total - second) ^ (first & {second[18:0], second[23:19]});
  end
  assign serial_out = ^o;
endmodule
