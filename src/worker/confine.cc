// Capabilities, seccomp and limits of a process, by system calls: no library of ours has them, and each is a few lines.
//
// The filter is a list of what is denied. A list of what is allowed would have to follow CUDA, libtorch and the C
// library through all of their versions, and would break at each; what is denied here, no engine needs on any.

#include "worker/confine.h"

#include <fmt/format.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace tangram::worker {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;  // No filter.
#endif

// The leak checker of the sanitizers traces its own process.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kTracesItself = true;
#elif defined(__has_feature)
constexpr bool kTracesItself = __has_feature(address_sanitizer);
#else
constexpr bool kTracesItself = false;
#endif

// Other processes, the kernel, mounts and namespaces, keys, the clock of the machine.
constexpr std::array kDenied{SYS_ptrace,
                             SYS_process_vm_readv,
                             SYS_process_vm_writev,
                             SYS_kexec_load,
                             SYS_init_module,
                             SYS_finit_module,
                             SYS_delete_module,
                             SYS_bpf,
                             SYS_perf_event_open,
                             SYS_userfaultfd,
                             SYS_mount,
                             SYS_umount2,
                             SYS_pivot_root,
                             SYS_chroot,
                             SYS_setns,
                             SYS_unshare,
                             SYS_reboot,
                             SYS_swapon,
                             SYS_swapoff,
                             SYS_settimeofday,
                             SYS_clock_settime,
                             SYS_acct,
                             SYS_quotactl,
                             SYS_add_key,
                             SYS_request_key,
                             SYS_keyctl,
                             SYS_open_by_handle_at,
                             SYS_io_uring_setup,
                             SYS_open_tree,
                             SYS_move_mount,
                             SYS_fsopen};

// Appends the instructions that answer EPERM to one system call, and go on otherwise.
void deny(std::vector<sock_filter>& filter, long call) {
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
}

// Denies the calls above, and sockets of the network: a worker speaks with its gateway by the socket that it has.
std::vector<sock_filter> make_filter() {
  std::vector<sock_filter> filter;
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)));
  // Calls by another ABI have other numbers.
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
#if defined(__x86_64__)
  // The numbers of x32 have this bit; without this they would pass as others.
  constexpr std::uint32_t kX32 = 0x40000000;
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kX32, 0, 1));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
#endif
  for (const long call : kDenied) {
    if (call != SYS_ptrace || !kTracesItself) deny(filter, call);
  }
  // socket(family, ...): the number is still loaded; the family is the lower half of the first argument.
  filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 7));
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])));
  for (const std::uint32_t family : {AF_INET, AF_INET6, AF_PACKET}) deny(filter, static_cast<long>(family));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  return filter;
}

bool has_filter() { return prctl(PR_GET_SECCOMP) == SECCOMP_MODE_FILTER; }

void drop_capabilities() {
  // The bounding set first: dropping from it needs a capability itself. Without it nothing can be gained by exec, which
  // no_new_privs prevents as well.
  for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; ++capability) {
    prctl(PR_CAPBSET_DROP, capability);
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  syscall(SYS_capset, &header, none.data());
}

bool has_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> held{};
  if (syscall(SYS_capget, &header, held.data()) != 0) return true;
  return std::ranges::any_of(held, [](const auto& part) { return (part.effective | part.permitted) != 0; });
}

}  // namespace

std::optional<std::string> confine(const std::optional<WorkerUser>& user) {
  if (user) {
    // Groups first: without root they could not be given up any more.
    const bool changed = setgroups(0, nullptr) == 0 && setresgid(user->group, user->group, user->group) == 0 &&
                         setresuid(user->user, user->user, user->user) == 0;
    if (!changed) return fmt::format("cannot become user {}: {}", user->user, std::strerror(errno));
  }
  drop_capabilities();
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  // A dump of the memory would hold the requests of all tenants.
  const rlimit no_dump{0, 0};
  setrlimit(RLIMIT_CORE, &no_dump);
  if (kArchitecture != 0) {
    std::vector<sock_filter> filter = make_filter();
    const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  }
  return std::nullopt;
}

std::vector<Measure> measures_in_force() {
  rlimit dump{};
  getrlimit(RLIMIT_CORE, &dump);
  return {{"own_user", geteuid() != 0},
          {"no_new_privs", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1},
          {"no_capabilities", !has_capabilities()},
          {"no_core_dumps", dump.rlim_cur == 0 && dump.rlim_max == 0},
          {"call_filter", has_filter()}};
}

bool worker_may_have(std::string_view variable) {
  constexpr std::array<std::string_view, 8> kNames{
      "PATH", "HOME", "LANG", "TZ", "TMPDIR", "XDG_CACHE_HOME", "LD_LIBRARY_PATH", "LD_PRELOAD"};
  // Settings of the C library, of CUDA and its drivers, of OpenMP, MKL, ONNX Runtime, PyTorch and of ourselves, of
  // the sanitizers, and of the library that stands in for ONNX Runtime in tests.
  constexpr std::array<std::string_view, 23> kFamilies{
      "LC_",  "CUDA_",    "NVIDIA_",   "CUDNN_", "CUBLAS_", "NCCL_",    "OMP_",     "GOMP_",
      "KMP_", "MKL_",     "OPENBLAS_", "ORT_",   "TORCH_",  "PYTORCH_", "ATEN_",    "TF_TRT_",
      "TRT_", "TANGRAM_", "MALLOC_",   "ASAN_",  "LSAN_",   "UBSAN_",   "FAKE_ORT_"};
  const std::string_view name = variable.substr(0, variable.find('='));
  if (name == "TANGRAM_TOKEN") return false;  // Of a client on the same machine.
  return std::ranges::find(kNames, name) != kNames.end() ||
         std::ranges::any_of(kFamilies, [&](std::string_view family) { return name.starts_with(family); });
}

}  // namespace tangram::worker
