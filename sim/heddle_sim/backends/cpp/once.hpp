// Included in front of Verilator's "__Slow" files: what runs once, when the device is made, is not worth optimising. A third of the text
// of a device is of this kind.
#pragma once
#pragma GCC optimize("O0")
