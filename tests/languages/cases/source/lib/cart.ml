module Line = struct
  type t = { sku : string; count : int }

  let price line = line.count * 2
end

type cart = Line.t list

let empty = []

(* Sums up. *)
let rec total cart =
  match cart with
  | [] -> 0
  | line :: rest -> Line.price line + total rest

class counter = object
  val mutable n = 0
  method incr = n <- n + 1
end
