// AXI4 memory for a Verilated device: latency, bandwidth, jitter, reordering and errors by parameter, and a check of
// the master's protocol. `Port` has references to the signals of one AXI port, `BYTES` are the bytes of its data bus.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>

// Mirrored by `Settings` in simulation.py.
struct AxiSettings {
    uint64_t seed;
    uint64_t error_base;         // accesses to [error_base, error_base + error_size) are answered with SLVERR
    uint64_t error_size;
    double bandwidth;            // beats per cycle in each direction, above 0 to 1
    double stall;                // share of cycles in which a channel is held back at random
    uint32_t latency;            // cycles from address to first beat, and from last write beat to response
    uint32_t jitter;             // up to so many cycles more, drawn for every burst
    uint32_t outstanding;        // bursts that the memory holds, for each direction
    uint32_t reorder;            // answers of different IDs overtake each other (only noticeable with jitter)
    uint32_t interleave;         // beats of read bursts of different IDs are mixed
};

class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t next() {            // splitmix64
        uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return z ^ (z >> 31);
    }
    uint32_t below(uint32_t bound) { return static_cast<uint32_t>(next() % bound); }
    bool chance(double share) { return share > 0 && static_cast<double>(next() >> 11) * 0x1p-53 < share; }

private:
    uint64_t state_;
};

// Beats per cycle as a token bucket; holds at most two so that a pause does not become a burst.
class Pace {
public:
    void refill(double rate) { credit_ = std::min(credit_ + rate, 2.0); }
    bool ready() const { return credit_ >= 1.0; }
    void take() { credit_ -= 1.0; }

private:
    double credit_ = 1.0;
};

template <class Port, unsigned BYTES>
class AxiMemory {
public:
    struct Traffic {
        uint64_t read_bursts = 0, read_beats = 0, write_bursts = 0, write_beats = 0;
    };

    AxiMemory(uint8_t* memory, uint64_t size) : memory_(memory), size_(size) {}

    void configure(const AxiSettings& settings) {
        settings_ = settings;
        random_ = Random(settings.seed);
    }

    // Forgets everything under way; the contents of the memory stay.
    void reset(Port& port) {
        reads_.clear();
        writes_.clear();
        write_beats_.clear();
        responses_.clear();
        current_ = NONE;
        read_pace_ = write_pace_ = Pace();
        held_address_[0] = held_address_[1] = Held();
        violation_.clear();
        port.arready = port.awready = port.wready = 0;
        port.rvalid = port.bvalid = 0;
    }

    // Looks at the ports as they stand just before a rising clock edge.
    void sample(const Port& port) {
        now_++;
        if (port.rvalid && port.rready) finish_read_beat();
        if (port.bvalid && port.bready) responses_.erase(responses_.begin() + response_), response_ = NONE;
        r_held_ = port.rvalid && !port.rready;
        b_held_ = port.bvalid && !port.bready;
        check_held(0, "AR", port.arvalid, port.arready, port.araddr, port.arlen, port.arid);
        check_held(1, "AW", port.awvalid, port.awready, port.awaddr, port.awlen, port.awid);
        if (port.arvalid && port.arready) {
            check_burst("AR", port.araddr, port.arlen, port.arsize, port.arburst);
            reads_.push_back({port.araddr, port.arlen + 1u, 0, port.arid, now_ + delay()});
            traffic_.read_bursts++;
        }
        if (port.awvalid && port.awready) {
            check_burst("AW", port.awaddr, port.awlen, port.awsize, port.awburst);
            writes_.push_back({port.awaddr, port.awlen + 1u, 0, port.awid, 0});
            traffic_.write_bursts++;
        }
        if (port.wvalid && port.wready) {
            WriteBeat beat;
            std::memcpy(beat.data, static_cast<const void*>(&port.wdata), BYTES);
            beat.strobe = port.wstrb;
            beat.last = port.wlast;
            write_beats_.push_back(beat);
            write_pace_.take();
            traffic_.write_beats++;
        }
        take_write_beats();
    }

    // Sets the ports for the next cycle, after the rising edge.
    void drive(Port& port) {
        read_pace_.refill(settings_.bandwidth);
        write_pace_.refill(settings_.bandwidth);
        port.arready = reads_.size() < settings_.outstanding && !stalled();
        port.awready = writes_.size() + responses_.size() < settings_.outstanding && !stalled();
        port.wready = write_pace_.ready() && write_beats_.size() < EARLY_BEATS && !stalled();
        if (!r_held_) drive_read(port);
        if (!b_held_) drive_response(port);
    }

    const std::string& violation() const { return violation_; }
    const Traffic& traffic() const { return traffic_; }

private:
    static constexpr size_t NONE = ~size_t(0);
    static constexpr size_t EARLY_BEATS = 16;      // write data taken before their address
    static constexpr unsigned OKAY = 0, SLVERR = 2, DECERR = 3;

    struct Burst {
        uint64_t address;
        uint32_t beats, done;
        uint32_t id;
        uint64_t due;
        unsigned response = OKAY;
    };
    struct WriteBeat {
        uint8_t data[BYTES];
        uint64_t strobe;
        bool last;
    };
    struct Held {
        bool valid = false;
        uint64_t address = 0;
        uint32_t length = 0, id = 0;
    };

    uint64_t delay() { return settings_.latency + (settings_.jitter ? random_.below(settings_.jitter + 1) : 0); }
    bool stalled() { return random_.chance(settings_.stall); }

    unsigned response_for(uint64_t address) const {
        if (address + BYTES > size_) return DECERR;
        bool inside = address + BYTES > settings_.error_base && address < settings_.error_base + settings_.error_size;
        return settings_.error_size && inside ? SLVERR : OKAY;
    }

    // The burst to serve next: the oldest one, or any whose ID has no older one; NONE while none is due.
    size_t choose(const std::deque<Burst>& bursts) {
        if (bursts.empty()) return NONE;
        if (!settings_.reorder) return bursts.front().due <= now_ ? 0 : NONE;
        std::bitset<256> seen;
        size_t candidates[256], count = 0;
        for (size_t index = 0; index < bursts.size(); index++) {
            unsigned id = bursts[index].id & 255;
            if (!seen[id] && bursts[index].due <= now_) candidates[count++] = index;
            seen[id] = true;
        }
        if (!count) return NONE;
        return settings_.jitter ? candidates[random_.below(count)] : candidates[0];
    }

    void finish_read_beat() {
        Burst& burst = reads_[current_];
        traffic_.read_beats++;
        if (++burst.done == burst.beats) {
            reads_.erase(reads_.begin() + current_);
            current_ = NONE;
        } else if (settings_.interleave && random_.below(4) == 0) {
            current_ = NONE;
        }
    }

    void drive_read(Port& port) {
        port.rvalid = 0;
        if (current_ == NONE) current_ = choose(reads_);
        if (current_ == NONE || !read_pace_.ready() || stalled()) return;
        read_pace_.take();
        const Burst& burst = reads_[current_];
        uint64_t address = burst.address + uint64_t(burst.done) * BYTES;
        unsigned response = response_for(address);
        if (response == OKAY) {
            std::memcpy(static_cast<void*>(&port.rdata), memory_ + address, BYTES);
        } else {
            std::memset(static_cast<void*>(&port.rdata), 0, BYTES);
        }
        port.rid = burst.id;
        port.rresp = response;
        port.rlast = burst.done + 1 == burst.beats;
        port.rvalid = 1;
    }

    void take_write_beats() {
        while (!write_beats_.empty() && !writes_.empty()) {
            const WriteBeat& beat = write_beats_.front();
            Burst& burst = writes_.front();
            uint64_t address = burst.address + uint64_t(burst.done) * BYTES;
            unsigned response = response_for(address);
            burst.response = std::max(burst.response, response);
            if (response == OKAY) {
                for (unsigned byte = 0; byte < BYTES; byte++) {
                    if (beat.strobe >> byte & 1) memory_[address + byte] = beat.data[byte];
                }
            }
            bool last = ++burst.done == burst.beats;
            if (beat.last != last) {
                violate("W: wlast must mark the last beat of a burst, beat %u of %u", burst.done, burst.beats);
            }
            write_beats_.pop_front();
            if (last) {
                burst.due = now_ + delay();
                responses_.push_back(burst);
                writes_.pop_front();
            }
        }
    }

    void drive_response(Port& port) {
        response_ = choose(responses_);
        port.bvalid = response_ != NONE && !stalled();
        if (!port.bvalid) return;
        port.bid = responses_[response_].id;
        port.bresp = responses_[response_].response;
    }

    void check_burst(const char* channel, uint64_t address, unsigned length, unsigned size, unsigned burst) {
        uint64_t end = address + (length + 1ull) * BYTES - 1;
        auto shown = static_cast<unsigned long long>(address);
        if ((1u << size) != BYTES) violate("%s: size must be the width of the bus, not %u bytes", channel, 1u << size);
        if (burst != 1) violate("%s: burst must be INCR, not %u", channel, burst);
        if (address % BYTES) violate("%s: address must be a multiple of a beat, not %#llx", channel, shown);
        if (address >> 12 != end >> 12) violate("%s: burst at %#llx must not cross 4 KiB", channel, shown);
    }

    // A valid that was not accepted must stay, with the same payload.
    void check_held(int which, const char* channel, bool valid, bool ready, uint64_t address, uint32_t length,
                    uint32_t id) {
        Held& held = held_address_[which];
        if (held.valid && !(valid && held.address == address && held.length == length && held.id == id)) {
            auto shown = static_cast<unsigned long long>(held.address);
            violate("%s: valid and payload must stay until ready (address %#llx)", channel, shown);
        }
        held = {valid && !ready, address, length, id};
    }

    template <class... Args>
    void violate(const char* format, Args... args) {
        if (!violation_.empty()) return;
        char text[160];
        std::snprintf(text, sizeof text, format, args...);
        violation_ = std::string(text) + " [cycle " + std::to_string(now_) + "]";
    }

    uint8_t* memory_;
    uint64_t size_;
    AxiSettings settings_{0, 0, 0, 1.0, 0.0, 64, 0, 256, 1, 0};
    Random random_{0};
    Pace read_pace_, write_pace_;
    uint64_t now_ = 0;
    std::deque<Burst> reads_, writes_, responses_;
    std::deque<WriteBeat> write_beats_;
    size_t current_ = NONE, response_ = NONE;
    bool r_held_ = false, b_held_ = false;
    Held held_address_[2];
    Traffic traffic_;
    std::string violation_;
};
