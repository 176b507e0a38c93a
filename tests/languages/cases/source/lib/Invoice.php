<?php

declare(strict_types=1);

namespace Shop\Billing;

use Shop\Model\Customer;

const CURRENCY = 'EUR';

interface Payable
{
    public function pay(int $cents): bool;
}

trait Logs
{
    protected function log(string $message): void
    {
        error_log($message);
    }
}

#[Entity(table: 'invoices')]
final class Invoice extends Document implements Payable
{
    use Logs;

    public const LIMIT = 100;

    public function __construct(private readonly Customer $customer, private array $lines = [])
    {
    }

    public function pay(int $cents): bool
    {
        $check = function (int $amount) use ($cents): bool {
            return $amount <= $cents;
        };

        return $check($this->total());
    }

    public static function fromArray(array $data): static
    {
        return new static(...$data);
    }

    abstract protected function total(): int;
}

enum Status: string
{
    case Open = 'open';

    public function label(): string
    {
        return ucfirst($this->value);
    }
}

function format_cents(int $cents, ?string $currency = null): string
{
    return sprintf('%d %s', $cents, $currency ?? CURRENCY);
}

namespace Shop\Reports;

class Monthly
{
    public function run(): void {}
}
