// What the bridge asks of the simulated driver.
#pragma once

#include <cstddef>

namespace gpuconf {

// Whether this process's libcuda.so.1 is the simulated one.
bool IsDriverSimulated();

// Whether all these bytes are memory of a simulated GPU.
bool IsDeviceMemory(const void* where, size_t bytes);

// As long as it lives, the driver skips work on this thread, or does it (gpuconf_skip_work in
// engine.h); afterwards it is as before.
class WorkSkipped {
 public:
  explicit WorkSkipped(bool is_skipped);
  ~WorkSkipped();
  WorkSkipped(const WorkSkipped&) = delete;
  WorkSkipped& operator=(const WorkSkipped&) = delete;

 private:
  const int before_;
};

}  // namespace gpuconf
