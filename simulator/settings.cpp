// SPDX-License-Identifier: MIT
#include "settings.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

namespace simulated {

static void read_number(const char *name, uint64_t &value) {
  const char *text = getenv((std::string("ORDITO_SIMULATED_") + name).c_str());
  if (!text || !*text) return;
  char *end = nullptr;
  const uint64_t number = strtoull(text, &end, 10);
  if (*end == '\0') value = number;
}

template <typename Number> static void read(const char *name, Number &value) {
  uint64_t number = static_cast<uint64_t>(value);
  read_number(name, number);
  value = static_cast<Number>(number);
}

settings read_settings() {
  settings made;
  const char *when = getenv("ORDITO_SIMULATED_ORDER");
  if (when && !strcmp(when, "lazy")) made.when = order::lazy;
  if (when && !strcmp(when, "thread")) made.when = order::thread;
  read("SEED", made.seed);
  read("MEMORY", made.memory_bytes);
  read("THREADS", made.threads);
  read("WATCHDOG_MS", made.watchdog_ms);
  read("LOOP_LIMIT", made.loop_limit);
  read("FAIL_ALLOCATION", made.failing_allocation);
  read("LOSE_AT_KERNEL", made.losing_kernel);
  read("DRIVER_VERSION", made.driver_version);
  read("DEVICES", made.devices);
  made.threads = std::clamp(made.threads, 1u, 64u);
  made.devices = std::clamp(made.devices, 0, 1);
  return made;
}

} // namespace simulated
