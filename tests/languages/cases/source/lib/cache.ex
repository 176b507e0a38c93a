defmodule Shop.Cache do
  @moduledoc "Keeps things."
  use GenServer

  @limit 100

  def start_link(opts \\ []), do: GenServer.start_link(__MODULE__, opts)

  @impl true
  def handle_call({:get, key}, _from, state) do
    {:reply, Map.get(state, key), state}
  end

  def handle_call({:put, key, value}, _from, state) when map_size(state) < @limit do
    {:reply, :ok, Map.put(state, key, value)}
  end

  defp expire(state) do
    state
  end

  defmacro cached(do: block) do
    quote do: unquote(block)
  end
end

defprotocol Shop.Size do
  def size(thing)
end

defimpl Shop.Size, for: Map do
  def size(map), do: map_size(map)
end
