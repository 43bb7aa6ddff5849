// A Verilated device with its memory, as a shared library: the clock, an AXI4-Lite driver and an AXI4 memory, so that
// nothing in Python runs once per cycle. Compiled with -DAXI_BYTES=<bytes of the data bus>, -DAXI_FIRST=<prefix of the
// first AXI port>, such as m_axi_, and -DAXI_PORTS=<AXI_PORT(prefix) for each AXI port>; all ports share the memory.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "Vheddle.h"
#include "axi_memory.hpp"
#include "verilated.h"
#ifdef HEDDLE_WAVES         // a build that writes waves: the class of Verilator that does, and its header
#include HEDDLE_WAVES_HEADER
#endif

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int NO_ANSWER = -1;
constexpr uint64_t SEED_STEP = 1000003;    // from the seed of a port to that of the next
constexpr int WAVE_DEPTH = 99;             // levels of the hierarchy: all
constexpr uint64_t LITE_LIMIT = 10000;     // cycles until an access to a register counts as unanswered

#define AXI_SIGNALS(USE, prefix)                                                                                  \
    USE(prefix, awid) USE(prefix, awaddr) USE(prefix, awlen) USE(prefix, awsize) USE(prefix, awburst)             \
    USE(prefix, awvalid) USE(prefix, awready) USE(prefix, wdata) USE(prefix, wstrb) USE(prefix, wlast)            \
    USE(prefix, wvalid) USE(prefix, wready) USE(prefix, bid) USE(prefix, bresp) USE(prefix, bvalid)               \
    USE(prefix, bready) USE(prefix, arid) USE(prefix, araddr) USE(prefix, arlen) USE(prefix, arsize)              \
    USE(prefix, arburst) USE(prefix, arvalid) USE(prefix, arready) USE(prefix, rid) USE(prefix, rdata)            \
    USE(prefix, rresp) USE(prefix, rlast) USE(prefix, rvalid) USE(prefix, rready)
#define AXI_MEMBER(prefix, name) decltype(Vheddle::prefix##name) name;
#define AXI_REFERENCE(prefix, name) top.prefix##name,
#define AXI_PORT(prefix) AxiPort{AXI_SIGNALS(AXI_REFERENCE, prefix)},

// The signals of an AXI port; Verilator declares the ports of its class as references.
struct AxiPort {
    AXI_SIGNALS(AXI_MEMBER, AXI_FIRST)
};

using Memory = AxiMemory<AxiPort, AXI_BYTES>;

class Harness {
public:
    Harness(uint8_t* memory, uint64_t size)
        : context_(traced(new VerilatedContext)), top_(new Vheddle(context_.get())), ports_(ports(*top_)) {
#ifdef HEDDLE_WAVES
        top_->trace(&waves_, WAVE_DEPTH);
#endif
        memories_.assign(ports_.size(), Memory(memory, size));
        idle();
        top_->clk = 0;
        top_->rst = 1;
        forget();
        top_->eval();
    }

    ~Harness() { top_->final(); }

    // Each port has a latency and a bandwidth of its own, and random numbers of its own.
    void configure(AxiSettings settings) {
        for (auto& memory : memories_) {
            memory.configure(settings);
            settings.seed += SEED_STEP;
        }
    }

    void reset(unsigned cycles) {
        idle();
        top_->rst = 1;
        forget();
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
        if (tracing_) trace();
        for (size_t index = 0; index < ports_.size(); index++) memories_[index].sample(ports_[index]);
        top_->clk = 1;
        top_->eval();
        for (size_t index = 0; index < ports_.size(); index++) memories_[index].drive(ports_[index]);
        change();
        dump(0);
        top_->clk = 0;
        top_->eval();
        dump(1);
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

    // From now on a hash of all pins in all cycles, as they stand before the rising edge, of an AXI channel of the device what is sent
    // while it is valid; returns the hash so far.
    uint64_t trace_pins() {
        tracing_ = true;
        return hash_;
    }

    // Waves of all signals go to a file until `close_waves`, two units of time a cycle; false in a build without waves.
    bool open_waves(const char* path) {
#ifdef HEDDLE_WAVES
        waves_.open(path);
        return waves_.isOpen();
#else
        (void)path;
        return false;
#endif
    }

    // Within the file: of the next `count` cycles after `skip` ones.
    void write_waves(uint64_t skip, uint64_t count) {
        wave_skip_ = skip;
        wave_count_ = count;
    }

    // Cycles that `write_waves` has left of `count`.
    uint64_t waves_left() const { return wave_count_; }

    void close_waves() {
        wave_count_ = 0;
#ifdef HEDDLE_WAVES
        waves_.close();
#endif
    }

    uint64_t cycles() const { return cycles_; }
    const std::vector<Memory>& memories() const { return memories_; }

    const char* violation() {
        violation_.clear();
        for (size_t index = 0; index < memories_.size() && violation_.empty(); index++) {
            violation_ = memories_[index].violation();
            if (memories_.size() > 1 && !violation_.empty()) violation_ = "port " + std::to_string(index) + ": " + violation_;
        }
        return violation_.c_str();
    }

private:
    static VerilatedContext* traced(VerilatedContext* context) {
#ifdef HEDDLE_WAVES
        context->traceEverOn(true);
#endif
        return context;
    }

    // The waves of half a cycle.
    void dump(unsigned half) {
#ifdef HEDDLE_WAVES
        if (!wave_count_) return;
        if (wave_skip_) {
            wave_skip_ -= half;
            return;
        }
        waves_.dump(2 * cycles_ + half);
        wave_count_ -= half;
#else
        (void)half;
#endif
    }

    static std::vector<AxiPort> ports(Vheddle& top) { return {AXI_PORTS}; }

    void forget() {
        for (size_t index = 0; index < ports_.size(); index++) memories_[index].reset(ports_[index]);
    }

    void mix(const void* value, size_t size) {      // FNV-1a
        auto bytes = static_cast<const uint8_t*>(value);
        for (size_t index = 0; index < size; index++) hash_ = (hash_ ^ bytes[index]) * 0x100000001b3ull;
    }

    // Whether a pin of an AXI port means something: what the device sends on a channel does only while the channel is valid.
    static bool counts(const AxiPort& port, std::string_view name) {
        if (name.ends_with("valid") || name.ends_with("ready")) return true;
        if (name.starts_with("aw")) return port.awvalid;
        if (name.starts_with("ar")) return port.arvalid;
        return name[0] != 'w' || port.wvalid;
    }

    void trace() {
#define MIX_OF_PORT(prefix, name) if (counts(port, #name)) mix(&port.name, sizeof(port.name));
        for (auto& port : ports_) {
            AXI_SIGNALS(MIX_OF_PORT, )
        }
#define MIX(name) mix(&top_->name, sizeof(top_->name));
        MIX(s_axil_awaddr) MIX(s_axil_awvalid) MIX(s_axil_awready) MIX(s_axil_wdata) MIX(s_axil_wstrb) MIX(s_axil_wvalid)
        MIX(s_axil_wready) MIX(s_axil_bresp) MIX(s_axil_bvalid) MIX(s_axil_bready) MIX(s_axil_araddr) MIX(s_axil_arvalid)
        MIX(s_axil_arready) MIX(s_axil_rdata) MIX(s_axil_rresp) MIX(s_axil_rvalid) MIX(s_axil_rready) MIX(__SYM__interrupt)
    }

    void idle() {
        top_->s_axil_awvalid = top_->s_axil_wvalid = top_->s_axil_bready = 0;
        top_->s_axil_arvalid = top_->s_axil_rready = 0;
    }

#ifdef HEDDLE_WAVES
    HEDDLE_WAVES waves_;
#endif
    uint64_t wave_skip_ = 0, wave_count_ = 0;
    std::unique_ptr<VerilatedContext> context_;
    std::unique_ptr<Vheddle> top_;
    std::vector<AxiPort> ports_;
    std::vector<Memory> memories_;
    std::string violation_;
    uint64_t cycles_ = 0;
    uint64_t hash_ = 0xcbf29ce484222325ull;
    bool tracing_ = false;
};

Harness& at(void* handle) { return *static_cast<Harness*>(handle); }

}  // namespace

EXPORT void* heddle_create(uint8_t* memory, uint64_t size) { return new Harness(memory, size); }
EXPORT void heddle_destroy(void* handle) { delete static_cast<Harness*>(handle); }
EXPORT void heddle_configure(void* handle, const AxiSettings* settings) { at(handle).configure(*settings); }
EXPORT void heddle_reset(void* handle, uint32_t cycles) { at(handle).reset(cycles); }
EXPORT void heddle_run(void* handle, uint64_t cycles) { at(handle).run(cycles); }
EXPORT uint64_t heddle_trace_pins(void* handle) { return at(handle).trace_pins(); }
EXPORT int heddle_open_waves(void* handle, const char* path) { return at(handle).open_waves(path); }
EXPORT void heddle_write_waves(void* handle, uint64_t skip, uint64_t count) { at(handle).write_waves(skip, count); }
EXPORT uint64_t heddle_waves_left(void* handle) { return at(handle).waves_left(); }
EXPORT void heddle_close_waves(void* handle) { at(handle).close_waves(); }
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
EXPORT const char* heddle_violation(void* handle) { return at(handle).violation(); }

// Read bursts, read beats, write bursts, write beats of one port since the device was made.
EXPORT void heddle_port_traffic(void* handle, uint32_t port, uint64_t* counts) {
    const auto& traffic = at(handle).memories().at(port).traffic();
    counts[0] = traffic.read_bursts;
    counts[1] = traffic.read_beats;
    counts[2] = traffic.write_bursts;
    counts[3] = traffic.write_beats;
}

// Read bursts, read beats, write bursts, write beats of all ports since the device was made.
EXPORT void heddle_traffic(void* handle, uint64_t* counts) {
    counts[0] = counts[1] = counts[2] = counts[3] = 0;
    for (const auto& memory : at(handle).memories()) {
        const auto& traffic = memory.traffic();
        counts[0] += traffic.read_bursts;
        counts[1] += traffic.read_beats;
        counts[2] += traffic.write_bursts;
        counts[3] += traffic.write_beats;
    }
}
