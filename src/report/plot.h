// Pieces of SVG. Colours are names of CSS variables, so that a page can be light or dark.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tangram::report::plot {

// Escapes text for HTML, including attributes.
std::string escape(std::string_view text);
// "950", "12k", "3.4M": what fits beside a tick.
std::string brief(double value);
// Seconds of virtual time as a span of `whole_s` reads best: "06:00", "5 min", "1.5 s".
std::string time_label(double seconds, double whole_s);

// Maps values to pixels. Requires low < high; a logarithmic scale also requires positive bounds.
struct Scale {
  double low = 0;
  double high = 1;
  double from = 0;  // Pixel of `low`.
  double to = 1;    // Pixel of `high`.
  bool logarithmic = false;

  double operator()(double value) const;
};
// Round values within the scale: steps of 1, 2 or 5, or of powers of ten.
std::vector<double> ticks(const Scale& scale, int wanted);
// Round steps of time: seconds, minutes and hours as clocks have them.
std::vector<double> time_ticks(const Scale& scale, int wanted);

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
};

// Collects shapes and gives them back as one <svg> that scales with the page.
class Picture {
 public:
  Picture(double width, double height, std::string_view label);

  // `colour` is a CSS variable without the dashes, `tip` the tooltip; empty for none.
  void rect(const Box& box, std::string_view colour, std::string_view tip = {}, double opacity = 1, double radius = 0);
  void frame(const Box& box, std::string_view colour, double radius = 0);
  void line(double x1, double y1, double x2, double y2, std::string_view colour, bool dashed = false);
  void polyline(const std::vector<std::pair<double, double>>& points, std::string_view colour);
  // Fills the area between two lines. All three vectors have the same length.
  void area(const std::vector<double>& x, const std::vector<double>& low, const std::vector<double>& high,
            std::string_view colour, double opacity);
  enum class Anchor { start, middle, end };
  void text(double x, double y, std::string_view text, Anchor anchor = Anchor::start, std::string_view colour = "muted",
            double size = 11);

  void y_axis(const Scale& scale, double left, double right, int wanted, std::string_view unit = {});
  void x_axis(const Scale& scale, double y, int wanted, std::string_view unit = {});
  void time_axis(const Scale& scale, double y, int wanted);

  std::string take() { return std::move(out_) + "</svg>\n"; }

 private:
  std::string out_;
};

}  // namespace tangram::report::plot
