// SVG shapes, scales and axes.
//
// Colours are CSS variables and never values, so that one page can be light or dark. The output is deterministic:
// numbers have one decimal, and logarithms come from base/math.h, so the same data gives the same bytes on every
// machine.

#include "report/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "base/text.h"

namespace tangram::report::plot {
namespace {

// One decimal: a tenth of a pixel is invisible, and short numbers keep a page with thousands of shapes small.
std::string px(double value) {
  std::string text = fmt::format("{:.1f}", value);
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

// By multiplication and not std::pow, whose last bit differs between machines.
double power_of_ten(int exponent) {
  double power = 1;
  for (int i = 0; i < std::abs(exponent); ++i) power *= 10;
  return exponent < 0 ? 1 / power : power;
}

// The tolerance keeps a tick that lies on the end of the scale in spite of rounding. Adding 0.0 turns -0 into 0.
std::vector<double> multiples(double low, double high, double step) {
  std::vector<double> values;
  for (double n = std::ceil(low / step - 1e-9) + 0.0; n * step <= high + 1e-9 * step; ++n) values.push_back(n * step);
  return values;
}

}  // namespace

// Covers text and double-quoted attributes; the pages have no single-quoted ones.
std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

// Three significant digits with a suffix from 10000 on; below that the number itself.
std::string brief(double value) {
  const double size = std::abs(value);
  const auto scaled = [&](double unit, const char* suffix) { return fmt::format("{:.3g}{}", value / unit, suffix); };
  if (size >= 1e9) return scaled(1e9, "G");
  if (size >= 1e6) return scaled(1e6, "M");
  if (size >= 1e4) return scaled(1e3, "k");
  // Rounded first: a tick such as 3 * 0.1 would otherwise print as 0.30000000000000004.
  return text::shortest(std::round(value * 1e6) / 1e6);
}

// The format follows the span of the whole axis and not the value, so all labels of an axis have one format.
std::string time_label(double seconds, double whole_s) {
  if (whole_s >= 2 * 3600) {
    const auto minutes = static_cast<long>(std::round(seconds / 60));
    return fmt::format("{:02}:{:02}", minutes / 60, minutes % 60);
  }
  if (whole_s >= 240) return fmt::format("{} min", text::shortest(std::round(seconds / 6) / 10));
  return fmt::format("{} s", brief(seconds));
}

// Values outside the scale are drawn at its edge rather than outside the picture.
double Scale::operator()(double value) const {
  const double share = logarithmic ? math::log(value / low) / math::log(high / low) : (value - low) / (high - low);
  return from + (to - from) * std::clamp(share, 0.0, 1.0);
}

std::vector<double> ticks(const Scale& scale, int wanted) {
  if (scale.logarithmic) {
    std::vector<double> values;
    for (int exponent = -9; exponent <= 12; ++exponent) {
      const double value = power_of_ten(exponent);
      for (const double tick : {value, 2 * value, 5 * value}) {
        if (tick >= scale.low && tick <= scale.high) values.push_back(tick);
      }
    }
    // With too many ticks only the powers of ten remain.
    if (static_cast<int>(values.size()) <= 2 * wanted) return values;
    std::erase_if(values, [](double v) { return !brief(v).starts_with('1') && !brief(v).ends_with('1'); });
    return values;
  }
  const double span = scale.high - scale.low;
  const double rough = span / wanted;
  double step = power_of_ten(static_cast<int>(std::floor(math::log(rough) / math::log(10))));
  // Steps of 1, 2, 5 and 10 times a power of ten: the factors 2, 2.5 and 2 lead from each to the next.
  for (const double factor : {2.0, 2.5, 2.0}) {
    if (step * 1.0001 >= rough) break;
    step *= factor;
  }
  return multiples(scale.low, scale.high, step);
}

// Steps as clocks have them; a step of 500 s would be round in decimals and useless on a clock.
std::vector<double> time_ticks(const Scale& scale, int wanted) {
  static constexpr double kSteps[] = {60, 120, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400};
  const double span = scale.high - scale.low;
  // Below four minutes seconds are counted in decimals.
  if (span < 240) return ticks(scale, wanted);
  for (const double step : kSteps) {
    if (span / step <= wanted) return multiples(scale.low, scale.high, step);
  }
  return ticks(scale, wanted);
}

Picture::Picture(double width, double height, std::string_view label)
    : out_(fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">", px(width), px(height),
                       escape(label))) {}

void Picture::rect(const Box& box, std::string_view colour, std::string_view tip, double opacity, double radius) {
  out_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"var(--{})\"", px(box.x), px(box.y),
                      px(box.width), px(box.height), colour);
  if (opacity < 1) out_ += fmt::format(" opacity=\"{:.2f}\"", opacity);
  if (radius > 0) out_ += fmt::format(" rx=\"{}\"", px(radius));
  out_ += tip.empty() ? "/>" : fmt::format("><title>{}</title></rect>", escape(tip));
}

void Picture::frame(const Box& box, std::string_view colour, double radius) {
  out_ +=
      fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\" fill=\"none\" stroke=\"var(--{})\"/>",
                  px(box.x), px(box.y), px(box.width), px(box.height), px(radius), colour);
}

void Picture::line(double x1, double y1, double x2, double y2, std::string_view colour, bool dashed) {
  out_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"var(--{})\"{}/>", px(x1), px(y1), px(x2),
                      px(y2), colour, dashed ? " stroke-dasharray=\"4 3\"" : "");
}

void Picture::polyline(const std::vector<std::pair<double, double>>& points, std::string_view colour) {
  out_ += "<polyline points=\"";
  for (const auto& [x, y] : points) out_ += fmt::format("{},{} ", px(x), px(y));
  out_ += fmt::format("\" fill=\"none\" stroke=\"var(--{})\" stroke-width=\"1.6\" stroke-linejoin=\"round\"/>", colour);
}

// Along the upper edge and back along the lower one.
void Picture::area(const std::vector<double>& x, const std::vector<double>& low, const std::vector<double>& high,
                   std::string_view colour, double opacity) {
  if (x.empty()) return;
  out_ += "<path d=\"";
  for (std::size_t i = 0; i < x.size(); ++i) out_ += fmt::format("{}{} {}", i == 0 ? "M" : "L", px(x[i]), px(high[i]));
  for (std::size_t i = x.size(); i-- > 0;) out_ += fmt::format("L{} {}", px(x[i]), px(low[i]));
  out_ += fmt::format("Z\" fill=\"var(--{})\" opacity=\"{:.2f}\"/>", colour, opacity);
}

void Picture::text(double x, double y, std::string_view text, Anchor anchor, std::string_view colour, double size) {
  static constexpr const char* kAnchors[] = {"start", "middle", "end"};
  out_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\" fill=\"var(--{})\" font-size=\"{}\">{}</text>", px(x),
                      px(y), kAnchors[static_cast<std::size_t>(anchor)], colour, px(size), escape(text));
}

// Grid lines across the picture, with labels to the left.
void Picture::y_axis(const Scale& scale, double left, double right, int wanted, std::string_view unit) {
  for (const double tick : ticks(scale, wanted)) {
    const double y = scale(tick);
    line(left, y, right, y, "grid");
    text(left - 6, y + 4, brief(tick) + std::string(unit), Anchor::end);
  }
}

void Picture::x_axis(const Scale& scale, double y, int wanted, std::string_view unit) {
  line(scale.from, y, scale.to, y, "axis");
  for (const double tick : ticks(scale, wanted)) {
    line(scale(tick), y, scale(tick), y + 4, "axis");
    text(scale(tick), y + 16, brief(tick) + std::string(unit), Anchor::middle);
  }
}

// Like x_axis(), with ticks and labels of time.
void Picture::time_axis(const Scale& scale, double y, int wanted) {
  line(scale.from, y, scale.to, y, "axis");
  for (const double tick : time_ticks(scale, wanted)) {
    line(scale(tick), y, scale(tick), y + 4, "axis");
    text(scale(tick), y + 16, time_label(tick, scale.high - scale.low), Anchor::middle);
  }
}

}  // namespace tangram::report::plot
