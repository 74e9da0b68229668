// Which mutex guards which field, in words that Clang checks.
//
// With `-Wthread-safety` Clang reports a field that is read without its mutex, and a function that is called without
// the lock that it needs. Other compilers see nothing. The macros work with host::Mutex: libstdc++'s std::mutex carries
// no annotations. Example: `std::vector<Call*> calls_ GUARDED_BY(mutex_);`.
#pragma once

#if defined(__clang__)
#define TANGRAM_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define TANGRAM_THREAD_ATTRIBUTE(x)
#endif

// Libraries that we include define some of these names, too, with the same meaning.
#ifndef CAPABILITY
#define CAPABILITY(name) TANGRAM_THREAD_ATTRIBUTE(capability(name))  // A type that can be held.
#endif
#ifndef SCOPED_CAPABILITY
#define SCOPED_CAPABILITY TANGRAM_THREAD_ATTRIBUTE(scoped_lockable)  // A type that holds one while it lives.
#endif
#ifndef GUARDED_BY
#define GUARDED_BY(mutex) TANGRAM_THREAD_ATTRIBUTE(guarded_by(mutex))  // A field.
#endif
#ifndef REQUIRES
#define REQUIRES(...) TANGRAM_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))  // The caller holds it.
#endif
#ifndef EXCLUDES
#define EXCLUDES(...) TANGRAM_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))  // The caller does not: it is taken inside.
#endif
#ifndef ACQUIRE
#define ACQUIRE(...) TANGRAM_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#endif
#ifndef RELEASE
#define RELEASE(...) TANGRAM_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#endif
#ifndef TRY_ACQUIRE
#define TRY_ACQUIRE(...) TANGRAM_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#endif
#ifndef NO_THREAD_SAFETY_ANALYSIS
#define NO_THREAD_SAFETY_ANALYSIS TANGRAM_THREAD_ATTRIBUTE(no_thread_safety_analysis)
#endif
