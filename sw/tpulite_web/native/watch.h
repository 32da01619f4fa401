// What the page shows of a Verilated chip, cycle by cycle: array, unified buffer, engines, AXI.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "Vtpulite.h"
#include "verilated.h"
#include "verilated_syms.h"

namespace tpulite {

constexpr int kN = TPULITE_ARRAY_SIZE;
constexpr int kRows = TPULITE_UB_ROWS;
constexpr uint16_t kNoRow = 0xFFFF;

constexpr const char* kReaders[] = {"activation", "weight", "record", "vpu_a", "vpu_b", "store"};
constexpr const char* kWriters[] = {"drain", "load", "vpu"};
constexpr int kReadPorts = 6, kWritePorts = 3, kEngineCount = 4;

// A signal that watch.vlt makes public. Verilator keeps it in the smallest unsigned type, or in words.
struct Signal {
  const uint8_t* data = nullptr;
  size_t bytes = 0;
  int bits = 0;

  static Signal find(const std::string& module, const std::string& name) {
    const VerilatedScope* scope = Verilated::threadContextp()->scopeFind(module.c_str());
    const VerilatedVar* var = scope ? scope->varFind(name.c_str()) : nullptr;
    if (!var) {
      std::fprintf(stderr, "the chip has no signal %s of %s\n", name.c_str(), module.c_str());
      std::abort();
    }
    return {static_cast<const uint8_t*>(var->datap()), var->entSize(), static_cast<int>(var->entBits())};
  }

  // So many bits from `low` on, at most 32.
  uint32_t get(int low, int width) const {
    uint64_t word = 0;
    size_t first = low / 8, count = bytes - first < 5 ? bytes - first : 5;
    std::memcpy(&word, data + first, count);
    return static_cast<uint32_t>(word >> low % 8) & (width < 32 ? (1u << width) - 1 : ~0u);
  }

  int32_t get_signed(int low, int width) const {
    return static_cast<int32_t>(get(low, width) << (32 - width)) >> (32 - width);
  }
  int32_t get_signed() const { return get_signed(0, bits); }
};

struct Element {
  int16_t weight, next_weight;
  int8_t activation;
  uint8_t valid;  // whether a vector is in this element, and not a bubble
  int16_t unused;
  int32_t sum;  // what leaves it at the end of the cycle
};

// A cycle, as JavaScript reads it: no field needs padding.
struct Frame {
  uint16_t read_rows[kReadPorts], write_rows[kWritePorts];
  uint16_t refused;  // ports whose request was refused: reads, then writes
  uint16_t axi;      // transfers of AR, R, AW, W, B, a bit each
  uint16_t flags;    // a vector enters the array, and leaves it
  uint32_t index[kEngineCount];
  uint8_t state[kEngineCount];
  uint8_t write_data[kWritePorts][kN];
  int32_t sums[kN];  // of the vector that leaves
  Element elements[kN][kN];
};

// Cycles in which an engine does the same for the same command.
struct Span {
  uint32_t start, state, index;
};

class Watch {
 public:
  std::vector<Frame> frames;
  std::vector<Span> spans[kEngineCount];
  std::array<uint8_t, kRows * kN> buffer{};
  std::array<uint8_t, kRows> writer{};  // of each row: the last port that wrote it, from 1 on
  uint32_t cycle = 0;                   // since begin()
  bool on = false, framing = false;

  void begin() {
    cycle = 0;
    on = true;
    frames.clear();
    for (auto& each : spans) each.clear();
  }

  // Call before the rising edge, with all signals settled.
  void sample(const Vtpulite& top) {
    if (!on) return;
    if (writes_.empty()) find();
    const uint32_t state[] = {top.trace_load_state, top.trace_store_state, top.trace_mxu_state,
                              top.trace_vpu_state};
    const uint32_t index[] = {top.trace_load_index, top.trace_store_index, top.trace_mxu_index,
                              top.trace_vpu_index};
    for (int i = 0; i < kEngineCount; i++) {
      uint32_t command = state[i] ? index[i] : 0;
      if (spans[i].empty() || spans[i].back().state != state[i] || spans[i].back().index != command)
        spans[i].push_back({cycle, state[i], command});
    }
    if (framing) record(top, state, index);
    for (int i = 0; i < kWritePorts; i++) {
      if (!writes_[i].taken()) continue;
      uint32_t row = writes_[i].row() % kRows;
      for (int n = 0; n < kN; n++) buffer[row * kN + n] = writes_[i].byte(n);
      writer[row] = i + 1;
    }
    cycle++;
  }

 private:
  struct Port {
    bool writes;
    Signal valid, ready, payload;

    static Port find(const std::string& name) {
      auto signal = [&](const char* end) {
        return Signal::find("tpulite.buffer", name + "__request__" + end);
      };
      return {name[0] == 'w', signal("valid"), signal("ready"), signal("payload")};
    }
    bool asked() const { return valid.get(0, 1); }
    bool taken() const { return asked() && ready.get(0, 1); }

    // A write's bytes lie above its row.
    int row_bits() const { return writes ? payload.bits - 8 * kN : payload.bits; }
    uint32_t row() const { return payload.get(0, row_bits()); }
    uint8_t byte(int n) const { return payload.get(row_bits() + 8 * n, 8); }
  };

  std::vector<Port> reads_, writes_;
  Signal in_flight_, enters_, leaves_, sums_;
  struct {
    Signal weight, shadow, activation, total;
  } elements_[kN][kN];

  void find() {
    const std::string array = "tpulite.mxu.array";
    for (const char* name : kReaders) reads_.push_back(Port::find(std::string("read_") + name));
    for (const char* name : kWriters) writes_.push_back(Port::find(std::string("write_") + name));
    in_flight_ = Signal::find(array, "in_flight");
    enters_ = Signal::find(array, "i__valid");
    leaves_ = Signal::find(array, "o__valid");
    sums_ = Signal::find(array, "o__payload");
    for (int r = 0; r < kN; r++)
      for (int c = 0; c < kN; c++) {
        std::string element = array + ".pe_" + std::to_string(r) + "_" + std::to_string(c);
        elements_[r][c] = {Signal::find(element, "weight"), Signal::find(element, "shadow"),
                           Signal::find(element, "activation"), Signal::find(element, "total")};
      }
  }

  void record(const Vtpulite& top, const uint32_t* state, const uint32_t* index) {
    frames.emplace_back();
    Frame& f = frames.back();
    std::memset(&f, 0, sizeof f);
    for (int i = 0; i < kReadPorts; i++) {
      f.read_rows[i] = reads_[i].taken() ? reads_[i].row() : kNoRow;
      f.refused |= (reads_[i].asked() && !reads_[i].taken()) << i;
    }
    for (int i = 0; i < kWritePorts; i++) {
      const Port& port = writes_[i];
      f.write_rows[i] = port.taken() ? port.row() : kNoRow;
      f.refused |= (port.asked() && !port.taken()) << (kReadPorts + i);
      for (int n = 0; n < kN; n++) f.write_data[i][n] = port.byte(n);
    }
    f.axi = (top.m_axi_arvalid && top.m_axi_arready) | (top.m_axi_rvalid && top.m_axi_rready) << 1 |
            (top.m_axi_awvalid && top.m_axi_awready) << 2 |
            (top.m_axi_wvalid && top.m_axi_wready) << 3 |
            (top.m_axi_bvalid && top.m_axi_bready) << 4;
    f.flags = enters_.get(0, 1) | leaves_.get(0, 1) << 1;
    for (int i = 0; i < kEngineCount; i++) f.index[i] = index[i], f.state[i] = state[i];
    const int width = sums_.bits / kN;
    for (int n = 0; n < kN; n++) f.sums[n] = sums_.get_signed(width * n, width);
    for (int r = 0; r < kN; r++)
      for (int c = 0; c < kN; c++) {
        Element& e = f.elements[r][c];
        const auto& s = elements_[r][c];
        e.weight = s.weight.get_signed();
        e.next_weight = s.shadow.get_signed();
        e.activation = s.activation.get(0, 8);
        e.sum = s.total.get_signed();
        e.valid = r + c ? in_flight_.get(r + c - 1, 1) : enters_.get(0, 1);
      }
  }
};

}  // namespace tpulite
