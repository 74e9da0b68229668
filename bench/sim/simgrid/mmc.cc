// M/M/c on SimGrid, as bare as it goes: a source, c workers, a queue between them. Prints seconds and the mean wait in
// ms.
//
//   sim_simgrid_mmc SERVERS SERVICE_SECONDS RATE REQUESTS

#include <simgrid/s4u.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>

#include "base/rng.h"

namespace s4u = simgrid::s4u;

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const int servers = std::atoi(argv[1]);
  const double service_s = std::atof(argv[2]);
  const double rate = std::atof(argv[3]);
  const long requests = std::atol(argv[4]);
  int engine_argc = 1;
  s4u::Engine engine(&engine_argc, argv);
  auto* zone = s4u::create_full_zone("cluster");
  auto* host = zone->create_host("host", 1e9)->seal();
  zone->seal();

  std::deque<double> queue;  // Instants of arrival.
  auto waiting = s4u::Semaphore::create(0);
  tangram::Rng rng(1);
  tangram::Rng arrivals = rng.stream("arrivals");
  tangram::Rng services = rng.stream("services");
  const long warmup = requests / 20;
  double wait_sum = 0;
  long started = 0;
  s4u::Actor::create("source", host, [&] {
    for (long i = 0; i < requests; ++i) {
      s4u::this_actor::sleep_for(arrivals.exponential(1 / rate));
      queue.push_back(s4u::Engine::get_clock());
      waiting->release();
    }
  });
  for (int w = 0; w < servers; ++w) {
    s4u::Actor::create("worker", host, [&] {
      while (true) {
        waiting->acquire();
        const double arrived = queue.front();
        queue.pop_front();
        if (started++ >= warmup) wait_sum += s4u::Engine::get_clock() - arrived;
        s4u::this_actor::sleep_for(services.exponential(service_s));
      }
    })->daemonize();
  }
  const auto begin = std::chrono::steady_clock::now();
  engine.run();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%.6f %.9f\n", seconds, 1000 * wait_sum / static_cast<double>(started - warmup));
}
