local M = {}

--- Adds an item.
function M.add(cart, item)
  table.insert(cart.items, item)
end

function M:clear()
  self.items = {}
end

local function count(cart)
  return #cart.items
end

M.total = function(cart)
  return count(cart) * 2
end

return M
