package shop.accounts;

import java.util.List;

/** An account of a customer. */
@Entity
@Table(name = "accounts")
public class Account<T extends Comparable<T>> extends Base implements Closeable {
    public static final int LIMIT = 100;
    private final List<T> entries;

    static {
        System.loadLibrary("x");
    }

    public Account(List<T> entries) {
        this.entries = entries;
    }

    @Override
    @Deprecated
    public synchronized <R> R fold(R start, BiFunction<R, T, R> step) throws IOException {
        R result = start;
        for (T entry : entries) {
            result = step.apply(result, entry);
        }
        return result;
    }

    @Override public void close() {}

    private static class Builder {
        Account<String> build() {
            return new Account<>(List.of()) {
                @Override public void close() {}
            };
        }
    }

    public enum Kind {
        PRIVATE { @Override int rate() { return 1; } },
        BUSINESS;

        int rate() {
            return 2;
        }
    }

    public record Point(int x, int y) {
        public Point {
            if (x < 0) throw new IllegalArgumentException();
        }

        static Point origin() { return new Point(0, 0); }
    }

    interface Visitor<R> {
        R visit(Account<?> account);

        default R skip() { return null; }
    }

    @interface Audited {
        String value() default "";
    }
}
