// Independent pieces of work on all cores.
#pragma once

#include <cstddef>
#include <functional>

namespace tangram::cli {

// Calls `work(i)` for every i below `count`, each once, on as many threads as the machine has cores, and returns when
// all are done. Which thread takes which piece is chance, so results belong into places of their own. `tick` is called
// on the calling thread about ten times a second meanwhile. An exception of a piece is thrown again here.
void run_all(std::size_t count, const std::function<void(std::size_t)>& work, const std::function<void()>& tick = {});

}  // namespace tangram::cli
