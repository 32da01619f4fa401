// Registers and memories of a Verilated model that are declared public, by Verilator's own tables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verilated.h"
#include "verilated_syms.h"

namespace tpulite {

// A register, or a memory of several words. Words are little-endian, and each takes `stride` bytes.
struct Variable {
  std::string name;
  int words, bits;
  size_t stride;
  uint8_t* data;

  void flip(int word, int bit) { data[word * stride + bit / 8] ^= 1u << bit % 8; }
};

// Return those of all modules, in the order of their names.
inline std::vector<Variable> public_variables(VerilatedContext& context) {
  std::vector<Variable> found;
  for (const auto& scope : *context.scopeNameMap()) {
    if (!scope.second->varsp()) continue;
    for (const auto& entry : *scope.second->varsp()) {
      const VerilatedVar& var = entry.second;
      if (!var.isPublicRW()) continue;
      found.push_back({std::string(scope.first) + " " + entry.first,
                       var.udims() ? var.elements(1) : 1, static_cast<int>(var.entBits()),
                       var.entSize(), static_cast<uint8_t*>(var.datap())});
    }
  }
  return found;
}

}  // namespace tpulite
