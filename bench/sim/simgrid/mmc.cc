// M/M/c on SimGrid, as bare as it goes. Prints the CPU seconds of the run and the mean wait in milliseconds.
//
//   sim_simgrid_mmc SERVERS SERVICE_SECONDS RATE REQUESTS SEED mailbox|semaphore
//
// `mailbox` is how SimGrid's users write it: the source sends each request to a mailbox that the workers read.
// `semaphore` goes around the messages, with a queue in memory and a semaphore that counts it: the fastest way that we
// found.

#include <simgrid/s4u.hpp>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <string>

#include "base/rng.h"

namespace s4u = simgrid::s4u;

namespace {

struct Model {
  int servers;
  double service_s;
  double rate;
  long requests;
  std::uint64_t seed;
  tangram::Rng arrivals = tangram::Rng(seed).stream("arrivals");
  tangram::Rng services = tangram::Rng(seed).stream("services");
  double wait_sum = 0;
  long started = 0;

  void serve(double arrived) {
    if (started++ >= requests / 20) wait_sum += s4u::Engine::get_clock() - arrived;
    s4u::this_actor::sleep_for(services.exponential(service_s));
  }
};

void with_semaphore(Model& model, s4u::Host* host) {
  static std::deque<double> queue;  // Instants of arrival.
  static const auto waiting = s4u::Semaphore::create(0);
  s4u::Actor::create("source", host, [&model] {
    for (long i = 0; i < model.requests; ++i) {
      s4u::this_actor::sleep_for(model.arrivals.exponential(1 / model.rate));
      queue.push_back(s4u::Engine::get_clock());
      waiting->release();
    }
  });
  const auto work = [&model] {
    while (true) {
      waiting->acquire();
      const double arrived = queue.front();
      queue.pop_front();
      model.serve(arrived);
    }
  };
  for (int w = 0; w < model.servers; ++w) s4u::Actor::create("worker", host, work)->daemonize();
}

void with_mailbox(Model& model, s4u::Host* host) {
  static s4u::Mailbox* const mailbox = s4u::Mailbox::by_name("requests");
  s4u::Actor::create("source", host, [&model] {
    for (long i = 0; i < model.requests; ++i) {
      s4u::this_actor::sleep_for(model.arrivals.exponential(1 / model.rate));
      mailbox->put_init(new double(s4u::Engine::get_clock()), 0)->detach();
    }
  });
  const auto work = [&model] {
    while (true) {
      const auto arrived = mailbox->get_unique<double>();
      model.serve(*arrived);
    }
  };
  for (int w = 0; w < model.servers; ++w) s4u::Actor::create("worker", host, work)->daemonize();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) return 2;
  Model model{std::atoi(argv[1]), std::atof(argv[2]), std::atof(argv[3]), std::atol(argv[4]),
              std::strtoull(argv[5], nullptr, 10)};
  int engine_argc = 1;
  s4u::Engine engine(&engine_argc, argv);
  auto* zone = s4u::create_full_zone("cluster");
  auto* host = zone->create_host("host", 1e9)->seal();
  zone->seal();
  (std::string(argv[6]) == "mailbox" ? with_mailbox : with_semaphore)(model, host);
  const std::clock_t begin = std::clock();
  engine.run();
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  const auto counted = static_cast<double>(model.started - model.requests / 20);
  std::printf("%.6f %.9f\n", seconds, 1000 * model.wait_sum / counted);
}
