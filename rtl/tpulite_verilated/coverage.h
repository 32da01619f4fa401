// What all chips of this process have reached, if the model was built with Verilator's coverage.
#pragma once

#include "Vtpulite.h"
#include "verilated.h"

#if VM_COVERAGE
#include <iterator>

#include "Vtpulite___024root.h"
#include "Vtpulite__Syms.h"
#include "verilated_cov.h"

namespace tpulite {

static auto& coverage_of(Vtpulite& top) { return top.rootp->vlSymsp->__Vcoverage; }

// Counts of chips that are gone, point by point. Not `inline`: the linker would make it one for all
// libraries of a process.
static auto& kept_coverage(Vtpulite& top) {
  static uint64_t kept[std::extent_v<std::remove_reference_t<decltype(coverage_of(top))>>] = {};
  return kept;
}

// Count from now on: variables begin with anything, which counts as changes.
static void forget_coverage(Vtpulite& top) {
  for (auto& count : coverage_of(top)) count = 0;
}

static void keep_coverage(Vtpulite& top) {
  auto& kept = kept_coverage(top);
  for (size_t i = 0; i < std::size(kept); i++) kept[i] += coverage_of(top)[i];
}

// Write what chips that are gone have reached, in Verilator's format; what this one has is lost.
static void write_coverage(VerilatedContext& context, Vtpulite& top, const char* path) {
  auto& kept = kept_coverage(top);
  for (size_t i = 0; i < std::size(kept); i++) {
    coverage_of(top)[i] = kept[i] < UINT32_MAX ? kept[i] : UINT32_MAX;
  }
  context.coveragep()->write(path);
  forget_coverage(top);
}

}  // namespace tpulite
#else
namespace tpulite {

static void forget_coverage(Vtpulite&) {}
static void keep_coverage(Vtpulite&) {}
static void write_coverage(VerilatedContext&, Vtpulite&, const char*) {}

}  // namespace tpulite
#endif
