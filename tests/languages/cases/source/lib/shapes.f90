! Shapes and their areas.
module shapes
  implicit none

  type :: point
    real :: x, y
  end type point

contains

  subroutine move(p, dx)
    type(point), intent(inout) :: p
    real, intent(in) :: dx
    p%x = p%x + dx
  end subroutine move

  pure real function area(radius) result(value)
    real, intent(in) :: radius
    value = 3.14 * radius ** 2
  end function area
end module shapes

program main
  use shapes
  print *, area(1.0)
end program main
