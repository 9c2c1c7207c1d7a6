#include "driver.h"

#include <dlfcn.h>

namespace gpuconf {
namespace {

using Question = int (*)(const void*, size_t);

Question FindQuestion() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  void* symbol = driver == nullptr ? nullptr : dlsym(driver, "gpuconf_is_device_memory");
  return reinterpret_cast<Question>(symbol);
}

Question DriverQuestion() {
  static const Question question = FindQuestion();
  return question;
}

}  // namespace

bool IsDriverSimulated() { return DriverQuestion() != nullptr; }

bool IsDeviceMemory(const void* where, size_t bytes) {
  return DriverQuestion()(where, bytes) != 0;
}

}  // namespace gpuconf
