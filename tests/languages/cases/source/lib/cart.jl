module Shop

export Cart, total

abstract type Base end

struct Line <: Base
    sku::String
end

mutable struct Cart{T}
    items::Vector{T}
end

"""Sums up."""
function total(cart::Cart{T}) where {T}
    sum(item -> price(item), cart.items)
end

price(line::Line) = 2

macro logged(expression)
    :(println($expression))
end

end
