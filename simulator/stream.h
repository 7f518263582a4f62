// SPDX-License-Identifier: MIT
// Streams, events and captures. An operation runs after the one before it in its stream and after all that it waits
// for. While a stream is captured nothing runs: work becomes nodes of the capture's graph.
#ifndef SIMULATOR_STREAM_H
#define SIMULATOR_STREAM_H

#include <chrono>
#include <deque>
#include <functional>
#include <thread>

#include "work.h"

namespace simulated {

struct operation {
  std::function<CUresult(std::string &)> run; // without the lock; null for a mark
  std::vector<std::shared_ptr<operation>> waits;
  bool is_done = false;
  std::shared_ptr<const past_launch> launched; // by it, where it was a checked kernel
  std::chrono::steady_clock::time_point finished;
};

struct capture {
  CUgraph graph;
  CUstreamCaptureMode mode;
  std::thread::id thread;
  CUstream origin;
  cuuint64_t id;
  bool is_invalid = false, is_ended = false;
};

} // namespace simulated

struct CUstream_st {
  unsigned long long number = 0; // in the order of creation
  unsigned flags = 0;
  int priority = 0;
  std::deque<std::shared_ptr<simulated::operation>> queue;
  std::shared_ptr<simulated::operation> last; // enqueued
  std::shared_ptr<simulated::capture> capturing;
  std::vector<CUgraphNode> dependencies; // of the next node
  std::vector<CUgraphEdgeData> edges;    // those of the dependencies, all plain
};

struct CUevent_st {
  unsigned flags = 0;
  std::shared_ptr<simulated::operation> recorded;
  std::shared_ptr<simulated::capture> captured; // it was last recorded in this capture
  std::vector<CUgraphNode> dependencies;
};

namespace simulated {

CUstream legacy_stream();
CUstream find_stream(driver &d, CUstream handle); // null where there is none

// Enqueues work or, in a stream that is captured, adds a node.
CUresult submit(driver &d, lock &held, CUstream stream, work job);
CUresult enqueue(driver &d, lock &held, CUstream stream, std::shared_ptr<operation> made);
// Lets the device work until `is_reached`; false where it cannot be reached.
bool drive(driver &d, lock &held, const std::function<bool()> &is_reached);
CUresult finish_stream(driver &d, lock &held, CUstream stream);
CUresult finish_all(driver &d, lock &held);
CUresult finish_context(driver &d, lock &held); // the same, which no capture of any thread survives

// Captures. Unsafe is what no graph can hold, or may wait for the device.
void invalidate(capture &broken);
CUresult refuse_unsafe(driver &d);
CUresult refuse_capturing(CUstream stream); // 900, and the capture is invalid
CUresult refuse_implicit(driver &d, CUstream stream);
CUresult capture_work(driver &d, CUstream stream, work job);
CUresult capture_record(CUevent event, CUstream stream);
CUresult capture_wait(CUstream stream, CUevent event);

} // namespace simulated

#endif
