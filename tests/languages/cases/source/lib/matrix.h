#pragma once

#include <vector>

namespace math {

template <typename T>
class Matrix;

/// A dense matrix.
template <typename T>
class Matrix final : public Shape {
 public:
  using value_type = T;

  explicit Matrix(int rows, int columns);
  ~Matrix() override = default;

  T& at(int row, int column) { return cells_[row * columns_ + column]; }
  Matrix operator*(const Matrix& other) const;
  static Matrix identity(int size);

 private:
  std::vector<T> cells_;
  int columns_ = 0;
};

}  // namespace math
