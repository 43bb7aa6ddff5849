// A Verilated device with its memory, as a shared library: the clock, an AXI4-Lite driver and an AXI4 memory, so that
// nothing in Python runs once per cycle. Compiled with -DAXI_BYTES=<bytes of the data bus>.
#include <cstdint>
#include <memory>

#include "Vheddle.h"
#include "axi_memory.hpp"
#include "verilated.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int NO_ANSWER = -1;
constexpr uint64_t LITE_LIMIT = 10000;     // cycles until an access to a register counts as unanswered

class Harness {
public:
    Harness(uint8_t* memory, uint64_t size)
        : context_(new VerilatedContext), top_(new Vheddle(context_.get())), memory_(memory, size) {
        idle();
        top_->clk = 0;
        top_->rst = 1;
        memory_.reset(*top_);
        top_->eval();
    }

    ~Harness() { top_->final(); }

    void configure(const AxiSettings& settings) { memory_.configure(settings); }

    void reset(unsigned cycles) {
        idle();
        top_->rst = 1;
        memory_.reset(*top_);
        top_->eval();
        for (unsigned cycle = 0; cycle < cycles; cycle++) {
            top_->clk = 1;
            top_->eval();
            top_->clk = 0;
            top_->eval();
            cycles_++;
        }
        top_->rst = 0;
        top_->eval();
    }

    // One cycle; `change` sets inputs after the rising edge.
    template <class Change>
    void step(Change change) {
        memory_.sample(*top_);
        top_->clk = 1;
        top_->eval();
        memory_.drive(*top_);
        change();
        top_->clk = 0;
        top_->eval();
        cycles_++;
    }
    void step() { step([] {}); }

    int write(uint32_t address, uint32_t data) {
        top_->s_axil_awaddr = address;
        top_->s_axil_awvalid = 1;
        top_->s_axil_wdata = data;
        top_->s_axil_wstrb = 15;
        top_->s_axil_wvalid = 1;
        top_->s_axil_bready = 1;
        top_->eval();
        for (uint64_t cycle = 0; cycle < LITE_LIMIT; cycle++) {
            bool address_taken = top_->s_axil_awvalid && top_->s_axil_awready;
            bool data_taken = top_->s_axil_wvalid && top_->s_axil_wready;
            bool answered = top_->s_axil_bvalid;
            int response = top_->s_axil_bresp;
            step([&] {
                if (address_taken) top_->s_axil_awvalid = 0;
                if (data_taken) top_->s_axil_wvalid = 0;
                if (answered) top_->s_axil_bready = 0;
            });
            if (answered) return response;
        }
        idle();
        return NO_ANSWER;
    }

    int read(uint32_t address, uint32_t* data) {
        top_->s_axil_araddr = address;
        top_->s_axil_arvalid = 1;
        top_->s_axil_rready = 1;
        top_->eval();
        for (uint64_t cycle = 0; cycle < LITE_LIMIT; cycle++) {
            bool address_taken = top_->s_axil_arvalid && top_->s_axil_arready;
            bool answered = top_->s_axil_rvalid;
            int response = top_->s_axil_rresp;
            *data = top_->s_axil_rdata;
            step([&] {
                if (address_taken) top_->s_axil_arvalid = 0;
                if (answered) top_->s_axil_rready = 0;
            });
            if (answered) return response;
        }
        idle();
        return NO_ANSWER;
    }

    void run(uint64_t cycles) {
        while (cycles--) step();
    }

    bool run_until_interrupt(uint64_t limit) {
        while (!top_->__SYM__interrupt) {      // Verilator renames ports that are C++ words to it
            if (!limit--) return false;
            step();
        }
        return true;
    }

    uint64_t cycles() const { return cycles_; }
    const AxiMemory<Vheddle, AXI_BYTES>& memory() const { return memory_; }

private:
    void idle() {
        top_->s_axil_awvalid = top_->s_axil_wvalid = top_->s_axil_bready = 0;
        top_->s_axil_arvalid = top_->s_axil_rready = 0;
    }

    std::unique_ptr<VerilatedContext> context_;
    std::unique_ptr<Vheddle> top_;
    AxiMemory<Vheddle, AXI_BYTES> memory_;
    uint64_t cycles_ = 0;
};

Harness& at(void* handle) { return *static_cast<Harness*>(handle); }

}  // namespace

EXPORT void* heddle_create(uint8_t* memory, uint64_t size) { return new Harness(memory, size); }
EXPORT void heddle_destroy(void* handle) { delete static_cast<Harness*>(handle); }
EXPORT void heddle_configure(void* handle, const AxiSettings* settings) { at(handle).configure(*settings); }
EXPORT void heddle_reset(void* handle, uint32_t cycles) { at(handle).reset(cycles); }
EXPORT void heddle_run(void* handle, uint64_t cycles) { at(handle).run(cycles); }
EXPORT uint64_t heddle_cycles(void* handle) { return at(handle).cycles(); }

// 1 when the interrupt is up, 0 when it stayed down for `limit` cycles.
EXPORT int heddle_run_until_interrupt(void* handle, uint64_t limit) { return at(handle).run_until_interrupt(limit); }

// The response (0 OKAY, 2 SLVERR, 3 DECERR), or -1 without an answer.
EXPORT int heddle_lite_write(void* handle, uint32_t address, uint32_t data) { return at(handle).write(address, data); }
EXPORT int heddle_lite_read(void* handle, uint32_t address, uint32_t* data) { return at(handle).read(address, data); }

// Pairs of address and data, in order; stops at the first response that is not OKAY.
EXPORT int heddle_lite_write_many(void* handle, const uint32_t* pairs, uint64_t count) {
    for (uint64_t index = 0; index < count; index++) {
        int response = at(handle).write(pairs[2 * index], pairs[2 * index + 1]);
        if (response) return response;
    }
    return 0;
}

// First violation of the AXI protocol since reset, an empty string while there is none.
EXPORT const char* heddle_violation(void* handle) { return at(handle).memory().violation().c_str(); }

// Read bursts, read beats, write bursts, write beats since the device was made.
EXPORT void heddle_traffic(void* handle, uint64_t* counts) {
    const auto& traffic = at(handle).memory().traffic();
    counts[0] = traffic.read_bursts;
    counts[1] = traffic.read_beats;
    counts[2] = traffic.write_bursts;
    counts[3] = traffic.write_beats;
}
