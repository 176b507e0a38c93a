#include "matrix.h"

namespace math {
namespace detail {

constexpr int kBlock = 64;

struct Range {
  int begin, end;
  int size() const { return end - begin; }
};

enum class Order { Row, Column };

}  // namespace detail

template <typename T>
Matrix<T>::Matrix(int rows, int columns) : cells_(rows * columns), columns_(columns) {
  cells_.shrink_to_fit();
}

template <typename T>
Matrix<T> Matrix<T>::operator*(const Matrix& other) const {
  Matrix result(columns_, other.columns_);
  return result;
}

template <typename T>
Matrix<T> Matrix<T>::identity(int size) {
  Matrix result(size, size);
  for (int i = 0; i < size; ++i) {
    result.at(i, i) = 1;
  }
  return result;
}

}  // namespace math

std::ostream& operator<<(std::ostream& out, const math::Matrix<int>& matrix) {
  return out << "matrix";
}

int math::detail::count(const Range& range) {
  auto twice = [](int n) { return 2 * n; };
  return twice(range.size());
}

const char* name() { return "matrix"; }

extern "C" int entry(void) {
  return 0;
}

template <class T>
concept Number = std::is_arithmetic_v<T>;

static int counter = 0;
