// Assigns rows to columns at the least total cost, such as roles of a plan to devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace tangram::plan {

// Beyond this many rows the exact method, cubic in them, gives way to one in which each row in
// turn takes the cheapest column that is left.
inline constexpr std::size_t kExactAssignmentMax = 300;

// The column of each row, each column at most once, with the least sum of costs up to that size. `columns` >= `rows`.
// Costs are not negative and their sums fit into 63 bits. Equal costs are resolved the same way every time.
std::vector<std::size_t> assign(std::size_t rows, std::size_t columns,
                                const std::function<std::int64_t(std::size_t row, std::size_t column)>& cost);

}  // namespace tangram::plan
