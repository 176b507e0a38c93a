-module(shop).
-export([total/1]).

-record(cart, {items = [], owner}).

%% Sums up.
total([]) ->
    0;
total([Item | Rest]) ->
    Item + total(Rest).

start() ->
    spawn(fun() -> loop() end).
