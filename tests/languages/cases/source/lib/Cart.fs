module Shop.Cart

type Line = { Sku: string; Count: int }

type Found =
    | One of Line
    | Nothing

let price (line: Line) =
    line.Count * 2

module Inner =
    let total lines =
        lines |> List.sumBy price
