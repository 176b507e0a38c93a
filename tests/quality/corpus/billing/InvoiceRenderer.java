package shop.billing;

import java.math.BigDecimal;
import java.util.List;

/** Writes an invoice as plain text, a line for each article and the sum below. */
public final class InvoiceRenderer {
    private final int width;

    public InvoiceRenderer(int width) {
        this.width = width;
    }

    public String render(String customer, List<InvoiceLine> lines) {
        StringBuilder page = new StringBuilder("Invoice for ").append(customer).append('\n');
        BigDecimal sum = BigDecimal.ZERO;
        for (InvoiceLine line : lines) {
            page.append(pad(line.text(), line.amount().toPlainString())).append('\n');
            sum = sum.add(line.amount());
        }
        return page.append(pad("Total", sum.toPlainString())).append('\n').toString();
    }

    /** Fills the room between two texts with dots. */
    private String pad(String left, String right) {
        int room = Math.max(1, width - left.length() - right.length());
        return left + ".".repeat(room) + right;
    }

    public record InvoiceLine(String text, BigDecimal amount) {}
}
