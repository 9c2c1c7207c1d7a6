// What the bridge asks of the simulated driver.
#ifndef GPUCONF_BRIDGE_DRIVER_H_
#define GPUCONF_BRIDGE_DRIVER_H_

#include <cstddef>

namespace gpuconf {

// Whether this process's libcuda.so.1 is the simulated one.
bool IsDriverSimulated();

// Whether all these bytes are memory of a simulated GPU.
bool IsDeviceMemory(const void* where, size_t bytes);

}  // namespace gpuconf

#endif
