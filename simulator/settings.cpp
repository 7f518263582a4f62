// SPDX-License-Identifier: MIT
#include "settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>

namespace simulated {

// One that is not understood is not left out: the run would show something else than it seems to.
class reader {
public:
  explicit reader(std::string &into) : wrong(into) {}

  template <typename Number> void read(const char *name, Number &value) {
    const char *text = get(name);
    if (!text) return;
    const char *end = text + strlen(text);
    const auto [stop, error] = std::from_chars(text, end, value);
    if (error != std::errc() || stop != end) refuse(name, text, "a whole number that fits");
  }

  void read(const char *name, order &value) {
    static const struct {
      const char *name;
      order value;
    } known[] = {{"eager", order::eager}, {"lazy", order::lazy}, {"thread", order::thread}};
    const char *text = get(name);
    if (!text) return;
    for (const auto &one : known)
      if (!strcmp(text, one.name)) {
        value = one.value;
        return;
      }
    refuse(name, text, "eager, lazy or thread");
  }

private:
  std::string &wrong;

  static const char *get(const char *name) {
    const char *text = getenv((std::string("ORDITO_SIMULATED_") + name).c_str());
    return text && *text ? text : nullptr;
  }
  void refuse(const char *name, const char *found, const char *wanted) {
    if (wrong.empty()) wrong = std::string("ORDITO_SIMULATED_") + name + ": found '" + found + "'; wanted " + wanted;
  }
};

settings read_settings() {
  settings made;
  reader from(made.wrong);
  from.read("ORDER", made.when);
  from.read("SEED", made.seed);
  from.read("MEMORY", made.memory_bytes);
  from.read("THREADS", made.threads);
  from.read("WATCHDOG_MS", made.watchdog_ms);
  from.read("LOOP_LIMIT", made.loop_limit);
  from.read("FAIL_ALLOCATION", made.failing_allocation);
  from.read("LOSE_AT_KERNEL", made.losing_kernel);
  from.read("DRIVER_VERSION", made.driver_version);
  from.read("DEVICES", made.devices);
  made.threads = std::clamp(made.threads, 1u, 64u);
  made.devices = std::clamp(made.devices, 0, 1);
  return made;
}

} // namespace simulated
