module Cart exposing (Cart, total)

import List


type alias Cart =
    { lines : List Line }


type Line
    = Line String Int


total : Cart -> Int
total cart =
    cart.lines
        |> List.map price
        |> List.sum
