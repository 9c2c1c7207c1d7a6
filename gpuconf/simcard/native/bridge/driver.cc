#include "driver.h"

#include <dlfcn.h>

namespace gpuconf {
namespace {

void* Find(const char* name) {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  return driver == nullptr ? nullptr : dlsym(driver, name);
}

using Question = int (*)(const void*, size_t);
using Skipping = int (*)(int);

Question DriverQuestion() {
  static const Question question = reinterpret_cast<Question>(Find("gpuconf_is_device_memory"));
  return question;
}

int SkipWork(int is_skipped) {
  static const Skipping skip = reinterpret_cast<Skipping>(Find("gpuconf_skip_work"));
  return skip(is_skipped);
}

}  // namespace

bool IsDriverSimulated() { return DriverQuestion() != nullptr; }

bool IsDeviceMemory(const void* where, size_t bytes) {
  return DriverQuestion()(where, bytes) != 0;
}

WorkSkipped::WorkSkipped(bool is_skipped) : before_(SkipWork(is_skipped ? 1 : 0)) {}

WorkSkipped::~WorkSkipped() { SkipWork(before_); }

}  // namespace gpuconf
