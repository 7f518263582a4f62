// SPDX-License-Identifier: MIT
// When operations run, and the calls that enqueue, order and await them.
#include "stream.h"

#include <algorithm>

namespace simulated {

CUstream legacy_stream() {
  static CUstream made = new CUstream_st; // as the state, never deleted
  return made;
}

CUstream find_stream(driver &d, CUstream handle) {
  if (!handle || handle == CU_STREAM_LEGACY) return legacy_stream();
  return d.streams.count(handle) ? handle : nullptr;
}

static bool is_ready(const operation &next) {
  return std::all_of(next.waits.begin(), next.waits.end(), [](auto &before) { return before->is_done; });
}

// Of all streams whose next operation may run, the seed chooses one.
static CUstream choose_stream(driver &d) {
  std::vector<CUstream> ready;
  for (CUstream stream : d.streams)
    if (!stream->queue.empty() && is_ready(*stream->queue.front())) ready.push_back(stream);
  if (!legacy_stream()->queue.empty() && is_ready(*legacy_stream()->queue.front())) ready.push_back(legacy_stream());
  std::sort(ready.begin(), ready.end(), [](CUstream a, CUstream b) { return a->number < b->number; });
  return ready.empty() ? nullptr : ready[next_random(d) % ready.size()];
}

static void find_written_slack(driver &d) {
  std::string text;
  if (d.fault == CUDA_SUCCESS && !d.memory.check_slack(text)) set_fault(d, CUDA_ERROR_ILLEGAL_ADDRESS, text);
}

// Runs one operation, with the lock let go; after a fault operations only end. False where none may run.
static bool run_one(driver &d, lock &held) {
  CUstream stream = choose_stream(d);
  if (!stream) return false;
  const std::shared_ptr<operation> next = stream->queue.front();
  stream->queue.pop_front();
  d.is_running = true;
  if (next->run && d.fault == CUDA_SUCCESS) {
    CUresult code = CUDA_SUCCESS;
    std::string text;
    held.unlock();
    try {
      code = next->run(text);
    } catch (...) {
      code = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES; // the simulation's own memory is all used up
      text.clear();
    }
    held.lock();
    if (code != CUDA_SUCCESS) set_fault(d, code, text);
    // Otherwise the host's wait looks, before it closes the memory.
    if (d.set.when == order::thread) find_written_slack(d);
  }
  next->run = nullptr;
  next->waits.clear();
  next->finished = std::chrono::steady_clock::now();
  next->is_done = true;
  d.is_running = false;
  d.changed.notify_all();
  return true;
}

static void be_device(driver &d) {
  for (lock held(d.guard);;)
    if (!run_one(d, held)) d.changed.wait(held);
}

// The host lets the device work: memory is open for so long, and looked at before it is closed again.
class shown_memory {
public:
  explicit shown_memory(driver &of) : d(of) {
    if (d.drivers++ == 0) d.memory.show();
  }
  ~shown_memory() {
    if (--d.drivers) return;
    find_written_slack(d);
    d.memory.hide();
  }
  shown_memory(const shown_memory &) = delete;
  shown_memory &operator=(const shown_memory &) = delete;

private:
  driver &d;
};

bool drive(driver &d, lock &held, const std::function<bool()> &is_reached) {
  if (is_reached()) return true;
  if (d.set.when == order::thread) {
    d.changed.wait(held, is_reached);
    return true;
  }
  const shown_memory shown(d);
  while (!is_reached()) {
    if (d.is_running)
      d.changed.wait(held);
    else if (!run_one(d, held))
      break;
  }
  return is_reached();
}

// Where the host knows that the work is done, no kernel behind it can overlap it.
static CUresult forget(const driver &d, const std::shared_ptr<operation> &done) {
  if (done) done->launched = nullptr;
  return d.fault;
}

CUresult finish_stream(driver &d, lock &held, CUstream stream) {
  const std::shared_ptr<operation> last = stream->last;
  drive(d, held, [&] { return !last || last->is_done; });
  return forget(d, last);
}

CUresult finish_all(driver &d, lock &held) {
  drive(d, held, [&] {
    const auto is_idle = [](CUstream stream) { return !stream->last || stream->last->is_done; };
    return is_idle(legacy_stream()) && std::all_of(d.streams.begin(), d.streams.end(), is_idle);
  });
  for (CUstream stream : d.streams) forget(d, stream->last);
  return forget(d, legacy_stream()->last);
}

CUresult finish_context(driver &d, lock &held) {
  for (const auto &one : d.captures) invalidate(*one);
  return finish_all(d, held);
}

static bool is_blocking(CUstream stream) { return !(stream->flags & CU_STREAM_NON_BLOCKING); }

CUresult enqueue(driver &d, lock &held, CUstream stream, std::shared_ptr<operation> made) {
  if (d.set.when == order::thread && !d.has_device_thread) {
    std::thread([&d] { be_device(d); }).detach();
    d.has_device_thread = true;
  }
  if (stream == legacy_stream()) {
    for (CUstream other : d.streams)
      if (is_blocking(other) && other->last) made->waits.push_back(other->last);
  } else if (is_blocking(stream) && legacy_stream()->last) {
    made->waits.push_back(legacy_stream()->last);
  }
  stream->queue.push_back(made);
  stream->last = made;
  d.changed.notify_all();
  if (d.set.when == order::eager) drive(d, held, [&] { return made->is_done; });
  return d.fault;
}

CUresult submit(driver &d, lock &held, CUstream stream, work job) {
  const CUresult code = refuse_implicit(d, stream);
  if (code != CUDA_SUCCESS) return code;
  if (stream->capturing) return capture_work(d, stream, std::move(job));
  auto made = std::make_shared<operation>();
  const std::shared_ptr<operation> ahead = job.kernel.is_programmatic ? stream->last : nullptr;
  made->run = [held_job = std::make_shared<work>(std::move(job)), ahead, own = made.get()](std::string &text) {
    surroundings among;
    if (ahead && ahead->launched) among.ahead.push_back(ahead->launched);
    const CUresult done = run_work(*held_job, among, text);
    own->launched = among.launched;
    return done;
  };
  return enqueue(d, held, stream, std::move(made));
}

// Looking at a stream or an event lets lazy work go on by one operation, so that a host that polls gets on.
static CUresult query(driver &d, lock &held, const std::shared_ptr<operation> &last) {
  if (last && !last->is_done && d.set.when == order::lazy && !d.is_running) {
    const shown_memory shown(d);
    run_one(d, held);
  }
  if (d.fault != CUDA_SUCCESS) return d.fault;
  return !last || last->is_done ? forget(d, last) : CUDA_ERROR_NOT_READY;
}

template <typename Function> static CUresult with_stream(CUstream handle, Function body) {
  return enter(needs::context, [&](driver &d, lock &held) {
    CUstream stream = find_stream(d, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    CUresult code = refuse_capturing(stream);
    if (code == CUDA_SUCCESS) code = refuse_implicit(d, stream);
    return code == CUDA_SUCCESS ? body(d, held, stream) : code;
  });
}

template <typename Function> static CUresult with_event(CUevent event, Function body) {
  return enter(needs::context, [&](driver &d, lock &held) {
    return d.events.count(event) ? body(d, held) : CUDA_ERROR_INVALID_HANDLE;
  });
}

// An event of a capture marks no work that could be waited for.
static CUresult refuse_captured(CUevent event) {
  if (!event->captured) return CUDA_SUCCESS;
  if (!event->captured->is_ended) invalidate(*event->captured);
  return CUDA_ERROR_CAPTURED_EVENT;
}

static CUresult elapsed(float *milliseconds, CUevent start, CUevent end) {
  return enter(needs::context, [&](driver &d, lock &) {
    if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
    for (CUevent event : {start, end}) {
      if (!d.events.count(event) || (event->flags & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_HANDLE;
      const CUresult code = refuse_captured(event);
      if (code != CUDA_SUCCESS) return code;
      if (!event->recorded) return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!start->recorded->is_done || !end->recorded->is_done) return CUDA_ERROR_NOT_READY;
    const std::chrono::duration<float, std::milli> passed = end->recorded->finished - start->recorded->finished;
    *milliseconds = passed.count();
    return CUDA_SUCCESS;
  });
}

} // namespace simulated

using namespace simulated;

extern "C" {

CUresult cuStreamCreateWithPriority(CUstream *made, unsigned flags, int priority) {
  return enter(needs::context, [&](driver &d, lock &) {
    if (!made || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING))) return CUDA_ERROR_INVALID_VALUE;
    static unsigned long long last_number = 0; // under the lock
    *made = new CUstream_st;
    (*made)->number = ++last_number;
    (*made)->flags = flags;
    (*made)->priority = priority;
    d.streams.insert(*made);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamDestroy_v2(CUstream handle) {
  if (!handle || handle == CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_HANDLE;
  return with_stream(handle, [](driver &d, lock &held, CUstream stream) {
    const CUresult code = finish_stream(d, held, stream);
    d.streams.erase(stream);
    delete stream;
    return code;
  });
}

CUresult cuStreamSynchronize(CUstream handle) { return with_stream(handle, finish_stream); }

// Of the whole context, so it may not be while anything of it is captured.
CUresult cuCtxSynchronize() {
  return enter(needs::context, [](driver &d, lock &held) {
    const bool is_captured = !d.captures.empty();
    const CUresult code = finish_context(d, held);
    return is_captured ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : code;
  });
}

CUresult cuStreamQuery(CUstream handle) {
  return with_stream(handle, [](driver &d, lock &held, CUstream stream) { return query(d, held, stream->last); });
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags) {
  return with_event(event, [&](driver &d, lock &held) {
    CUstream stream = find_stream(d, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    const CUresult code = refuse_implicit(d, stream);
    if (code != CUDA_SUCCESS) return code;
    if (stream->capturing || event->captured) return capture_wait(stream, event);
    if (!event->recorded) return CUDA_SUCCESS;
    auto made = std::make_shared<operation>();
    made->waits.push_back(event->recorded);
    return enqueue(d, held, stream, std::move(made));
  });
}

CUresult cuEventCreate(CUevent *made, unsigned flags) {
  return enter(needs::context, [&](driver &d, lock &) {
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
    if (!made || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
    *made = new CUevent_st;
    (*made)->flags = flags;
    d.events.insert(*made);
    return CUDA_SUCCESS;
  });
}

CUresult cuEventDestroy_v2(CUevent event) {
  return with_event(event, [&](driver &d, lock &) {
    d.events.erase(event);
    delete event;
    return CUDA_SUCCESS;
  });
}

CUresult cuEventRecord(CUevent event, CUstream handle) {
  return with_event(event, [&](driver &d, lock &held) {
    CUstream stream = find_stream(d, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult code = refuse_implicit(d, stream);
    if (code != CUDA_SUCCESS) return code;
    if (stream->capturing) return capture_record(event, stream);
    event->captured = nullptr;
    event->recorded = std::make_shared<operation>();
    return enqueue(d, held, stream, event->recorded);
  });
}

CUresult cuEventQuery(CUevent event) {
  return with_event(event, [&](driver &d, lock &held) {
    const CUresult code = refuse_captured(event);
    return code == CUDA_SUCCESS ? query(d, held, event->recorded) : code;
  });
}

CUresult cuEventSynchronize(CUevent event) {
  return with_event(event, [&](driver &d, lock &held) {
    const CUresult code = refuse_captured(event);
    if (code != CUDA_SUCCESS) return code;
    const std::shared_ptr<operation> recorded = event->recorded;
    drive(d, held, [&] { return !recorded || recorded->is_done; });
    return d.fault;
  });
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  return elapsed(milliseconds, start, end);
}
CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
  return elapsed(milliseconds, start, end);
}
}
