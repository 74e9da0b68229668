// For threads that answer requests beside threads that compute, and for those that compute.
#pragma once

namespace tangram::host {

// From now on this thread wakes as soon as it can: timers end within a nanosecond instead of 50 microseconds, and where
// the kernel lets it (Linux 6.12 and later), the thread asks for short turns on its core. A thread with short turns
// need not wait until the turn of another ends, a millisecond or more later. Threads and processes that it starts do
// not have short turns. Never fails: without the help of the kernel, the thread wakes as others do.
void wake_promptly();

// From now on this thread has at least this nice value, and where the kernel lets it (Linux 6.12 and later), it asks
// for long turns: a thread with turns of the usual length, of any program, takes its core as soon as it wakes. Its
// share of the core is what its nice value says. Never fails.
void give_way(int nice);

}  // namespace tangram::host
