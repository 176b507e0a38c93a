using System;

namespace Shop.Orders;

public delegate void Changed(Order order);

/// <summary>An order.</summary>
[Serializable]
public partial class Order<T> : Entity, IDisposable where T : class
{
    public const int Limit = 10;
    private readonly List<T> _lines = new();

    public event Changed? OnChange;

    public Order(string id) : base(id)
    {
    }

    public string Id { get; init; } = "";

    public int Count => _lines.Count;

    public T this[int index] => _lines[index];

    public async Task<bool> SaveAsync(CancellationToken token = default)
    {
        int Twice(int n)
        {
            return 2 * n;
        }

        await Task.Delay(Twice(1), token);
        return true;
    }

    public static Order<T> operator +(Order<T> left, T right) => left;

    void IDisposable.Dispose() { }

    private enum State { Open, Closed }

    public record Line(string Sku, int Count);

    public readonly struct Money
    {
        public decimal Amount { get; }
    }
}

public interface IOrders
{
    Task<Order<string>> FindAsync(string id);
}
