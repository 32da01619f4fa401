// DRAM behind AXI4 in C++, or two memories, with the timing of tpulite.arch.memory, exact to the
// clock edge. The same machine as tpulite_tb/axi_memory.py; a test holds the two to the same edges.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <vector>

namespace tpulite {

constexpr int kBeatBytes = 16;
constexpr int kError = 2;  // SLVERR or DECERR; without it, OKAY or EXOKAY

using Beat = std::array<uint8_t, kBeatBytes>;

struct Range {
  uint64_t start, stop;
};

struct Random {  // xorshift64*
  uint64_t state;
  explicit Random(uint64_t seed) : state(seed * 0x9E3779B97F4A7C15u | 1) {}
  uint32_t next() {
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return static_cast<uint32_t>((state * 0x2545F4914F6CDD1Du) >> 32);
  }
  bool chance(uint32_t threshold) { return next() < threshold; }
};

struct Timing {
  int read_latency, write_response;  // edges, at least 2
  int jitter;                        // largest random number of edges added to each
  uint32_t stall;                    // probability of a pause of a channel in a cycle, times 2^32
  int beat_cycles = 0;               // edges of the data path for a beat
  int burst_cycles = 0;              // and between two bursts
  bool shared = false;               // reads and writes take turns on one data path
};

// `Top` is the Verilated model: a template, so that every port access is inlined.
template <typename Top>
class Memory {
 public:
  Memory(size_t bytes, const Timing& timing, uint64_t seed)
      : bytes_(bytes), timing_(timing), random_(seed) {}

  std::vector<uint8_t>& bytes() { return bytes_; }

  void set_data_path(int beat_cycles, int burst_cycles, bool shared) {
    timing_.beat_cycles = beat_cycles, timing_.burst_cycles = burst_cycles, timing_.shared = shared;
  }

  // A second memory, which is only read, has these addresses.
  void set_constants(int read_latency, int beat_cycles, int burst_cycles,
                     std::vector<Range> constants) {
    constants_timing_ = timing_;
    constants_timing_.read_latency = read_latency;
    constants_timing_.beat_cycles = beat_cycles, constants_timing_.burst_cycles = burst_cycles;
    constants_ = std::move(constants);
  }

  std::vector<Range> read_errors, write_errors;
  int64_t mute_after = std::numeric_limits<int64_t>::max();  // reads, and likewise writes, answered

  void reset(Top& top) {
    reads_.clear(), requests_.clear(), data_.clear(), answers_.clear();
    read_count_ = write_count_ = 0;
    std::fill(std::begin(free_), std::end(free_), 0);
    top.m_axi_rvalid = top.m_axi_bvalid = 0;
    top.m_axi_arready = top.m_axi_awready = top.m_axi_wready = 1;
  }

  // What is transferred at this edge; call before the edge, with all signals settled.
  void sample(const Top& top) {
    accepted_r_ = top.m_axi_rvalid && top.m_axi_rready;
    accepted_b_ = top.m_axi_bvalid && top.m_axi_bready;
    if (top.m_axi_arvalid && top.m_axi_arready) read(top);
    if (top.m_axi_awvalid && top.m_axi_awready)
      requests_.push_back({now_, top.m_axi_awid, top.m_axi_awaddr, top.m_axi_awlen + 1});
    if (top.m_axi_wvalid && top.m_axi_wready) {
      data_.push_back({now_, {}, static_cast<uint32_t>(top.m_axi_wstrb)});
      std::memcpy(data_.back().bytes.data(), &top.m_axi_wdata[0], kBeatBytes);
    }
    if (!requests_.empty() && data_.size() >= size_t(requests_.front().beats)) write();
  }

  // What the memory offers after this edge; call after the edge.
  void drive(Top& top) {
    now_++;
    if (!top.m_axi_rvalid || accepted_r_) {
      bool valid = !reads_.empty() && reads_.front().due <= now_ && !pause();
      top.m_axi_rvalid = valid;
      if (valid) offer_read(top);
    }
    if (!top.m_axi_bvalid || accepted_b_) {
      bool valid = !answers_.empty() && answers_.front().due <= now_ && !pause();
      top.m_axi_bvalid = valid;
      if (valid) offer_answer(top);
    }
    if (timing_.stall) {
      top.m_axi_arready = !pause();
      top.m_axi_awready = !pause();
      top.m_axi_wready = !pause();
    }
  }

 private:
  struct ReadBurst {
    int64_t due;  // of its next beat
    unsigned id;
    size_t next;  // beat
    int pace;     // edges from a beat to the next
    std::vector<Beat> beats;
    std::vector<uint8_t> responses;
  };
  struct Request {
    int64_t edge;
    unsigned id;
    uint64_t address;
    int beats;
  };
  struct Data {
    int64_t edge;
    Beat bytes;
    uint32_t strobe;
  };
  struct Answer {
    int64_t due;
    unsigned id;
    int response;
    uint64_t address;
    std::vector<Data> data;
  };

  // A read returns what the memory holds at its request.
  void read(const Top& top) {
    uint64_t address = top.m_axi_araddr;
    int beats = top.m_axi_arlen + 1;
    bool constant = lies(address, beats, constants_);
    const Timing& timing = constant ? constants_timing_ : timing_;
    int64_t& free = free_[constant ? 2 : 0];
    int64_t begin = std::max(now_, free);
    free = begin + beats * timing.beat_cycles + timing.burst_cycles;
    int odd = read_count_ & 1;  // of every other transaction the lowest bit of responses is set
    ReadBurst burst{due(begin, timing.read_latency, read_count_++), top.m_axi_arid, 0,
                    timing.beat_cycles, {}, {}};
    for (int i = 0; i < beats; i++, address += kBeatBytes) {
      Beat beat{};
      bool error = fails(address, 1, read_errors);
      if (!error) std::memcpy(beat.data(), &bytes_[address], kBeatBytes);
      burst.beats.push_back(beat);
      burst.responses.push_back((error ? kError : 0) | odd);
    }
    reads_.push_back(std::move(burst));
  }

  // A write is answered after its request and its last beat, and seen by reads from then on. The
  // data path takes its beats as they come.
  void write() {
    const Request request = requests_.front();
    requests_.pop_front();
    auto end = data_.begin() + request.beats;
    int odd = write_count_ & 1;
    Answer answer{0, request.id, odd, request.address, {data_.begin(), end}};
    data_.erase(data_.begin(), end);
    int64_t& free = free_[timing_.shared ? 0 : 1];
    int64_t edge = std::max(request.edge, answer.data.back().edge);
    edge = std::max(edge, free + request.beats * timing_.beat_cycles);
    free = edge + timing_.burst_cycles;
    answer.due = due(edge, timing_.write_response, write_count_++);
    if (fails(request.address, request.beats, write_errors) ||
        lies(request.address, request.beats, constants_)) {
      answer.response |= kError;
      answer.data.clear();
    }
    answers_.push_back(std::move(answer));
  }

  void offer_read(Top& top) {
    ReadBurst& burst = reads_.front();
    std::memcpy(&top.m_axi_rdata[0], burst.beats[burst.next].data(), kBeatBytes);
    top.m_axi_rid = burst.id;
    top.m_axi_rresp = burst.responses[burst.next];
    top.m_axi_rlast = ++burst.next == burst.beats.size();
    burst.due += burst.pace;
    if (top.m_axi_rlast) reads_.pop_front();
  }

  void offer_answer(Top& top) {
    Answer& answer = answers_.front();
    top.m_axi_bid = answer.id;
    top.m_axi_bresp = answer.response;
    for (const Data& beat : answer.data) {
      for (int i = 0; i < kBeatBytes; i++)
        if (beat.strobe >> i & 1) bytes_[answer.address + i] = beat.bytes[i];
      answer.address += kBeatBytes;
    }
    answers_.pop_front();
  }

  bool fails(uint64_t address, int beats, const std::vector<Range>& errors) const {
    uint64_t stop = address + uint64_t(beats) * kBeatBytes;
    return stop > bytes_.size() || lies(address, beats, errors);
  }

  static bool lies(uint64_t address, int beats, const std::vector<Range>& ranges) {
    uint64_t stop = address + uint64_t(beats) * kBeatBytes;
    for (const Range& range : ranges)
      if (address < range.stop && range.start < stop) return true;
    return false;
  }

  int64_t due(int64_t edge, int latency, int64_t number) {
    if (number >= mute_after) return std::numeric_limits<int64_t>::max();
    return edge + latency + (timing_.jitter ? random_.next() % (timing_.jitter + 1) : 0);
  }

  bool pause() { return timing_.stall && random_.chance(timing_.stall); }

  std::vector<uint8_t> bytes_;
  Timing timing_;
  Timing constants_timing_{};
  std::vector<Range> constants_;
  Random random_;
  int64_t now_ = 0;  // number of the next edge
  int64_t read_count_ = 0, write_count_ = 0;
  int64_t free_[3] = {0, 0, 0};  // from when on the path is free of reads, writes, constants
  bool accepted_r_ = false, accepted_b_ = false;
  std::deque<ReadBurst> reads_;
  std::deque<Request> requests_;
  std::deque<Data> data_;
  std::deque<Answer> answers_;
};

}  // namespace tpulite
