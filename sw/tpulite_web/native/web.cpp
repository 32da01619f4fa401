// What the page calls: a chip with its DRAM, driven by the C driver of the firmware, and watched.
#include <pthread.h>
#include <sched.h>

#include <cerrno>
#include <cstdint>

#include "harness.h"
#include "verilated_threads.h"
#include "watch.h"

extern "C" {
#include "tpulite_network.h"
}

// Verilator's runtime can have threads, which this chip does not use.
VlThreadPool::VlThreadPool(VerilatedContext*, unsigned) { std::abort(); }
VlThreadPool::~VlThreadPool() {}
extern "C" int pthread_getaffinity_np(pthread_t, size_t, cpu_set_t*) { return ENOSYS; }

namespace {

void* chip = nullptr;
tpulite_chip driver;
tpulite_outcome outcome;

tpulite::Watch& watch() { return *static_cast<tpulite::Watch*>(chip_watch(chip)); }

uint32_t read_register(void*, uint32_t offset) {
  uint32_t value = 0;
  if (chip_read_register(chip, offset, &value)) std::abort();
  return value;
}

void write_register(void*, uint32_t offset, uint32_t value) {
  if (chip_write_register(chip, offset, value)) std::abort();
}

}  // namespace

extern "C" {

// Power up a chip with the reference memory; return the address of its DRAM.
uint8_t* web_open(uint32_t dram_bytes) {
  if (chip) chip_free(chip);
  chip = chip_new(dram_bytes, TPULITE_READ_LATENCY, TPULITE_WRITE_RESPONSE, 0, 0.0, 0);
  driver = {read_register, write_register, nullptr};
  return chip_dram(chip);
}

uint32_t web_register(uint32_t offset) { return read_register(nullptr, offset); }

// Start a program: address, length, watchdog, then base, size and permission of each window.
void web_start(const uint32_t* words) {
  tpulite_job job = {words[0], words[1], words[2], {}};
  for (auto& window : job.windows) {
    window = {words[3], words[4], words[5]};
    words += 3;
  }
  tpulite_start(&driver, &job);
  watch().begin();
}

// Let at most so many cycles pass; return whether the interrupt has come.
int web_advance(uint32_t cycles) { return chip_wait_interrupt(chip, cycles); }

// How the program has ended: fault, index of the command, 1 if hung.
const tpulite_outcome* web_finish() {
  watch().on = false;
  tpulite_finish(&driver, &outcome);
  if (outcome.fault && !outcome.hung) tpulite_soft_reset(&driver);
  return &outcome;
}

void web_framing(int on) {
  watch().framing = on;
  watch().frames.clear();
}
uint32_t web_cycle() { return watch().cycle; }
uint32_t web_frame_bytes() { return sizeof(tpulite::Frame); }
const void* web_frames() { return watch().frames.data(); }
uint32_t web_frame_count() { return watch().frames.size(); }
const void* web_spans(int engine) { return watch().spans[engine].data(); }
uint32_t web_span_count(int engine) { return watch().spans[engine].size(); }
const void* web_buffer() { return watch().buffer.data(); }
const void* web_writers() { return watch().writer.data(); }
}
