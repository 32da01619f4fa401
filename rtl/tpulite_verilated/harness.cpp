// The Verilated chip with its DRAM as a C library: no call per cycle.
#include "harness.h"

#include <vector>

#include "Vtpulite.h"
#include "coverage.h"
#include "memory.h"
#include "state.h"
#include "verilated.h"

#if TPULITE_WATCH
#include "watch.h"  // from whoever shows the chip
#else
namespace tpulite {
struct Watch {
  void sample(const Vtpulite&) {}
};
}  // namespace tpulite
#endif

namespace {

constexpr int kEngines = TPULITE_ENGINES;
constexpr int kStates = TPULITE_ENGINE_STATES;  // with IDLE, which is 0 and not recorded
constexpr int kTraceRow = 2 + kStates - 1;
constexpr int kResetCycles = 4;
constexpr int kRegisterLimit = 1000;  // cycles that a register access may take

struct Chip {
  VerilatedContext context;
  Vtpulite top;
  tpulite::Memory<Vtpulite> memory;
  int64_t cycles = 0;
  bool tracing = false;
  std::vector<int64_t> trace[kEngines];
  std::vector<tpulite::Variable> state;
  tpulite::Watch watch;

  Chip(size_t dram_bytes, const tpulite::Timing& timing, uint64_t seed)
      : top(&context, ""),
        memory(dram_bytes, timing, seed),
        state(tpulite::public_variables(context)) {
    reset();
    tpulite::forget_coverage(top);
  }

  // Verilator takes the model's scopes out of the thread's context, which may be another chip's.
  ~Chip() {
    tpulite::keep_coverage(top);
    Verilated::threadContextp(&context);
  }

  // One clock cycle. All inputs change after the rising edge, as from registers.
  void tick() {
    top.clk = 0;
    top.eval();
    memory.sample(top);
    if (tracing) record();
    watch.sample(top);
    top.clk = 1;
    top.eval();
    memory.drive(top);
    cycles++;
  }

  void reset() {
    top.s_axil_awvalid = top.s_axil_wvalid = top.s_axil_bready = 0;
    top.s_axil_arvalid = top.s_axil_rready = 0;
    top.rst = 1;
    for (int i = 0; i < kResetCycles; i++) {
      memory.reset(top);
      tick();
    }
    memory.reset(top);
    top.rst = 0;
    tick();
  }

  int write_register(uint32_t offset, uint32_t value) {
    top.s_axil_awaddr = offset;
    top.s_axil_wdata = value;
    top.s_axil_wstrb = 0xF;
    top.s_axil_awvalid = top.s_axil_wvalid = top.s_axil_bready = 1;
    for (int i = 0; i < kRegisterLimit; i++) {
      top.clk = 0;
      top.eval();
      bool aw = top.s_axil_awvalid && top.s_axil_awready;
      bool w = top.s_axil_wvalid && top.s_axil_wready;
      bool b = top.s_axil_bvalid;
      int response = top.s_axil_bresp;
      tick();
      if (aw) top.s_axil_awvalid = 0;
      if (w) top.s_axil_wvalid = 0;
      if (b) {
        top.s_axil_bready = 0;
        return response;
      }
    }
    return -1;
  }

  int read_register(uint32_t offset, uint32_t* value) {
    top.s_axil_araddr = offset;
    top.s_axil_arvalid = top.s_axil_rready = 1;
    for (int i = 0; i < kRegisterLimit; i++) {
      top.clk = 0;
      top.eval();
      bool ar = top.s_axil_arvalid && top.s_axil_arready;
      bool r = top.s_axil_rvalid;
      int response = top.s_axil_rresp;
      *value = top.s_axil_rdata;
      tick();
      if (ar) top.s_axil_arvalid = 0;
      if (r) {
        top.s_axil_rready = 0;
        return response;
      }
    }
    return -1;
  }

  void record() {
    record(0, top.trace_load_state, top.trace_load_index);
    record(1, top.trace_store_state, top.trace_store_index);
    record(2, top.trace_mxu_state, top.trace_mxu_index);
    record(3, top.trace_vpu_state, top.trace_vpu_index);
  }

  void record(int engine, int state, size_t index) {
    if (!state || state >= kStates) return;
    std::vector<int64_t>& rows = trace[engine];
    if (rows.size() <= index * kTraceRow) rows.resize((index + 1) * kTraceRow);
    int64_t* row = &rows[index * kTraceRow];
    if (!row[1]) row[0] = cycles;
    row[1] = cycles + 1;
    row[1 + state]++;
  }
};

Chip& get(void* chip) { return *static_cast<Chip*>(chip); }

}  // namespace

extern "C" {

void* chip_new(size_t dram_bytes, int read_latency, int write_response, int jitter, double stall,
               uint64_t seed) {
  auto threshold = static_cast<uint32_t>(stall * 4294967295.0);
  return new Chip(dram_bytes, {read_latency, write_response, jitter, threshold}, seed);
}

void chip_free(void* chip) {
  get(chip).top.final();
  delete static_cast<Chip*>(chip);
}

void chip_set_data_path(void* chip, int beat_cycles, int burst_cycles, int shared) {
  get(chip).memory.set_data_path(beat_cycles, burst_cycles, shared != 0);
}

void chip_set_constants(void* chip, int read_latency, int beat_cycles, int burst_cycles,
                        const uint64_t* ranges, size_t count) {
  std::vector<tpulite::Range> constants;
  for (size_t i = 0; i < count; i++) constants.push_back({ranges[2 * i], ranges[2 * i + 1]});
  get(chip).memory.set_constants(read_latency, beat_cycles, burst_cycles, std::move(constants));
}

uint8_t* chip_dram(void* chip) { return get(chip).memory.bytes().data(); }

void chip_reset(void* chip) { get(chip).reset(); }

void chip_set_errors(void* chip, int write, const uint64_t* ranges, size_t count) {
  auto& errors = write ? get(chip).memory.write_errors : get(chip).memory.read_errors;
  errors.clear();
  for (size_t i = 0; i < count; i++) errors.push_back({ranges[2 * i], ranges[2 * i + 1]});
}

void chip_set_mute_after(void* chip, int64_t bursts) {
  get(chip).memory.mute_after = bursts < 0 ? std::numeric_limits<int64_t>::max() : bursts;
}

int chip_write_register(void* chip, uint32_t offset, uint32_t value) {
  return get(chip).write_register(offset, value);
}

int chip_read_register(void* chip, uint32_t offset, uint32_t* value) {
  return get(chip).read_register(offset, value);
}

void chip_step(void* chip, int64_t cycles) {
  for (int64_t i = 0; i < cycles; i++) get(chip).tick();
}

int chip_wait_interrupt(void* chip, int64_t limit) {
  Chip& c = get(chip);
  for (int64_t i = 0; i < limit && !c.top.irq; i++) c.tick();
  return c.top.irq;
}

int64_t chip_cycles(void* chip) { return get(chip).cycles; }

void chip_trace(void* chip, int on) {
  for (auto& rows : get(chip).trace) rows.clear();
  get(chip).tracing = on;
}

size_t chip_trace_size(void* chip, int engine) { return get(chip).trace[engine].size() / kTraceRow; }

const int64_t* chip_trace_rows(void* chip, int engine) { return get(chip).trace[engine].data(); }

void* chip_watch(void* chip) { return &get(chip).watch; }

size_t chip_state_size(void* chip) { return get(chip).state.size(); }

const char* chip_state_name(void* chip, size_t variable) {
  return get(chip).state[variable].name.c_str();
}

void chip_state_shape(void* chip, size_t variable, int* words, int* bits) {
  *words = get(chip).state[variable].words;
  *bits = get(chip).state[variable].bits;
}

void chip_flip(void* chip, size_t variable, int word, int bit) {
  get(chip).state[variable].flip(word, bit);
}

void chip_write_coverage(void* chip, const char* path) {
  tpulite::write_coverage(get(chip).context, get(chip).top, path);
}
}
