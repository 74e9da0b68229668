// Credentials of MUNGE, which every node of a Slurm cluster can make and check: a text that says which user made it,
// and once only. Made and checked by the programs `munge` and `unmunge`; a call takes some ten milliseconds.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace tangram::node {

// Whether both programs are there.
bool has_munge();

// A credential with this payload, made by the user of this process. Errors: what munge says.
Result<std::string> make_munge(const std::string& payload);

struct MungeSays {
  uid_t user = 0;
  std::string payload;
};
// What a credential says. Errors: it is none, has expired, or was shown before.
Result<MungeSays> read_munge(const std::string& credential);

// Whether the credential has this payload, and was made by the user of this process, by root, or by one of `users`.
Result<Nothing> check_munge(const std::string& credential, const std::string& payload,
                            const std::vector<uid_t>& users = {});

}  // namespace tangram::node
